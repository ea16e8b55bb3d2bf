// Curves and histograms, drawn by uPlot.
"use strict";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
// uPlot's own labels repeat an unrounded number where ticks are close; compact ones stay short.
const labels = (_plot, ticks) => {
  const largest = Math.max(...ticks.map(Math.abs)),
    step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 0;
  if (largest !== 0 && (largest < 1e-4 || largest >= 1e15)) return ticks.map((tick) => tick.toExponential(1));
  // As many as the step needs: 225 must not read 230 beside 200 and 250.
  const order = (value) => Math.floor(Math.log10(value) + 1e-9),
    ofStep = step > 0 && !Number.isInteger(+(step / 10 ** order(step)).toFixed(6)) ? 2 : 1;
  const digits = step > 0 ? Math.min(Math.max(order(largest) - order(step) + ofStep, 1), 15) : 4;
  return ticks.map((tick) => tick.toLocaleString("en", { notation: "compact", maximumSignificantDigits: digits }));
};
const figureOr = (_plot, value) => (value == null ? "–" : figure(value));

// Every plot. All are drawn anew when the page switches between light and dark.
const plots = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.draw()));
// Ends the plots in an element that goes: uPlot listens to the window as long as it is not destroyed.
function endPlotsIn(element) {
  for (const plot of plots) if (element.contains(plot.box)) plot.end();
}

// A plot in `box`, drawn once the box has a width. `options()` gives {x: options of the x axis, plot: options of
// uPlot}. `set` shows new columns, where the reader has zoomed to unless `unzoom`; `reshaped` if they need other
// options.
function mount(box, height, options) {
  let plot,
    columns,
    zoomed = false;
  const draw = () => {
    if (!columns || !box.clientWidth) return;
    const scale = zoomed && plot ? { min: plot.scales.x.min, max: plot.scales.x.max } : null;
    plot?.destroy();
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const { x, plot: own } = options();
    const axis = {
      stroke: color("soft"),
      font,
      labelFont: font,
      grid: { stroke: color("rule"), width: 1 },
      ticks: { show: false },
    };
    const axes = [
      { ...axis, size: 30, ...x, grid: { show: false } },
      { ...axis, size: 56, values: labels },
    ];
    const hooks = {
      draw: [({ scales }) => Object.assign(box.dataset, { from: scales.x.min, to: scales.x.max })],
      setSelect: [
        (plot) => {
          zoomed ||= plot.select.width > 0;
        },
      ],
      setCursor: [(plot) => box.dispatchEvent(new CustomEvent("plotcursor", { detail: plot.cursor.idx }))],
    };
    plot = new uPlot({ width: box.clientWidth, height, ...own, axes, hooks }, columns, box);
    plot.over.addEventListener("dblclick", () => {
      zoomed = false;
    });
    if (scale) plot.setScale("x", scale);
  };
  const move = (event) => {
    const n = columns?.[0].length ?? 0;
    if (!plot || !n) return;
    if (event.key === "Escape") {
      zoomed = false;
      plot.setData(columns);
      return;
    }
    const step = {
      ArrowLeft: -1,
      ArrowRight: 1,
      PageUp: -Math.ceil(n / 10),
      PageDown: Math.ceil(n / 10),
      Home: -n,
      End: n,
    }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = Math.min(Math.max((plot.cursor.idx ?? (step > 0 ? -1 : n)) + step, 0), n - 1);
    plot.setCursor({ left: plot.valToPos(columns[0][at], "x"), top: plot.bbox.height / devicePixelRatio / 2 });
  };
  box.addEventListener("keydown", move);
  const resized = new ResizeObserver(() => {
    if (plot && box.clientWidth) plot.setSize({ width: box.clientWidth, height });
    else draw();
  });
  resized.observe(box);
  const self = {
    box,
    draw,
    end() {
      plots.delete(self);
      resized.disconnect();
      plot?.destroy();
      plot = columns = null;
    },
    // Fades all series but the one with this number, or none if it is 0.
    focus: (i) => plot?.setSeries(i || null, { focus: i > 0 }),
    set(newer, summary, { reshaped = false, unzoom = false } = {}) {
      columns = newer;
      zoomed &&= !unzoom;
      fill(box, { role: "img", tabindex: 0, "aria-label": clean(summary) }, []);
      if (!plot || reshaped) return draw();
      plot.setData(columns, !zoomed);
      if (zoomed) plot.redraw();
    },
  };
  plots.add(self);
  return self;
}

// A curve in words, for those who cannot see it.
function curveInWords(title, { x, mean }, xName) {
  const at = (i) => `${figure(mean[i])} at ${figure(x[i])} ${xName}`;
  const best = mean.reduce((best, value, i) => (value > mean[best] ? i : best), 0);
  return `${title}: from ${at(0)} to ${at(x.length - 1)}; highest ${at(best)}. Arrow keys read single points.`;
}

// The notes and options of charts that the report and the page have.
const MEAN_AND_RANGE = "mean, and the range from minimum to maximum";
const OF_LAG = { zero: true, empty: "No result has a policy lag." };
const OF_RATE = { zero: true, empty: "No result has a throughput.", xName: "wall time, s" };

const noTime = { x: { time: false } };
// Zero is shown where it is near: half as high is half as much.
const rangeOfY = (zero) => (_plot, min, max) =>
  uPlot.rangeNum(zero || (min > 0 && min < 0.35 * max) ? Math.min(0, min) : min, max, 0.05, true);

// One curve with its range from minimum to maximum.
function lineChart(
  title,
  note,
  { small = false, zero = false, height = small ? 96 : 260, empty, xName = "env-steps" },
) {
  const box = el("div", { class: "plot" }),
    none = nothing(empty),
    bad = el("p", { class: "bad" });
  const about = el("span", {}, note);
  const element = el(
    "figure",
    { class: small ? "chart small" : "chart" },
    el("figcaption", {}, el("b", {}, title), " ", about),
    none,
    box,
    bad,
  );
  let hasRange, isShort;
  const plot = mount(box, height, () => ({
    x: { label: small ? undefined : xName, labelSize: 18, values: labels },
    plot: {
      scales: { ...noTime, y: { range: rangeOfY(zero) } },
      legend: { show: !small },
      cursor: { points: { size: 6 } },
      series: [
        { label: xName, value: figureOr },
        { label: "mean", stroke: color("line"), width: 1.75, value: figureOr, points: { show: isShort } },
        ...(hasRange ? ["min", "max"].map((label) => ({ label, value: figureOr, points: { show: false } })) : []),
      ],
      bands: hasRange ? [{ series: [3, 2], fill: color("line") + "29" }] : [],
    },
  }));
  const update = (curve, { newNote, warning } = {}) => {
    const isEmpty = curve.x.length === 0;
    none.hidden = !isEmpty || !empty;
    box.hidden = isEmpty;
    if (newNote != null) setText(about, newNote);
    setText(bad, warning ?? "");
    bad.hidden = !warning;
    if (isEmpty) return;
    const reshaped = (curve.min !== undefined) !== hasRange || curve.x.length < 3 !== isShort;
    [hasRange, isShort] = [curve.min !== undefined, curve.x.length < 3];
    const columns = hasRange ? [curve.x, curve.mean, curve.min, curve.max] : [curve.x, curve.mean];
    plot.set(columns, curveInWords(title, curve, xName), { reshaped });
  };
  return { element, update };
}

// A chart for each of [{name, last, not_finite, curve}], by name.
function smallCharts() {
  const element = el("div", { class: "many" });
  const chart = ({ name }) => {
    const { element, update } = lineChart(name, "", { small: true, empty: "No result has a finite number." });
    const warning = (n) => (n ? `not finite in ${counted(n, "result")}` : null);
    return {
      element,
      update: ({ last, not_finite, curve }) => update(curve, { newNote: figure(last), warning: warning(not_finite) }),
    };
  };
  return { element, update: keyed(element, ({ name }) => name, chart).update };
}

// The statistics of the learner of {learner: {policy: [as of `smallCharts`]}, curves_left_out}.
function learnerCharts() {
  const none = nothing("No result has statistics of the learner."),
    body = el("div"),
    aside = el("p", { class: "aside" }, "All over env-steps; the number is that of the last result."),
    rest = nothing("");
  const policies = keyed(
    body,
    ([policy]) => policy,
    ([policy]) => {
      const charts = smallCharts();
      const element = el("div", {}, el("h3", {}, policy), charts.element);
      return { element, update: ([, curves]) => charts.update(curves) };
    },
  );
  const update = ({ learner, curves_left_out }) => {
    policies.update(Object.entries(learner));
    none.hidden = Object.keys(learner).length > 0;
    aside.hidden = !none.hidden;
    rest.hidden = !curves_left_out;
    if (curves_left_out) setText(rest, `And ${counted(curves_left_out, "further curve")}, left out for size.`);
  };
  return { element: el("div", {}, none, body, aside, rest), update };
}

// `3` where only that number can be in the bar, else `4–7`, `0.5–1`, `64+`.
function barName(from, to) {
  if (to == null) return `${figure(from)}+`;
  if (!Number.isInteger(from) || !Number.isInteger(to)) return `${figure(from)}–${figure(to)}`;
  return to - from <= 1 ? figure(from) : `${figure(from)}–${figure(to - 1)}`;
}
// At most 40 bars of {edges, counts}, without empty ones at the ends; null if it is no histogram.
function barsOf({ edges, counts } = {}) {
  const fits = Array.isArray(edges) && Array.isArray(counts) && [0, 1].includes(edges.length - counts.length);
  if (!fits || counts.some((n) => !(n >= 0))) return null;
  let bars = counts.map((n, i) => ({ from: edges[i], to: edges[i + 1], n }));
  while (bars.length && bars[0].n === 0) bars.shift();
  while (bars.length && bars.at(-1).n === 0) bars.pop();
  while (bars.length > 40)
    bars = bars.flatMap((bar, i) =>
      i % 2 ? [] : [{ ...bar, to: (bars[i + 1] ?? bar).to, n: bar.n + (bars[i + 1]?.n ?? 0) }],
    );
  return bars;
}
// The histogram of the policy lag.
function histogram() {
  const box = el("div", { class: "plot" }),
    none = nothing("");
  const element = el(
    "figure",
    { class: "chart" },
    el("figcaption", {}, el("b", {}, "Policy lag in the last result"), " ", el("span", {}, "share of all, %")),
    none,
    box,
  );
  let bars = [];
  const name = (i) => (bars[i] ? barName(bars[i].from, bars[i].to) : "");
  const plot = mount(box, 180, () => ({
    x: { label: "versions behind", labelSize: 18, incrs: [1, 2, 5, 10, 20], values: (_plot, ticks) => ticks.map(name) },
    plot: {
      scales: {
        x: { time: false, range: () => [-0.6, bars.length - 0.4] },
        y: { range: (_plot, _min, max) => [0, max * 1.05] },
      },
      cursor: { drag: { x: false, y: false } },
      series: [
        { label: "versions", value: (_plot, i) => name(i) || "–" },
        {
          label: "share, %",
          fill: color("line"),
          stroke: color("line"),
          paths: uPlot.paths.bars({ size: [0.84] }),
          points: { show: false },
          value: (_plot, v) => (v == null ? "–" : v.toFixed(1)),
        },
      ],
    },
  }));
  const update = (data) => {
    const found = data && barsOf(data);
    element.hidden = data == null;
    bars = found ?? [];
    const total = bars.reduce((sum, bar) => sum + bar.n, 0);
    setText(
      none,
      found
        ? "The histogram of the policy lag in the last result is empty."
        : "The last result has no readable histogram of the policy lag.",
    );
    none.hidden = total > 0;
    box.hidden = !total;
    if (!total) return;
    const shares = bars.map((bar) => (100 * bar.n) / total);
    const most = shares.indexOf(Math.max(...shares));
    plot.set(
      [bars.map((_, i) => i), shares],
      `Histogram of the policy lag: most often ${name(most)} versions behind, in ${shares[most].toFixed(1)} %.`,
    );
  };
  return { element, update };
}
