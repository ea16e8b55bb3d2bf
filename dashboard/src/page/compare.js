// Several runs laid over each other.
/* global el, clean, setText, rebuilt, nothing, table, overlay, counted */
import { curves as askCurves, differences, follow, runs as askRuns } from "./data.js";
import { FIGURES, panel, problem, runLink, stateBadge } from "./widgets.js";
import { areSeedsTogether, controls, lineOf, medianOf, paint, xAxis } from "./curves.js";
import { setting } from "./run.js";

export function comparison({ main, h1, title }, ids) {
  title(`Comparison of ${counted(ids.length, "run")}`);
  const failed = problem(),
    missing = el("p", { class: "note" });
  const returns = overlay("Episode return", { height: 380, empty: "No episode has ended.", range: "mean" });
  const evaluation = overlay("Evaluations", { height: 260, empty: "No evaluation has ended.", range: "mean return" });
  const finals = rebuilt("div", {}, finalFigures),
    changes = rebuilt("div", {}, differing);
  const explained = el("p", { class: "aside" });
  main.append(
    h1,
    failed.element,
    missing,
    el(
      "div",
      { class: "panels" },
      panel(
        "Learning",
        "wide",
        controls(() => draw(), { seeds: true }),
        returns.element,
        evaluation.element,
        explained,
      ),
      panel("Final figures", "wide", finals.element),
      panel("Settings that differ", "wide", changes.element),
    ),
  );

  let runs = [],
    keys = null,
    summaries = new Map();
  const draw = () => {
    const named = labels(runs, keys);
    const axis = xAxis(runs.map((run) => run.clock));
    const groups = areSeedsTogether() ? grouped(runs) : runs.map((run) => [run]);
    const lines = (field, marks) =>
      groups.map((group, i) => {
        if (group.length === 1)
          return lineOf(
            named.single.get(group[0].id),
            paint(i),
            group[0][field],
            axis.of(group[0][field], group[0].clock),
            { marks },
          );
        return medianOf(
          named.group.get(group[0].group),
          paint(i),
          group.map((run) => ({ curve: run[field], x: axis.of(run[field], run.clock) })),
        );
      });
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
    finals.update(
      groups.map((group, i) => ({
        look: paint(i),
        label: group.length > 1 ? named.group.get(group[0].group) : null,
        rows: group.map((run) => ({ ...(summaries.get(run.id) ?? run), label: named.single.get(run.id) })),
      })),
    );
    changes.update({ keys, runs: runs.map((run) => [run.id, named.single.get(run.id)]) });
  };
  const ends = [
    follow(
      ({ runs }) => ids.some((id) => runs.has(id)),
      () => askCurves(ids),
      (answer, error) => {
        failed.update(error);
        if (!answer) return;
        runs = answer.runs;
        const there = new Set(runs.map((run) => run.id));
        const gone = ids.filter((id) => !there.has(id));
        missing.hidden = gone.length === 0;
        setText(
          missing,
          gone.length ? `${counted(gone.length, "run")} of this comparison cannot be found: ${gone.join(", ")}` : "",
        );
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
      () => false,
      () => differences(ids),
      (answer, error) => {
        if (error) return failed.update(error);
        keys = answer.keys.map(({ key, values }) => ({
          key,
          of: Object.fromEntries(answer.runs.map((id, i) => [id, values[i]])),
        }));
        draw();
      },
    ),
  ];
  return () => ends.forEach((end) => end());
}

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
      ? telling.map(({ key, of }) => `${key.split(".").at(-1)} ${setting(of[run.id])}`).join(", ")
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

// A line for each run, and above those of a group one with their medians.
function finalFigures(groups) {
  const all = groups.flatMap(({ rows }) => rows);
  const best = FIGURES.slice(0, 2).map(([, , by]) => Math.max(...all.map((row) => by(row) ?? -Infinity)));
  const badge = (state) => {
    const { element, update } = stateBadge();
    update(state);
    return element;
  };
  const swatch = (look) => el("i", { class: "swatch", style: `background:var(--${look.color})` });
  const head = el(
    "thead",
    {},
    el(
      "tr",
      {},
      ...["Run", "Seed", "State", ...FIGURES.map(([name]) => name)].map((name, i) =>
        el("th", { scope: "col", class: i > 2 || i === 1 ? "number" : null }, name),
      ),
    ),
  );
  const line = (row, look, isMember) =>
    el(
      "tr",
      { class: isMember ? "member" : null },
      el("th", { scope: "row" }, isMember ? null : swatch(look), runLink(row.id, row.label)),
      el("td", { class: "number", "data-label": "Seed" }, row.seed ?? "–"),
      el("td", { class: "in-state" }, badge(row.state)),
      ...FIGURES.map(([name, text, by], i) =>
        el(
          "td",
          { class: `number${i < 2 && all.length > 1 && by(row) === best[i] ? " best" : ""}`, "data-label": name },
          text(row),
        ),
      ),
    );
  const median = ({ label, look, rows }) =>
    el(
      "tr",
      { class: "group-row" },
      el("th", { scope: "row" }, swatch(look), label),
      el("td", { class: "number" }, ""),
      el("td", { class: "in-state" }, "median"),
      ...FIGURES.map(([name, text, by, key], i) => {
        const sorted = rows.filter((row) => by(row) != null).sort((a, b) => by(a) - by(b));
        if (!sorted.length) return el("td", { class: "number", "data-label": name }, "–");
        const half = sorted.length >> 1,
          middle = sorted.length % 2 ? by(sorted[half]) : (by(sorted[half - 1]) + by(sorted[half])) / 2;
        const spread =
          i < 2 && sorted.length > 1 ? el("small", {}, ` ${text(sorted[0])} – ${text(sorted.at(-1))}`) : null;
        return el(
          "td",
          { class: "number", "data-label": name },
          text({ [key]: key === "env_steps" ? Math.round(middle) : middle }),
          spread,
        );
      }),
    );
  const lines = groups.flatMap((group) => [
    ...(group.label ? [median(group)] : []),
    ...group.rows.map((row) => line(row, group.look, group.label != null)),
  ]);
  return [el("table", { class: "runs" }, head, el("tbody", {}, ...lines))];
}

function differing({ keys, runs }) {
  if (!keys) return [];
  if (!keys.length) return [nothing("The settings of all are equal.")];
  return [
    table("settings differences", [
      el("tr", {}, el("th", {}), ...runs.map(([, name]) => el("th", { scope: "col" }, name))),
      ...keys.map(({ key, of }) =>
        el("tr", {}, el("th", { scope: "row" }, key), ...runs.map(([id]) => el("td", {}, setting(of[id])))),
      ),
    ]),
  ];
}
