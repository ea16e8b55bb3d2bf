// Trials as lines over parallel axes, one for each parameter and one for the value.
/* global el, svg, fill, clean, setText, figure, compact, counted */
import { setting } from "./run.js";

const HEIGHT = 320,
  TOP = 44,
  FOOT = 14,
  LEAST_GAP = 96;
const MOST_LINES = 1000;

// `pick(rows or null)` hears which rows the brushed ranges leave, `point(row or null)` which one the pointer is at.
export function parallelAxes({ pick, point }) {
  const picture = svg("svg", { class: "parallel", role: "img" }),
    readout = el("p", { class: "readout" });
  const clear = el("button", { type: "button" }, "Clear ranges");
  const element = el(
    "div",
    {},
    el("div", { class: "scroll" }, picture),
    el("div", { class: "bar-of-tools" }, readout, clear),
  );
  const ranges = new Map();
  let data = null,
    axes = [],
    lines = [],
    width = 0;

  const inRanges = (row) =>
    [...ranges].every(([name, [low, high]]) => {
      const y = axes.find((axis) => axis.name === name)?.place(row);
      return y != null && y >= low && y <= high;
    });
  const paint = () => {
    let n = 0;
    for (const { row, path } of lines) {
      const isIn = inRanges(row);
      n += isIn;
      path.classList.toggle("out", !isIn);
    }
    clear.hidden = ranges.size === 0;
    setText(
      readout,
      ranges.size
        ? `${counted(n, "trial")} of ${lines.length} in the chosen ranges.`
        : "Drag along an axis to choose a range; point at a line, or move through the table with the keyboard, to " +
            "follow one trial.",
    );
    pick(ranges.size ? data.rows.filter(inRanges) : null);
  };
  clear.addEventListener("click", () => {
    ranges.clear();
    lay();
  });
  const highlight = (row) => {
    for (const line of lines) line.path.classList.toggle("chosen", line.row === row);
    const chosen = lines.find((line) => line.row === row);
    chosen?.path.parentNode.append(chosen.path);
    picture.classList.toggle("has-chosen", chosen != null);
    if (!chosen) return paint();
    const told = axes.map((axis) => `${axis.label} ${axis.words(row)}`);
    setText(readout, `Trial ${row.trial}${row.seed == null ? "" : `, seed ${row.seed}`}: ${told.join(" · ")}`);
  };

  const brush = (axis, x, top) => {
    const chosen = svg("rect", { class: "brush", x: x - 9, width: 18, y: 0, height: 0 }),
      strip = svg("rect", { class: "strip", x: x - 16, width: 32, y: top - 6, height: HEIGHT - TOP - FOOT + 12 });
    const show = () => {
      const range = ranges.get(axis.name);
      fill(chosen, { y: range?.[0] ?? 0, height: range ? range[1] - range[0] : 0 }, []);
    };
    let from = null;
    const yOf = (event) => event.clientY - picture.getBoundingClientRect().top;
    strip.addEventListener("pointerdown", (event) => {
      strip.setPointerCapture(event.pointerId);
      from = yOf(event);
    });
    strip.addEventListener("pointermove", (event) => {
      if (from == null) return;
      const to = yOf(event);
      if (Math.abs(to - from) < 4) ranges.delete(axis.name);
      else ranges.set(axis.name, [Math.min(from, to), Math.max(from, to)]);
      show();
      paint();
    });
    strip.addEventListener("pointerup", (event) => {
      if (from != null && Math.abs(yOf(event) - from) < 4) ranges.delete(axis.name);
      from = null;
      show();
      paint();
    });
    show();
    return [chosen, strip];
  };
  const lay = () => {
    if (!data || !width) return;
    const room = [TOP, HEIGHT - FOOT];
    axes = [...varied(data).map((parameter) => axisOf(parameter, data.rows, room)), valueAxis(data, room)];
    const total = Math.max(width, 120 + LEAST_GAP * (axes.length - 1)),
      gap = (total - 145) / Math.max(axes.length - 1, 1);
    const x = (i) => 65 + i * gap;
    const shown = data.rows.slice(0, MOST_LINES);
    const ranked = shown.filter((row) => row.value != null);
    const strength = (row) =>
      row.value == null ? 0 : Math.round(100 - (88 * ranked.indexOf(row)) / Math.max(ranked.length - 1, 1));
    lines = shown.map((row) => {
      const points = axes.map((axis, i) => [x(i), axis.place(row)]).filter(([, y]) => y != null);
      const d = points
        .map(([x, y], i) => {
          if (i === 0) return `M${x.toFixed(1)} ${y.toFixed(1)}`;
          const [fromX, fromY] = points[i - 1],
            middle = (x + fromX) / 2;
          return `C${[middle, fromY, middle, y, x, y].map((at) => at.toFixed(1)).join(" ")}`;
        })
        .join("");
      const path = svg("path", {
        d: d || "M0 0",
        class: row.value == null ? "line without" : "line",
        style: `--strength:${strength(row)}%`,
      });
      path.addEventListener("pointerenter", () => {
        highlight(row);
        point(row);
      });
      path.addEventListener("pointerleave", () => {
        highlight(null);
        point(null);
      });
      return { row, path };
    });
    // The words of the last axis stand on its other side.
    const side = (i) => (i === axes.length - 1 ? 1 : -1);
    const rules = axes.flatMap((axis, i) => [
      svg("line", { class: "axis", x1: x(i), x2: x(i), y1: room[0], y2: room[1] }),
      ...axis.ticks.map(({ y }) => svg("line", { class: "axis", x1: x(i) + 4 * side(i), x2: x(i), y1: y, y2: y })),
    ]);
    const words = axes.flatMap((axis, i) => [
      ...axis.ticks.map(({ y, words }) =>
        svg(
          "text",
          {
            class: "tick-words",
            x: x(i) + 7 * side(i),
            y: y + 4,
            "text-anchor": i === axes.length - 1 ? "start" : "end",
          },
          shortened(words, 12),
        ),
      ),
      svg(
        "text",
        { class: "axis-name", x: x(i), y: 20, "text-anchor": "middle" },
        svg("title", {}, axis.name),
        shortened(axis.label, Math.min(18, Math.floor(gap / 7.6))),
      ),
    ]);
    // The best on top.
    picture.replaceChildren(
      svg("g", {}, ...rules),
      svg("g", {}, ...lines.map(({ path }) => path).reverse()),
      svg("g", { class: "words" }, ...words),
      svg("g", {}, ...axes.flatMap((axis, i) => brush(axis, x(i), room[0]))),
    );
    fill(picture, { width: total, height: HEIGHT, viewBox: `0 0 ${total} ${HEIGHT}` }, []);
    const best = data.rows[0];
    const told =
      best?.value == null
        ? "No trial has a value yet."
        : `The best is trial ${best.trial}: ${axes.map((axis) => `${axis.label} ${axis.words(best)}`).join(", ")}.`;
    picture.setAttribute(
      "aria-label",
      clean(
        `Parallel coordinates of ${counted(lines.length, "trial")} over ` +
          `${axes.map((axis) => axis.label).join(", ")}. ${told}`,
      ),
    );
    paint();
  };
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (!now || now === width) return;
    width = now;
    lay();
  }).observe(element);
  let before;
  const update = (newer) => {
    const now = JSON.stringify(newer);
    if (now === before) return;
    before = now;
    data = newer;
    lay();
  };
  return { element, update, highlight };
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

// An axis {name, label, place(row): y or null, words(row), ticks: [{y, words}]} in the room [top, foot].
function axisOf({ key, log, choices }, rows, room) {
  const of = (row) => row.parameters[key];
  const values = rows.map(of).filter((value) => value != null);
  const label = key.split(".").at(-1),
    words = (row) => setting(of(row));
  if (!choices && values.length && values.every((value) => typeof value === "number"))
    return {
      name: key,
      label,
      words: (row) => or(of(row), short),
      ...numeric(values, log && values.every((value) => value > 0), room, of),
    };
  const all = [...(choices ?? []), ...values];
  // Numbers with the highest on top, as on the other axes; all else in the order of the sweep.
  if (all.every((value) => typeof value === "number")) all.sort((a, b) => b - a);
  const names = [...new Set(all.map(setting))];
  const y = (name) =>
    names.length < 2
      ? (room[0] + room[1]) / 2
      : room[0] + 12 + (names.indexOf(name) * (room[1] - room[0] - 24)) / (names.length - 1);
  return {
    name: key,
    label,
    words,
    place: (row) => (of(row) == null ? null : y(setting(of(row)))),
    ticks: names.map((name) => ({ y: y(name), words: name })),
  };
}
function valueAxis({ metric, mode, rows }, room) {
  const values = rows.map((row) => row.value).filter((value) => value != null),
    of = (row) => row.value;
  const label = metric.split(/[./]/).at(-1),
    words = (row) => or(row.value, figure);
  if (!values.length) return { name: metric, label, words, place: () => null, ticks: [] };
  const axis = numeric(values, false, mode === "min" ? [room[1], room[0]] : room, of);
  return { name: metric, label, words, ...axis };
}
const or = (value, text) => (value == null ? "–" : text(value));

// High values are at the end of the room that comes first.
function numeric(values, isLog, [high, low], of) {
  const scale = isLog ? Math.log10 : (value) => value;
  let [least, most] = [Math.min(...values), Math.max(...values)].map(scale);
  if (least === most) [least, most] = [least - 0.5, most + 0.5];
  const y = (value) => low + ((scale(value) - least) * (high - low)) / (most - least);
  const ticks = isLog ? logTicks(least, most) : linearTicks(least, most);
  return {
    place: (row) => (of(row) == null ? null : y(of(row))),
    ticks: ticks.map((value) => ({ y: y(value), words: short(value) })),
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
