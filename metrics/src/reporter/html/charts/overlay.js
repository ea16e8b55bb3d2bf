// Several curves in one chart, of different x each.
"use strict";

const MOST_POINTS = 1500;
// The x of all lines in order; of very many, evenly chosen ones.
function gridOf(lines) {
  const all = Float64Array.from(new Set(lines.flatMap((line) => line.x))).sort();
  if (all.length <= MOST_POINTS) return [...all];
  return Array.from({ length: MOST_POINTS }, (_, i) => all[Math.round((i * (all.length - 1)) / (MOST_POINTS - 1))]);
}
// The values of a curve at the x of `grid`, with straight lines between its points; null where it does not reach.
function valuesAt(grid, x, y) {
  let next = 0;
  return grid.map((at) => {
    while (next < x.length && x[next] < at) next++;
    if (next === x.length || (x[next] !== at && next === 0)) return null;
    if (x[next] === at || y[next - 1] == null || y[next] == null) return x[next] === at ? y[next] : null;
    return y[next - 1] + ((y[next] - y[next - 1]) * (at - x[next - 1])) / (x[next] - x[next - 1]);
  });
}
// Single points, each at the nearest x of the grid.
function marksAt(grid, x, y) {
  const values = grid.map(() => null);
  let near = 0;
  x.forEach((at, i) => {
    while (near + 1 < grid.length && Math.abs(grid[near + 1] - at) <= Math.abs(grid[near] - at)) near++;
    values[near] = y[i];
  });
  return values;
}

// One point alone is no line.
const isDotted = (line) => line.marks || line.x.length < 3;

// Lines [{label, color, dash?, x, y, raw?, lo?, hi?, marks?}]: `raw` is drawn faintly behind, `lo` to `hi` as a
// band, and `marks` are single points. The list below the chart has the value of each line under the cursor, else
// its last one, and shows or hides it.
function overlay(title, { height = 300, empty, range = "" }) {
  const box = el("div", { class: "plot" }),
    none = nothing(empty),
    about = el("span", {}, range),
    list = el("ul", { class: "lines" });
  const element = el(
    "figure",
    { class: "chart" },
    el("figcaption", {}, el("b", {}, title), " ", about),
    none,
    box,
    list,
  );
  const hidden = new Set();
  let given = { lines: [], xName: "" },
    shown = [],
    columns = [[]],
    shape = "";

  // For each shown line its columns: the line itself comes last.
  const columnsOf = (line, grid) => {
    const at = (y) => valuesAt(grid, line.x, y);
    return [
      ...(line.lo
        ? [
            ["hi", at(line.hi)],
            ["lo", at(line.lo)],
          ]
        : []),
      ...(line.raw ? [["raw", at(line.raw)]] : []),
      ["main", isDotted(line) ? marksAt(grid, line.x, line.y) : at(line.y)],
    ];
  };
  let kinds = [];
  const plot = mount(box, height, () => {
    const stroke = (line) => color(line.color);
    const series = kinds.map(
      ([kind, line]) =>
        ({
          raw: { stroke: stroke(line) + "55", width: 1 },
          lo: { points: { show: false } },
          hi: { points: { show: false } },
          main: {
            stroke: stroke(line),
            width: line.marks ? 1 : 2,
            dash: line.dash,
            points: { show: isDotted(line), size: 6, fill: stroke(line) },
          },
        })[kind],
    );
    const bands = kinds.flatMap(([kind, line], i) =>
      kind === "hi" ? [{ series: [i + 1, i + 2], fill: stroke(line) + "26" }] : [],
    );
    return {
      x: { label: given.xName, labelSize: 18, values: labels },
      plot: {
        scales: { ...noTime, y: { range: rangeOfY(false) } },
        legend: { show: false },
        cursor: { points: { size: 6 } },
        focus: { alpha: 0.3 },
        series: [{}, ...series.map((one) => ({ spanGaps: true, points: { show: false }, ...one }))],
        bands,
      },
    };
  });

  const valueOf = (line, idx) => {
    const column = kinds.findIndex(([kind, other]) => kind === "main" && other.label === line.label);
    if (column < 0) return null;
    const values = columns[column + 1];
    if (idx == null || isDotted(line))
      return values.slice(0, idx == null ? values.length : idx + 1).findLast((value) => value != null);
    return values[idx];
  };
  const tell = (idx) => {
    for (const line of given.lines) setText(items.get(line.label).value, or_dash(valueOf(line, idx), figure));
    setText(about, idx == null ? range : `at ${figure(columns[0][idx])} ${given.xName}`);
  };
  let cursor = null;
  box.addEventListener("plotcursor", ({ detail }) => tell((cursor = detail)));

  const item = ({ label }) => {
    const stroke = svg("line", { x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": 3 }),
      name = el("span", { class: "name" }, label),
      value = el("span", { class: "value" });
    const button = el(
      "button",
      { type: "button", "aria-pressed": "true" },
      svg("svg", { width: 22, height: 10, "aria-hidden": "true" }, stroke),
      name,
      value,
    );
    button.addEventListener("click", () => {
      if (!hidden.delete(label)) hidden.add(label);
      draw({});
    });
    const focus = (on) =>
      plot.focus(on ? kinds.findIndex(([kind, line]) => kind === "main" && line.label === label) + 1 : 0);
    for (const [event, on] of [
      ["mouseenter", true],
      ["focus", true],
      ["mouseleave", false],
      ["blur", false],
    ])
      button.addEventListener(event, () => focus(on));
    const update = (line) => {
      button.setAttribute("aria-pressed", String(!hidden.has(label)));
      const dash = line.dash?.map((n) => n * 0.7).join(" ") ?? "none";
      fill(stroke, { style: `stroke:var(--${line.color})`, "stroke-dasharray": dash }, []);
    };
    return { element: el("li", {}, button), update, value };
  };
  const items = keyed(list, ({ label }) => label, item);
  const draw = (options) => {
    const { lines } = given;
    items.update(lines);
    shown = lines.filter((line) => line.x.length > 0 && !hidden.has(line.label));
    none.hidden = lines.some((line) => line.x.length > 0);
    box.hidden = !none.hidden;
    if (box.hidden) return tell(null);
    const grid = gridOf(shown),
      drawn = shown.map((line) => [line, columnsOf(line, grid)]);
    // Lines stand above all bands and raw curves.
    const behind = drawn.flatMap(([line, own]) => own.slice(0, -1).map(([kind, values]) => [kind, line, values]));
    const front = drawn.map(([line, own]) => [own.at(-1)[0], line, own.at(-1)[1]]);
    kinds = [...behind, ...front];
    columns = [grid, ...kinds.map(([, , values]) => values)];
    const now = JSON.stringify([
      given.xName,
      kinds.map(([kind, line]) => [kind, line.label, line.color, line.dash, isDotted(line)]),
    ]);
    const words = shown.map((line) => `${line.label}: ${or_dash(valueOf(line, null), figure)}`).join("; ");
    plot.set(
      columns,
      `${title} over ${given.xName}; the last values are ${words || "hidden"}. ` +
        "Arrow keys read single points, Escape shows all.",
      { ...options, reshaped: now !== shape },
    );
    shape = now;
    tell(cursor < grid.length ? cursor : null);
  };
  const update = (newer) => {
    const unzoom = newer.xName !== given.xName;
    given = newer;
    draw({ unzoom });
  };
  return { element, update };
}
