// What is drawn of curves: smoothed, over env-steps or time, single runs or the median over seeds.
/* global el, gridOf, valuesAt, setText */
import { choice, median } from "./widgets.js";

const COLORS = ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7"];
const DASHES = [undefined, [8, 4], [2, 3], [12, 3, 2, 3]];
export const paint = (i) => ({
  color: COLORS[i % COLORS.length],
  dash: DASHES[Math.floor(i / COLORS.length) % DASHES.length],
});

// The reader's choices; they hold in all views.
const chosen = { x: "steps", smoothing: 0, seeds: "together" };

// Controls that call `change` after every choice.
export function controls(change, { seeds = false } = {}) {
  const set = (key) => (value) => {
    chosen[key] = value;
    change();
  };
  const words = el("output", {}, ""),
    slider = el("input", { type: "range", min: 0, max: 0.99, step: 0.01 });
  const tell = () => {
    setText(words, chosen.smoothing ? chosen.smoothing.toFixed(2) : "off");
    slider.setAttribute("aria-valuetext", words.textContent);
  };
  slider.value = chosen.smoothing;
  slider.addEventListener("input", () => {
    chosen.smoothing = Number(slider.value);
    tell();
    change();
  });
  tell();
  return el(
    "div",
    { class: "controls" },
    choice(
      "Over",
      [
        ["steps", "env-steps"],
        ["time", "wall time"],
      ],
      chosen.x,
      set("x"),
    ),
    el("label", { class: "slider" }, "Smoothing", slider, words),
    seeds
      ? choice(
          "Seeds",
          [
            ["together", "median and spread"],
            ["single", "single runs"],
          ],
          chosen.seeds,
          set("seeds"),
        )
      : null,
  );
}
export const areSeedsTogether = () => chosen.seeds === "together";

// An exponential moving average, corrected for its start as TensorBoard's is.
export function smoothed(values, weight = chosen.smoothing) {
  if (!weight) return values;
  let sum = 0,
    n = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    n += 1;
    return sum / (1 - weight ** n);
  });
}

const UNITS = [
  ["s", 1, 300],
  ["min", 60, 5 * 3600],
  ["h", 3600, Infinity],
];
// {xName, of}: the name of the x axis, and `of(curve, clock)`, the x of a curve over env-steps on it. All curves of a
// chart share one unit of time.
export function xAxis(clocks) {
  if (chosen.x === "steps") return { xName: "env-steps", of: (curve) => curve.x };
  const longest = Math.max(0, ...clocks.map((clock) => clock.mean.at(-1) ?? 0));
  const [unit, secs] = UNITS.find(([, , most]) => longest <= most);
  const of = (curve, clock) => curve.x.map((steps) => secondsAt(clock, steps) / secs);
  return { xName: `wall time, ${unit}`, of };
}
function secondsAt({ x, mean }, steps) {
  if (x.length === 0) return 0;
  const next = x.findIndex((at) => at >= steps);
  if (next === -1) return mean.at(-1);
  // The time before the first result is as long as its steps took.
  const [fromX, from] = next === 0 ? [0, 0] : [x[next - 1], mean[next - 1]];
  return x[next] === fromX ? mean[next] : from + ((mean[next] - from) * (steps - fromX)) / (x[next] - fromX);
}

// One run's curve as a line; with its range from minimum to maximum if `range`, and raw behind it if it is smoothed.
export function lineOf(label, look, curve, x, { range = false, marks = false } = {}) {
  const isSmooth = chosen.smoothing > 0 && !marks;
  return {
    label,
    ...look,
    x,
    marks,
    y: marks ? curve.mean : smoothed(curve.mean),
    raw: isSmooth ? curve.mean : undefined,
    ...(range && curve.min && !isSmooth ? { lo: curve.min, hi: curve.max } : {}),
  };
}

// Runs that differ in their seed as one line: at each x the median and the lowest to highest of the runs, as
// far as most of them reach.
export function medianOf(label, look, curves) {
  const full = curves.filter(({ x }) => x.length > 0);
  const grid = gridOf(full),
    least = Math.floor(full.length / 2) + 1;
  const columns = full.map(({ x, curve }) => valuesAt(grid, x, smoothed(curve.mean)));
  const line = { label, ...look, x: [], y: [], lo: [], hi: [] };
  grid.forEach((x, i) => {
    const there = columns
      .map((column) => column[i])
      .filter((value) => value != null)
      .sort((a, b) => a - b);
    if (there.length < least) return;
    line.x.push(x);
    line.y.push(median(there));
    line.lo.push(there[0]);
    line.hi.push(there.at(-1));
  });
  return line;
}
