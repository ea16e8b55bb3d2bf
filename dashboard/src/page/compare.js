// Several runs laid over each other.
/* global FIGURES, attempt, el, clean, fill, setText, rebuilt, headRow, keyed, nothing, or_dash, overlay, counted */
import { curves as askCurves, differences, follow, runs as askRuns } from "./data.js";
import { differencesTable, lastPart, median, missingFrom, missingList, panel, problem } from "./widgets.js";
import { runLink, setting, stateBadge } from "./widgets.js";
import { areSeedsTogether, controls, lineOf, medianOf, paint, xAxis } from "./curves.js";

export function comparison({ main, h1, title }, given) {
  const ids = [...new Set(given)];
  title(`Comparison of ${counted(ids.length, "run")}`);
  const failed = problem(),
    failedChanges = problem();
  const gone = rebuilt("div", {}, (missing) => (missing.length ? [missingList(missing, nameOf)] : []));
  const returns = overlay("Episode return", { height: 380, empty: "No episode has ended.", range: "mean" });
  const evaluation = overlay("Evaluations", { height: 260, empty: "No evaluation has ended.", range: "mean return" });
  const finals = finalFigures();
  const changes = rebuilt("div", {}, differing);
  const explained = el("p", { class: "aside" });
  const choices = controls(() => draw(), { seeds: true });
  const learning = panel("Learning", "wide", choices, returns.element, evaluation.element, explained);
  const figures = panel("Final figures", "wide", finals.element);
  const settings = panel("Settings that differ", "wide", failedChanges.element, changes.element);
  main.append(h1, failed.element, gone.element, el("div", { class: "panels" }, learning, figures, settings));

  let runs = [],
    keys = null,
    summaries = new Map();
  // Which runs the curves and which the settings lack: [{id, reason}].
  const missing = { curves: [], settings: [] };
  const nameOf = (id) => summaries.get(id)?.name;
  const drawCurves = (groups, named) => {
    const axis = xAxis(runs.map((run) => run.clock));
    const lineOfGroup = (group, i, field, marks) => {
      const x = (run) => axis.of(run[field], run.clock);
      const [run] = group;
      if (group.length === 1) return lineOf(named.single.get(run.id), paint(i), run[field], x(run), { marks });
      const curves = group.map((run) => ({ curve: run[field], x: x(run) }));
      return medianOf(named.group.get(run.group), paint(i), curves);
    };
    const lines = (field, marks) => groups.map((group, i) => lineOfGroup(group, i, field, marks));
    returns.update({ lines: lines("returns", false), xName: axis.xName });
    evaluation.element.hidden = runs.every((run) => run.evaluation.x.length === 0);
    evaluation.update({ lines: lines("evaluation", true), xName: axis.xName });
    setText(
      explained,
      groups.some((group) => group.length > 1)
        ? "Runs that differ in their seed alone are drawn as the median over them, and as a band from the lowest " +
            "to the highest, as far as most of them reach."
        : "",
    );
  };
  const draw = () => {
    const named = labels(runs, keys);
    const groups = areSeedsTogether() ? grouped(runs) : runs.map((run) => [run]);
    const both = [...missing.curves, ...missing.settings];
    gone.update(both.filter(({ id }, i) => both.findIndex((other) => other.id === id) === i));
    attempt(learning, () => drawCurves(groups, named));
    attempt(figures, () =>
      finals.update(
        groups.map((group, i) => ({
          look: paint(i),
          label: group.length > 1 ? named.group.get(group[0].group) : null,
          rows: group.map((run) => ({ ...(summaries.get(run.id) ?? run), label: named.single.get(run.id) })),
        })),
      ),
    );
    attempt(settings, () => changes.update({ keys, runs: runs.map((run) => [run.id, named.single.get(run.id)]) }));
  };
  const ends = [
    follow(
      ({ runs }) => ids.some((id) => runs.has(id)),
      () => askCurves(ids),
      (answer, error) => {
        failed.update(error);
        if (!answer) return;
        const odd = answer.runs.filter((run) => !hasCurves(run));
        runs = answer.runs.filter(hasCurves);
        missing.curves = [...missingFrom(answer, ids), ...odd.map(({ id }) => ({ id, reason: "it has no curves" }))];
        draw();
      },
    ),
    follow(
      ({ list, runs }) => list || ids.some((id) => runs.has(id)),
      askRuns,
      (answer) => {
        if (!answer) return;
        summaries = new Map(answer.runs.map((run) => [run.id, run]));
        draw();
      },
    ),
    follow(
      ({ runs }) => missing.settings.some(({ id }) => runs.has(id)),
      () => differences(ids),
      (answer, error) => {
        failedChanges.update(error);
        if (!answer) return;
        keys = answer.keys.map(({ key, values }) => ({
          key,
          of: Object.fromEntries(answer.runs.map((id, i) => [id, values[i]])),
        }));
        missing.settings = missingFrom(answer, ids);
        draw();
      },
    ),
  ];
  return () => ends.forEach((end) => end());
}

// One odd run must not keep the others from being drawn.
const hasCurves = (run) =>
  [run.clock, run.returns, run.evaluation].every((curve) => Array.isArray(curve?.x) && Array.isArray(curve.mean));

// Runs of one group together, in the order of their first.
function grouped(runs) {
  const groups = new Map();
  for (const run of runs) {
    const key = run.group ?? `alone ${run.id}`;
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  return [...groups.values()];
}

const MOST_KEYS_IN_A_LABEL = 3;
// Labels that tell the runs and groups apart: by the settings that differ if they are few, else by name; seeds where
// needed.
function labels(runs, keys) {
  const telling = (keys ?? []).filter(({ key }) => key !== "seed");
  const words = (run) =>
    telling.length && telling.length <= MOST_KEYS_IN_A_LABEL
      ? telling.map(({ key, of }) => `${lastPart(key, ".")} ${setting(of[run.id])}`).join(", ")
      : run.name;
  const unique = (label, taken) => {
    let own = label;
    for (let n = 2; taken.has(own); n++) own = `${label} (${n})`;
    taken.add(own);
    return own;
  };
  const single = new Map(),
    group = new Map(),
    taken = new Set(),
    takenByGroups = new Set();
  for (const run of runs) {
    const label = words(run);
    const isAmbiguous = runs.some((other) => other !== run && words(other) === label);
    single.set(run.id, unique(clean(isAmbiguous && run.seed != null ? `${label} · seed ${run.seed}` : label), taken));
  }
  for (const members of grouped(runs))
    group.set(members[0].group, unique(clean(`${words(members[0])} · ${members.length} seeds`), takenByGroups));
  return { single, group };
}

// A table with a line for each run of [{look, label, rows}], and above those of a group with a label one of their
// medians.
function finalFigures() {
  const body = el("tbody");
  const swatch = () => el("i", { class: "swatch" });
  const paintSwatch = (swatch, look) => fill(swatch, { style: `background:var(--${look.color})` }, []);
  const cell = (name) => el("td", { class: "number", "data-label": name });
  const cellsOf = () => FIGURES.map(([name]) => cell(name));
  const runRow = ({ row: { id } }) => {
    const link = runLink(id, ""),
      seed = cell("Seed"),
      state = stateBadge(),
      look = swatch(),
      cells = cellsOf();
    const place = el("th", { scope: "row" }, look, link);
    const element = el("tr", {}, place, seed, el("td", { class: "in-state" }, state.element), ...cells);
    const update = ({ row, group, best }) => {
      const isMember = group.label != null;
      element.classList.toggle("member", isMember);
      look.hidden = isMember;
      paintSwatch(look, group.look);
      setText(link, row.label);
      setText(seed, or_dash(row.seed, String));
      state.update(row.state);
      FIGURES.forEach(([, text, by], i) => {
        setText(cells[i], text(row));
        cells[i].classList.toggle("best", best[i] != null && by(row) === best[i]);
      });
    };
    return { element, place, update };
  };
  const medianRow = () => {
    const look = swatch(),
      label = el("span"),
      cells = cellsOf();
    const place = el("th", { scope: "row" }, look, label);
    const element = el(
      "tr",
      { class: "group-row" },
      place,
      el("td"),
      el("td", { class: "in-state" }, "median"),
      ...cells,
    );
    const update = ({ group: { rows, ...group } }) => {
      paintSwatch(look, group.look);
      setText(label, group.label);
      FIGURES.forEach(([, text, by, field], i) => {
        const sorted = rows.filter((row) => by(row) != null).sort((a, b) => by(a) - by(b));
        if (!sorted.length) return setText(cells[i], "–");
        const middle = median(sorted.map(by));
        const spread = i < 2 && sorted.length > 1 ? ` ${text(sorted[0])} – ${text(sorted.at(-1))}` : null;
        cells[i].replaceChildren(
          text({ [field]: field === "env_steps" ? Math.round(middle) : middle }),
          ...(spread ? [el("small", {}, spread)] : []),
        );
      });
    };
    return { element, place, update };
  };
  const lines = keyed(
    body,
    ({ key }) => key,
    (line) => (line.row ? runRow(line) : medianRow()),
  );
  const update = (groups) => {
    const all = groups.flatMap(({ rows }) => rows);
    // Of the returns alone, more is better.
    const best = FIGURES.slice(0, 2).map(([, , by]) => {
      const known = all.map(by).filter((value) => value != null);
      return all.length > 1 && known.length ? Math.max(...known) : null;
    });
    lines.update(
      groups.flatMap((group) => [
        ...(group.label == null ? [] : [{ key: `median ${group.label}`, group }]),
        ...group.rows.map((row) => ({ key: row.id, row, group, best })),
      ]),
    );
  };
  const names = ["Run", "Seed", "State", ...FIGURES.map(([name]) => name)];
  const head = el(
    "thead",
    {},
    headRow(names, (i) => i > 2 || i === 1),
  );
  return { element: el("table", { class: "runs" }, head, body), update };
}

function differing({ keys, runs }) {
  if (!keys) return [];
  if (!keys.length) return [nothing("The settings of all are equal.")];
  const rows = keys.map(({ key, of }) => [key, runs.map(([id]) => of[id])]);
  return [
    differencesTable(
      runs.map(([, name]) => name),
      rows,
    ),
  ];
}
