// Trials as lines over parallel axes, one for each parameter and one for the value.
/* global el, svg, fill, clean, setText, keyed, or_dash, figure, compact, counted */
import { lastPart, setting } from "./widgets.js";

const HEIGHT = 320,
  TOP = 44,
  FOOT = 14,
  LEAST_GAP = 96;
const MOST_LINES = 1000;

// `pick(keys or null)` hears which rows the brushed ranges leave, by `keyOf(row)`, and `point(key or null)` which one
// the pointer is at. Lines and ranges stay the same elements while trials come, so that the pointer does not lose them.
export function parallelAxes({ keyOf, pick, point }) {
  const rules = svg("g"),
    paths = svg("g"),
    words = svg("g", { class: "words" }),
    strips = svg("g");
  const picture = svg("svg", { class: "parallel", role: "img" }, rules, paths, words, strips),
    readout = el("p", { class: "readout" });
  const clear = el("button", { type: "button" }, "Clear ranges");
  const element = el(
    "div",
    {},
    el("div", { class: "scroll" }, picture),
    el("div", { class: "bar-of-tools" }, readout, clear),
  );
  // The ends of each range, in the units of its axis.
  const ranges = new Map();
  let data = null,
    axes = [],
    shown = [],
    chosen = null,
    width = 0;

  const between = (axis) =>
    ranges
      .get(axis.name)
      .map(axis.at)
      .sort((a, b) => a - b);
  const inRanges = (row) =>
    axes.every((axis) => {
      if (!ranges.has(axis.name)) return true;
      const y = axis.place(row),
        [low, high] = between(axis);
      return y != null && y >= low && y <= high;
    });
  const paint = () => {
    const left = new Set(data.rows.filter(inRanges).map(keyOf));
    lines.each(({ element }, key) => {
      element.classList.toggle("out", !left.has(key));
      element.classList.toggle("chosen", key === chosen);
    });
    const row = shown.find((row) => keyOf(row) === chosen);
    picture.classList.toggle("has-chosen", row != null);
    clear.hidden = ranges.size === 0;
    setText(readout, row ? wordsOf(row) : ranges.size ? wordsOfRanges() : HOW);
    pick(ranges.size ? left : null);
  };
  const wordsOf = (row) => {
    const told = axes.map((axis) => `${axis.label} ${axis.words(row)}`);
    return `Trial ${row.trial}${row.seed == null ? "" : `, seed ${row.seed}`}: ${told.join(" · ")}`;
  };
  const wordsOfRanges = () =>
    `${counted(shown.filter(inRanges).length, "trial")} of ${shown.length} in the chosen ranges.`;
  clear.addEventListener("click", () => {
    ranges.clear();
    lay();
  });
  const choose = (key) => {
    chosen = key;
    const path = lines.get(key)?.element;
    if (path && path !== paths.lastChild) paths.append(path);
    if (data) paint();
  };

  const line = (row) => {
    const path = svg("path"),
      key = keyOf(row);
    for (const [event, at] of [
      ["pointerenter", key],
      ["pointerleave", null],
    ])
      path.addEventListener(event, () => {
        choose(at);
        point(at);
      });
    const update = (row) => {
      const d = curveThrough(axes.map((axis) => [axis.x, axis.place(row)]).filter(([, y]) => y != null));
      const kind = row.value == null ? "line without" : "line";
      fill(path, { d, class: kind, style: `--strength:${strengthOf(row)}%` }, []);
    };
    return { element: path, update };
  };
  const lines = keyed(paths, keyOf, line);
  let strengthOf = () => 0;

  const brush = (first) => {
    const range = svg("rect", { class: "brush", width: 18, y: 0, height: 0 }),
      strip = svg("rect", { class: "strip", width: 32, y: TOP - 6, height: HEIGHT - TOP - FOOT + 12 });
    let axis = first,
      from = null;
    const show = () => {
      const [low, high] = ranges.has(axis.name) ? between(axis) : [0, 0];
      fill(range, { x: axis.x - 9, y: low, height: high - low }, []);
      fill(strip, { x: axis.x - 16 }, []);
    };
    const drag = (event) => {
      if (from == null) return;
      const to = axis.unit(event.clientY - picture.getBoundingClientRect().top);
      // A click chooses nothing.
      if (Math.abs(axis.at(to) - axis.at(from)) < 4) ranges.delete(axis.name);
      else ranges.set(axis.name, [from, to]);
      show();
      paint();
    };
    strip.addEventListener("pointerdown", (event) => {
      strip.setPointerCapture(event.pointerId);
      from = axis.unit(event.clientY - picture.getBoundingClientRect().top);
    });
    strip.addEventListener("pointermove", drag);
    strip.addEventListener("pointerup", drag);
    strip.addEventListener("lostpointercapture", () => {
      from = null;
    });
    const update = (newer) => {
      axis = newer;
      show();
    };
    return { element: svg("g", {}, range, strip), update };
  };
  const brushes = keyed(strips, (axis) => axis.name, brush);

  const lay = () => {
    if (!data || !width) return;
    const room = [TOP, HEIGHT - FOOT];
    axes = [...varied(data).map((parameter) => axisOf(parameter, data.rows, room)), valueAxis(data, room)];
    const total = Math.max(width, 120 + LEAST_GAP * (axes.length - 1)),
      gap = (total - 145) / Math.max(axes.length - 1, 1);
    axes.forEach((axis, i) => {
      axis.x = 65 + i * gap;
      // The words of the last axis stand on its other side.
      axis.side = i === axes.length - 1 ? 1 : -1;
    });
    shown = data.rows.slice(0, MOST_LINES);
    const ranked = shown.filter((row) => row.value != null);
    strengthOf = (row) =>
      row.value == null ? 0 : Math.round(100 - (88 * ranked.indexOf(row)) / Math.max(ranked.length - 1, 1));
    rules.replaceChildren(
      ...axes.flatMap(({ x, side, ticks }) => [
        svg("line", { class: "axis", x1: x, x2: x, y1: room[0], y2: room[1] }),
        ...ticks.map(({ y }) => svg("line", { class: "axis", x1: x + 4 * side, x2: x, y1: y, y2: y })),
      ]),
    );
    words.replaceChildren(...axes.flatMap((axis) => wordsOfAxis(axis, gap)));
    // The best on top, below the chosen one.
    lines.update([...shown].reverse());
    brushes.update(axes);
    fill(picture, { width: total, height: HEIGHT, viewBox: `0 0 ${total} ${HEIGHT}` }, []);
    const names = axes.map((axis) => axis.label).join(", ");
    const about = `Parallel coordinates of ${counted(shown.length, "trial")} over ${names}. ${wordsOfBest(data, axes)}`;
    picture.setAttribute("aria-label", clean(about));
    choose(chosen);
  };
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (!now || now === width) return;
    width = now;
    lay();
  }).observe(element);
  const update = (newer) => {
    data = newer;
    lay();
  };
  return { element, update, highlight: (row) => choose(row && keyOf(row)) };
}

const HOW =
  "Drag along an axis to choose a range; point at a line, or move through the table with the keyboard, to follow " +
  "one trial.";

function wordsOfBest({ rows: [best] }, axes) {
  if (best?.value == null) return "No trial has a value yet.";
  return `The best is trial ${best.trial}: ${axes.map((axis) => `${axis.label} ${axis.words(best)}`).join(", ")}.`;
}

function wordsOfAxis({ name, label, x, side, ticks }, gap) {
  const anchor = side > 0 ? "start" : "end";
  return [
    ...ticks.map(({ y, words }) =>
      svg("text", { class: "tick-words", x: x + 7 * side, y: y + 4, "text-anchor": anchor }, shortened(words, 12)),
    ),
    svg(
      "text",
      { class: "axis-name", x, y: 20, "text-anchor": "middle" },
      svg("title", {}, name),
      shortened(label, Math.min(18, Math.floor(gap / 7.6))),
    ),
  ];
}

// A curve through points, level at each of them.
function curveThrough(points) {
  const parts = points.map(([x, y], i) => {
    if (i === 0) return `M${x.toFixed(1)} ${y.toFixed(1)}`;
    const [fromX, fromY] = points[i - 1],
      middle = (x + fromX) / 2;
    return `C${[middle, fromY, middle, y, x, y].map((at) => at.toFixed(1)).join(" ")}`;
  });
  return parts.join("") || "M0 0";
}

// What is the same in all trials tells none apart.
function varied({ parameters, rows }) {
  const some = parameters.filter(({ key }) => new Set(rows.map((row) => JSON.stringify(row.parameters[key]))).size > 1);
  return some.length ? some : parameters;
}
const shortened = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);
const short = (value) =>
  Math.abs(value) >= 1e4
    ? compact(value)
    : Math.abs(value) < 1e-2 && value !== 0
      ? value.toExponential(1).replace(".0e", "e")
      : figure(value);

// An axis {name, label, place(row): y or null, words(row), ticks: [{y, words}]} in the room [top, foot]. Of its own
// units, in which a range stays while the axis grows, `at(unit)` is the y and `unit(y)` what is there.
function axisOf({ key, log, choices }, rows, room) {
  const of = (row) => row.parameters[key];
  const values = rows.map(of).filter((value) => value != null);
  const about = { name: key, label: lastPart(key, ".") };
  if (!choices && values.length && values.every((value) => typeof value === "number")) {
    const isLog = log && values.every((value) => value > 0);
    return { ...about, words: (row) => or_dash(of(row), short), ...numeric(values, isLog, room, of) };
  }
  const all = [...(choices ?? []), ...values];
  // Numbers with the highest on top, as on the other axes; all else in the order of the sweep.
  if (all.every((value) => typeof value === "number")) all.sort((a, b) => b - a);
  return { ...about, words: (row) => setting(of(row)), ...named([...new Set(all.map(setting))], room, of) };
}
function valueAxis({ metric, mode, rows }, room) {
  const of = (row) => (typeof row.value === "number" ? row.value : null);
  const values = rows.map(of).filter((value) => value != null);
  const about = { name: metric, label: lastPart(metric, /[./]/), words: (row) => or_dash(row.value, figure) };
  if (!values.length) return { ...about, ...named([], room, () => null) };
  return { ...about, ...numeric(values, false, mode === "min" ? [room[1], room[0]] : room, of) };
}

// Names one below the other; units are their numbers.
function named(names, [top, foot], of) {
  const step = names.length < 2 ? 100 : (foot - top - 24) / (names.length - 1);
  const first = names.length < 2 ? (top + foot) / 2 : top + 12;
  const at = (unit) => first + unit * step;
  return {
    at,
    unit: (y) => (y - first) / step,
    place: (row) => (of(row) == null ? null : at(names.indexOf(setting(of(row))))),
    ticks: names.map((name, i) => ({ y: at(i), words: name })),
  };
}
// Numbers, which are the units; high ones are at the end of the room that comes first.
function numeric(values, isLog, [high, low], of) {
  const scale = isLog ? (value) => Math.log10(Math.max(value, Number.MIN_VALUE)) : (value) => value;
  let [least, most] = [Math.min(...values), Math.max(...values)].map(scale);
  if (least === most) [least, most] = [least - 0.5, most + 0.5];
  const at = (value) => low + ((scale(value) - least) * (high - low)) / (most - least);
  const ticks = isLog ? logTicks(least, most) : linearTicks(least, most);
  return {
    at,
    unit(y) {
      const scaled = least + ((y - low) * (most - least)) / (high - low);
      return isLog ? 10 ** scaled : scaled;
    },
    place: (row) => (of(row) == null ? null : at(of(row))),
    ticks: ticks.map((value) => ({ y: at(value), words: short(value) })),
  };
}
function linearTicks(least, most) {
  const rough = (most - least) / 4,
    ten = 10 ** Math.floor(Math.log10(rough)),
    step = ten * [1, 2, 5, 10].find((n) => n * ten >= rough);
  const first = Math.ceil(least / step);
  return Array.from({ length: Math.floor(most / step) - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
}
function logTicks(least, most) {
  const factors = most - least < 1 ? [1, 2, 3, 5] : most - least < 3 ? [1, 3] : [1];
  const tens = Array.from({ length: Math.ceil(most) - Math.floor(least) + 1 }, (_, i) => Math.floor(least) + i);
  return tens
    .flatMap((ten) => factors.map((factor) => Number((factor * 10 ** ten).toPrecision(12))))
    .filter((value) => Math.log10(value) >= least - 1e-9 && Math.log10(value) <= most + 1e-9);
}
