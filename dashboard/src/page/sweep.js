// A sweep: its trials over parallel axes and as a table, best first.
/* global attempt, el, setText, rebuilt, keyed, nothing, whole, or_dash, figure, counted, headFigures, headRow */
import { follow, runs as askRuns, sweep as askSweep } from "./data.js";
import { comparisonPath, panel, problem, runLink, setting, stateBadge } from "./widgets.js";
import { parallelAxes } from "./parallel.js";

const MOST_ROWS = 500;
const MOST_COMPARED = 8;

export function oneSweep({ main, h1, title }, id) {
  title("Sweep");
  const failed = problem(),
    badge = stateBadge(),
    about = el("p", { class: "about" });
  const figures = rebuilt("div", {}, (rows) => [headFigures(rows)]);
  const compare = rebuilt("p", {}, (ids) =>
    ids.length > 1 ? [el("a", { href: comparisonPath(ids) }, "Compare the best runs")] : [],
  );
  const trials = trialsTable((row) => axes.highlight(row));
  const axes = parallelAxes({ keyOf, pick: trials.pick, point: trials.point });
  const head = el("div", {}, el("div", { class: "title" }, h1, badge.element), about, failed.element, figures.element);
  const picture = panel("Parameters and value", "wide", axes.element);
  const table = panel("Trials", "wide", compare.element, trials.element);
  main.append(head, el("div", { class: "panels" }, picture, table));

  let shown = null,
    isShown = () => false;
  const showHead = ({ name, mode, metric, rows }) => {
    title(`Sweep ${name}`);
    const best = `${mode === "min" ? "lowest" : "highest"} ${metric}`;
    setText(about, hasRungs(rows) ? `Highest rung first, and the ${best} of each` : `The ${best} first`);
    const n = (...states) => whole(rows.filter((row) => states.includes(row.state)).length);
    figures.update([
      ["Trials", whole(rows.length)],
      ["Waiting", n("waiting")],
      ["Running", n("running")],
      ["Finished", n("finished")],
      ["Failed or killed", n("failed", "killed")],
      [`Best ${metric}`, or_dash(rows[0]?.value, figure)],
    ]);
  };
  const ends = [
    follow(
      ({ list, runs }) => list || isShown(runs),
      () => askSweep(id),
      (answer, error) => {
        failed.update(error);
        const text = JSON.stringify(answer);
        if (!answer || text === shown) return;
        shown = text;
        isShown = (runs) => answer.rows.some((row) => runs.has(row.run));
        // The table and the picture are of the same rows, so that one points into the other.
        const sweep = { ...answer, rows: ranked(answer) };
        const withValue = sweep.rows.filter((row) => row.run != null && row.value != null);
        attempt(head, () => showHead(sweep));
        attempt(picture, () => axes.update(sweep));
        attempt(table, () => {
          compare.update(withValue.slice(0, MOST_COMPARED).map((row) => row.run));
          trials.update(sweep);
        });
      },
    ),
    follow(
      ({ list }) => list,
      askRuns,
      (answer) => {
        const known = answer?.sweeps.find((one) => one.id === id);
        if (known) badge.update(known.state);
      },
    ),
  ];
  return () => ends.forEach((end) => end());
}

const keyOf = (row) => (row.trial == null ? `run ${row.run}` : `${row.trial} of seed ${row.seed}`);

const hasRungs = (rows) => rows.some(({ rung }) => rung > 0);

// The trials with the best first, and those without a value last. As in the program's table, one that has completed a
// higher rung is better: values at different rungs are not comparable.
export function ranked({ mode, rows }) {
  const sign = mode === "min" ? 1 : -1,
    rungOf = hasRungs(rows) ? ({ rung }) => rung ?? -1 : () => 0;
  const order = (a, b) =>
    (a.value == null) - (b.value == null) ||
    rungOf(b) - rungOf(a) ||
    sign * ((a.value ?? 0) - (b.value ?? 0)) ||
    a.trial - b.trial;
  return [...rows].sort(order);
}

// Numbers as short as they tell apart.
const parameter = (value) =>
  typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : setting(value);

// A line for each trial. `highlight(row or null)` hears which one the pointer or the focus is at; `pick(keys or null)`
// leaves some, and `point(key or null)` marks one.
function trialsTable(highlight) {
  const head = el("thead"),
    body = el("tbody"),
    left = nothing("");
  const scroll = el("div", { class: "scroll" }, el("table", { class: "runs trials" }, head, body));
  let metric = "",
    parameters = [],
    columns = "",
    chosen = null,
    pointed = null;
  const mark = (key, element) => {
    element.hidden = chosen != null && !chosen.has(key);
    element.classList.toggle("pointed", key === pointed);
  };
  const line = (row) => {
    const key = keyOf(row),
      state = stateBadge(),
      link = el("a", {}),
      place = el("th", { scope: "row" });
    const number = (name) => el("td", { class: "number", "data-label": name });
    const rank = el("td", { class: "number rank" }),
      seed = number("Seed"),
      value = number(metric),
      steps = number("Env-steps");
    const cells = parameters.map((name) => el("td", { "data-label": name }));
    const inState = el("td", { class: "in-state" }, state.element);
    const element = el("tr", {}, rank, place, seed, value, steps, inState, ...cells);
    let newest = row;
    for (const [event, isAt] of [
      ["mouseenter", true],
      ["mouseleave", false],
      ["focusin", true],
      ["focusout", false],
    ])
      element.addEventListener(event, () => highlight(isAt ? newest : null));
    const update = (row, i) => {
      newest = row;
      setText(rank, row.value == null ? "" : i + 1);
      showName(row);
      setText(seed, or_dash(row.seed, String));
      setText(value, or_dash(row.value, figure));
      value.classList.toggle("best", i === 0 && row.value != null);
      setText(steps, or_dash(row.env_steps, whole));
      state.update(row.state);
      parameters.forEach((name, i) => {
        const of = row.parameters[name];
        cells[i].classList.toggle("number", typeof of === "number");
        setText(cells[i], parameter(of));
      });
      mark(key, element);
    };
    // A trial without a run can have the focus itself, and hands it on to its link.
    const showName = ({ trial, run }) => {
      const words = `trial ${trial}`;
      if (run == null) {
        setText(place, words);
        element.tabIndex = 0;
      } else if (!link.isConnected) {
        const hasFocus = document.activeElement === element;
        link.href = runLink(run, "").hash;
        setText(link, words);
        place.replaceChildren(link);
        element.removeAttribute("tabindex");
        if (hasFocus) link.focus({ preventScroll: true });
      }
    };
    return { element, place, update };
  };
  let lines;
  const update = (sweep) => {
    const now = JSON.stringify([sweep.metric, sweep.parameters.map(({ key }) => key)]);
    if (now !== columns) {
      columns = now;
      metric = sweep.metric;
      parameters = sweep.parameters.map(({ key }) => key);
      const names = ["", "Trial", "Seed", metric, "Env-steps", "State", ...parameters];
      head.replaceChildren(headRow(names, (i) => [0, 2, 3, 4].includes(i)));
      body.replaceChildren();
      lines = keyed(body, keyOf, line);
    }
    lines.update(sweep.rows.slice(0, MOST_ROWS));
    const more = sweep.rows.length - MOST_ROWS;
    scroll.hidden = sweep.rows.length === 0;
    left.hidden = sweep.rows.length > 0 && more <= 0;
    setText(left, more > 0 ? `And ${counted(more, "further trial")}.` : "No trial has begun.");
  };
  const markAll = () => lines?.each(({ element }, key) => mark(key, element));
  return {
    element: el("div", {}, scroll, left),
    update,
    pick: (keys) => {
      chosen = keys;
      markAll();
    },
    point: (key) => {
      pointed = key;
      markAll();
    },
  };
}
