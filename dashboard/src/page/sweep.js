// A sweep: its trials over parallel axes and as a table, best first.
/* global el, setText, rebuilt, nothing, whole, or_dash, figure, counted, headFigures */
import { follow, runs as askRuns, sweep as askSweep } from "./data.js";
import { panel, problem, runLink, stateBadge } from "./widgets.js";
import { parallelAxes } from "./parallel.js";
import { setting } from "./run.js";

const MOST_ROWS = 500;

export function oneSweep({ main, h1, title }, id) {
  title("Sweep");
  const failed = problem(),
    badge = stateBadge(),
    about = el("p", { class: "about" });
  const figures = rebuilt("div", {}, (rows) => [headFigures(rows)]);
  let rows = new Map(),
    chosen = null,
    sweep = null;
  const axes = parallelAxes({
    pick: (some) => {
      chosen = some && new Set(some);
      for (const [row, { line }] of rows) line.hidden = chosen != null && !chosen.has(row);
    },
    point: (row) => {
      for (const [other, { line }] of rows) line.classList.toggle("pointed", other === row);
    },
  });
  const body = rebuilt("div", {}, (data) => tableOf(data));
  const compare = el("p");
  main.append(
    el("div", { class: "title" }, h1, badge.element),
    about,
    failed.element,
    figures.element,
    el(
      "div",
      { class: "panels" },
      panel("Parameters and value", "wide", axes.element),
      panel("Trials", "wide", compare, body.element),
    ),
  );

  const tableOf = ({ parameters, metric, rows: all }) => {
    rows = new Map();
    if (!all.length) return [nothing("No trial has begun.")];
    const head = ["", "Trial", "Seed", metric, "Env-steps", "State", ...parameters.map(({ key }) => key)];
    const lines = all.slice(0, MOST_ROWS).map((row, i) => {
      const state = stateBadge();
      state.update(row.state);
      const words = `trial ${row.trial}`;
      const line = el(
        "tr",
        { tabindex: row.run == null ? 0 : null },
        el("td", { class: "number rank" }, row.value == null ? "" : i + 1),
        el("th", { scope: "row" }, row.run == null ? words : runLink(row.run, words)),
        el("td", { class: "number", "data-label": "Seed" }, row.seed ?? "–"),
        el(
          "td",
          { class: `number${i === 0 && row.value != null ? " best" : ""}`, "data-label": metric },
          or_dash(row.value, figure),
        ),
        el("td", { class: "number", "data-label": "Env-steps" }, or_dash(row.env_steps, whole)),
        el("td", { class: "in-state" }, state.element),
        ...parameters.map(({ key }) =>
          el(
            "td",
            { class: typeof row.parameters[key] === "number" ? "number" : null, "data-label": key },
            parameter(row.parameters[key]),
          ),
        ),
      );
      for (const [event, to] of [
        ["mouseenter", row],
        ["mouseleave", null],
        ["focusin", row],
        ["focusout", null],
      ])
        line.addEventListener(event, () => axes.highlight(to));
      rows.set(row, { line });
      return line;
    });
    const left = all.length - lines.length;
    return [
      el(
        "div",
        { class: "scroll" },
        el(
          "table",
          { class: "runs trials" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              ...head.map((name, i) =>
                el("th", { scope: "col", class: [0, 2, 3, 4].includes(i) ? "number" : null }, name),
              ),
            ),
          ),
          el("tbody", {}, ...lines),
        ),
      ),
      left > 0 ? nothing(`And ${counted(left, "further trial")}.`) : null,
    ];
  };
  const draw = () => {
    const { rows: all } = sweep;
    const n = (state) => all.filter((row) => row.state === state).length;
    const top = all.find((row) => row.value != null);
    figures.update([
      ["Trials", whole(all.length)],
      ["Running", whole(n("running"))],
      ["Finished", whole(n("finished"))],
      ["Failed or killed", whole(n("failed") + n("killed"))],
      [`Best ${sweep.metric}`, or_dash(top?.value, figure)],
    ]);
    compare.replaceChildren(
      ...(all.filter((row) => row.run != null && row.value != null).length > 1
        ? [
            el(
              "a",
              {
                href: `#/compare/${all
                  .filter((row) => row.run != null && row.value != null)
                  .slice(0, 8)
                  .map((row) => encodeURIComponent(row.run))
                  .join(",")}`,
              },
              "Compare the best runs",
            ),
          ]
        : []),
    );
  };
  const ends = [
    follow(
      ({ list, runs }) => list || sweep?.rows.some((row) => runs.has(row.run)),
      () => askSweep(id),
      (answer, error) => {
        failed.update(error);
        if (!answer) return;
        const sign = answer.mode === "min" ? 1 : -1;
        const order = (a, b) =>
          (a.value == null) - (b.value == null) || sign * ((a.value ?? 0) - (b.value ?? 0)) || a.trial - b.trial;
        // The table and the picture are of the same rows, so that one points into the other.
        if (JSON.stringify(answer) === sweep?.text) return;
        sweep = { ...answer, text: JSON.stringify(answer), rows: [...answer.rows].sort(order) };
        title(`Sweep ${sweep.name}`);
        setText(about, `${sweep.mode === "min" ? "Lowest" : "Highest"} ${sweep.metric} first`);
        body.update(sweep);
        axes.update(sweep);
        draw();
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

// Numbers as short as they tell apart.
const parameter = (value) =>
  typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : setting(value);
