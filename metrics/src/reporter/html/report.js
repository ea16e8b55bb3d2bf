// Draws a report from the JSON in #data:
//   name, sentence: text; results, episode_return, wall_secs, env_steps_per_s: numbers or null
//   env_steps and every step count: whole numbers as text, since they may exceed 2^53
//   returns, lag, rate: curves {x, mean, min?, max?}; lag and returns over env-steps, rate over seconds
//   policy_returns: [{name, last, not_finite, curve}]; learner: {policy: [the same]}
//   lag_histogram: {edges, counts}; threads: [{name, threads, wall_secs, states: {state: seconds}}]
//   steps: {rows: [{name, kind, count: {env, agent}, share}], sum, sampled, passes, unexplained: {env, agent}}
//   trouble: {counts: [[name, n]], lists: [{heading, texts: [{text, results?, env_steps?}]}]}
//   settings: {rows: [[name, value]], left_out}
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

// Elements are built from text nodes alone, so that no name in the data can become markup.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value);
  node.append(...children.filter((child) => child != null).map((child) => (child.nodeType ? child : clean(child))));
  return node;
}
// Control characters and those that turn the direction of text would garble what follows.
const clean = (text) => String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

const whole = (text) => BigInt(text).toLocaleString("en");
const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);
const counted = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`;
function figure(value) {
  if (value == null) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(3);
  return value.toLocaleString("en", size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
}
function duration(secs) {
  if (secs < 60) return `${secs.toFixed(secs < 10 ? 2 : 1)} s`;
  const s = Math.round(secs), m = Math.floor(s / 60), h = Math.floor(m / 60);
  if (h === 0) return `${m} min ${s % 60} s`;
  return h < 24 ? `${h} h ${m % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

const main = document.querySelector("main");
const section = (heading, ...children) => main.append(el("section", {}, el("h2", {}, heading), ...children));
const nothing = (why) => el("p", { class: "none" }, why);
const table = (kind, rows) => el("div", { class: "scroll" }, el("table", { class: kind }, ...rows));

// Charts. All are redrawn when the page switches between light and dark.
const charts = [];
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
// uPlot's own labels repeat an unrounded number where ticks are close; compact ones stay short.
const labels = (_plot, ticks) => {
  const largest = Math.max(...ticks.map(Math.abs)), step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 0;
  if (largest !== 0 && (largest < 1e-4 || largest >= 1e15)) return ticks.map((tick) => tick.toExponential(1));
  const digits = step > 0 ? Math.max(2, Math.ceil(Math.log10(largest / step)) + 1) : 4;
  return ticks.map((tick) => tick.toLocaleString("en", { notation: "compact", maximumSignificantDigits: digits }));
};
function mount(box, height, options, columns) {
  let plot;
  const draw = () => {
    plot?.destroy();
    const axis = { stroke: color("soft"), font: "12px system-ui", grid: { stroke: color("rule"), width: 1 }, ticks: { show: false } };
    const axes = [{ ...axis, ...options.x, grid: { show: false } }, { ...axis, size: 56, values: labels }];
    plot = new uPlot({ width: box.clientWidth || 640, height, ...options.plot(), axes }, columns, box);
  };
  charts.push(draw);
  new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height })).observe(box);
}
const time = { x: { time: false } };
function lineChart(title, note, curve, { small = false, zero = false, empty, warning, xName = "" }) {
  const box = el("div", { class: "plot" });
  const head = el("figcaption", {}, el("b", {}, title), " ", el("span", {}, note));
  const figure_ = el("figure", { class: small ? "chart small" : "chart" }, head);
  if (curve.x.length === 0) {
    figure_.append(nothing(empty));
    return figure_;
  }
  figure_.append(box, warning ? el("p", { class: "bad" }, warning) : "");
  const value = (_plot, v) => (v == null ? "–" : figure(v));
  const has_range = curve.min !== undefined;
  mount(box, small ? 110 : 260, {
    x: { label: small ? undefined : xName, labelSize: 20, values: labels },
    plot: () => ({
      // Zero is shown where it is near: half as high is half as much.
      scales: { ...time, y: { range: (_plot, min, max) => uPlot.rangeNum(zero || (min > 0 && min < 0.35 * max) ? Math.min(0, min) : min, max, 0.05, true) } },
      legend: { show: !small },
      cursor: { points: { size: 6 } },
      series: [
        { label: xName || "env-steps", value },
        { label: "mean", stroke: color("line"), width: 1.75, value, points: { show: curve.x.length < 3 } },
        ...(has_range ? ["min", "max"].map((label) => ({ label, value, points: { show: false } })) : []),
      ],
      bands: has_range ? [{ series: [3, 2], fill: color("line") + "29" }] : [],
    }),
  }, has_range ? [curve.x, curve.mean, curve.min, curve.max] : [curve.x, curve.mean]);
  return figure_;
}
const smallCharts = (curves) => el("div", { class: "many" }, ...curves.map(({ name, last, not_finite, curve }) =>
  lineChart(name, figure(last), curve, {
    small: true,
    empty: "No result has a finite number.",
    warning: not_finite ? `not finite in ${counted(not_finite, "result")}` : null,
  })));

// `3` where only that number can be in the bar, else `4–7`, `0.5–1`, `64+`.
function barName(from, to) {
  if (to == null) return `${figure(from)}+`;
  if (!Number.isInteger(from) || !Number.isInteger(to)) return `${figure(from)}–${figure(to)}`;
  return to - from <= 1 ? figure(from) : `${figure(from)}–${figure(to - 1)}`;
}
function histogram({ edges, counts } = {}) {
  const fits = Array.isArray(edges) && Array.isArray(counts) && [0, 1].includes(edges.length - counts.length);
  if (!fits || counts.some((n) => !(n >= 0))) return nothing("The last result has no readable histogram of the policy lag.");
  let bars = counts.map((n, i) => ({ from: edges[i], to: edges[i + 1], n }));
  while (bars.length && bars[0].n === 0) bars.shift();
  while (bars.length && bars.at(-1).n === 0) bars.pop();
  while (bars.length > 40)
    bars = bars.flatMap((bar, i) => (i % 2 ? [] : [{ ...bar, to: (bars[i + 1] ?? bar).to, n: bar.n + (bars[i + 1]?.n ?? 0) }]));
  const total = bars.reduce((sum, bar) => sum + bar.n, 0);
  if (!total) return nothing("The histogram of the policy lag in the last result is empty.");
  const box = el("div", { class: "plot" });
  mount(box, 180, {
    x: { label: "versions behind", labelSize: 20, incrs: [1, 2, 5, 10, 20], values: (_plot, ticks) => ticks.map((i) => (bars[i] ? barName(bars[i].from, bars[i].to) : "")) },
    plot: () => ({
      scales: { x: { time: false, range: [-0.6, bars.length - 0.4] }, y: { range: (_plot, _min, max) => [0, max * 1.05] } },
      series: [
        { label: "versions", value: (_plot, i) => (bars[i] ? barName(bars[i].from, bars[i].to) : "–") },
        { label: "share, %", fill: color("line"), stroke: color("line"), paths: uPlot.paths.bars({ size: [0.84] }), points: { show: false }, value: (_plot, v) => (v == null ? "–" : v.toFixed(1)) },
      ],
    }),
  }, [bars.map((_, i) => i), bars.map((bar) => (100 * bar.n) / total)]);
  return el("figure", { class: "chart" }, el("figcaption", {}, el("b", {}, "Policy lag in the last result"), " ", el("span", {}, "share of all, %")), box);
}

// Paints: work is coloured and waiting is grey; a texture tells names apart that share a colour.
const USUAL = {
  learning: "c0", inferring: "c1", stepping: "c2", reporting: "c3", publishing: "c4", training: "c0 t1", loading: "c6",
  starting: "c6 t1", restarting: "c5", replacing: "c5 t1", away: "c3 t1", blocked: "c7", starved: "c7 t1",
  listening: "c8", idle: "c8 t1", waiting: "c8 t2", watching: "c8 t3", waiting_for_stack: "c7 t2", waiting_for_data: "c7 t3",
};
const KINDS = { trained: "c0", dropped: "c1", in_flight: "c4", lost: "c5" };
function paints(names) {
  const all = ["", " t1", " t2", " t3"].flatMap((texture) => [0, 1, 2, 3, 4, 5, 6].map((c) => `c${c}${texture}`));
  const taken = new Set(names.map((name) => USUAL[name]));
  const free = all.filter((paint) => !taken.has(paint));
  let next = 0;
  return Object.fromEntries(names.map((name) => [name, USUAL[name] ?? free[next++ % free.length]]));
}
const legend = (entries) => el("ul", { class: "legend" }, ...entries.map(([name, paint]) => el("li", {}, el("i", { class: `chip ${paint}` }), name)));
const bar = (parts) => el("div", { class: "bar" }, ...parts.filter(([, , share]) => share > 0).map(([name, paint, share, title]) =>
  el("span", { class: paint, style: `flex-grow:${share}`, title: clean(title) }, share > 0.12 ? name : "")));

function threads() {
  if (!data.threads?.length) return [nothing("No result has a time ledger.")];
  const total = (thread) => Math.max(thread.wall_secs, Object.values(thread.states).reduce((a, b) => a + b, 0)) || 1;
  const names = [...new Set(data.threads.flatMap((thread) => Object.keys(thread.states)))];
  const paint = paints(names);
  const seen = names.filter((name) => data.threads.some((thread) => (thread.states[name] ?? 0) >= 5e-4 * total(thread)));
  const rows = data.threads.map((thread) => {
    const shares = Object.entries(thread.states).map(([state, secs]) => [state, secs / total(thread), secs]);
    const words = shares.filter(([, share]) => share >= 5e-4).sort((a, b) => b[1] - a[1]).map(([state, share]) => `${state} ${percent(share)}`);
    const none = 1 - shares.reduce((sum, [, share]) => sum + share, 0);
    const parts = shares.map(([state, share, secs]) => [state, paint[state], share, `${state}: ${percent(share)}, ${duration(secs)}`]);
    if (none >= 1e-3) words.push(`in no state ${percent(none)}`);
    const threads = thread.threads === 1 ? "" : `${counted(thread.threads, "thread")}, together `;
    return el("div", { class: "thread" },
      el("p", { class: "who" }, el("b", {}, thread.name), " ", el("span", {}, threads + duration(thread.wall_secs))),
      bar([...parts, ["", "", Math.max(none, 0), ""]]),
      el("p", { class: "shares" }, words.join(" · ") || "no time in any state"));
  });
  const open = data.open_threads;
  const warning = `The states of ${counted(open.length, "thread")} do not add up to the wall time: ${open.slice(0, 5).join(", ")}${open.length > 5 ? ", …" : ""}.`;
  return [legend(seen.map((name) => [name, paint[name]])), ...rows, open.length ? el("p", { class: "bad" }, warning) : null];
}

function steps() {
  if (!data.steps) return [nothing("No result has a step ledger.")];
  const { rows, sum, sampled, passes, unexplained } = data.steps;
  const number = (count) => (count == null ? "–" : whole(count));
  const line = (row, kind) => el("tr", { class: kind }, el("th", { scope: "row" }, row.name), el("td", {}, number(row.count.env)),
    el("td", {}, row.share == null ? "–" : percent(row.share)), el("td", {}, number(row.count.agent)));
  const textures = {};
  const painted = rows.filter((row) => row.share > 0).map((row) => {
    const n = (textures[row.kind] = (textures[row.kind] ?? -1) + 1) % 4;
    return [row.name, `${KINDS[row.kind]}${n ? ` t${n}` : ""}`, row.share, `${row.name}: ${percent(row.share)}`];
  });
  const head = el("tr", {}, ...["", "env-steps", "share", "agent-steps"].map((name) => el("th", { scope: "col" }, name)));
  const closes = unexplained && unexplained.env === "0" && unexplained.agent === "0";
  const verdict = closes ? "The ledger closes: every sampled step is accounted for."
    : unexplained ? `The ledger does not close: ${whole(unexplained.env)} env-steps and ${whole(unexplained.agent)} agent-steps are unexplained.`
    : "A figure is missing, so it is unknown whether the ledger closes.";
  return [
    ...(painted.length ? [bar(painted), legend(painted)] : [nothing("No env-step was made.")]),
    table("numbers", [head, ...rows.map((row) => line(row, "")), line(sum, "sum"), line(sampled, ""), line(passes, "aside")]),
    el("p", { class: closes ? "" : "bad" }, verdict),
  ];
}

function ledgers() {
  const open = data.open_threads, rest = data.steps?.unexplained;
  const steps_close = rest && rest.env === "0" && rest.agent === "0";
  if (steps_close && open?.length === 0) return el("p", { class: "good" }, "Both ledgers close: every step and every second is accounted for.");
  const of_steps = !data.steps ? "There is no step ledger" : !rest ? "The step ledger lacks a figure"
    : steps_close ? "The step ledger closes" : `The step ledger does not close (${whole(rest.env)} env-steps and ${whole(rest.agent)} agent-steps unexplained)`;
  const of_time = !open ? "there is no time ledger" : open.length ? `the time ledger does not close (${counted(open.length, "thread")})` : "the time ledger closes";
  return el("p", { class: "bad" }, `${of_steps}; ${of_time}.`);
}

function trouble() {
  const { counts, lists } = data.trouble;
  if (!counts.length && !lists.length) return [nothing("The results report no failures.")];
  const when = ({ results, env_steps }) => (env_steps == null ? "" : ` ${results > 1 ? `in ${counted(results, "result")}, ` : ""}at ${whole(env_steps)} env-steps`);
  return [
    el("ul", { class: "counts" }, ...counts.map(([name, n]) => el("li", {}, el("b", {}, whole(n)), ` ${name}`))),
    ...lists.flatMap(({ heading, texts }) => [el("h3", {}, heading), el("ul", { class: "texts" }, ...texts.map((text) => el("li", {}, text.text, el("span", {}, when(text)))))]),
  ];
}

const or_dash = (value, text) => (value == null ? "–" : text(value));
main.append(el("header", {}, el("h1", {}, data.name), el("dl", { class: "head" }, ...[
  ["Return reached", or_dash(data.episode_return, figure)],
  ["Env-steps", or_dash(data.env_steps, whole)],
  ["Wall time", or_dash(data.wall_secs, duration)],
  ["Env-steps/s", or_dash(data.env_steps_per_s, (rate) => figure(Math.round(rate)))],
  ["Results", whole(data.results)],
].map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value)))),
data.results ? null : nothing("The run ended before its first result."), ledgers(),
data.sentence ? el("p", { class: "sentence" }, data.sentence) : null));

section("Learning",
  lineChart("Episode return", "mean, and the range from minimum to maximum", data.returns, { empty: "No episode has ended.", xName: "env-steps" }),
  ...(data.policy_returns.length ? [el("h3", {}, "Returns of single policies"), smallCharts(data.policy_returns)] : []));
section("Policy lag",
  lineChart("Policy lag", "versions behind: mean, and the range from minimum to maximum", data.lag, { zero: true, empty: "No result has a policy lag.", xName: "env-steps" }),
  data.lag_histogram ? histogram(data.lag_histogram) : null);
section("Throughput", lineChart("Env-steps per second", "of each result", data.rate, { zero: true, empty: "No result has a throughput.", xName: "wall time, s" }));
const policies = Object.entries(data.learner);
section("Learner", policies.length ? null : nothing("No result has statistics of the learner."),
  ...policies.flatMap(([policy, curves]) => [el("h3", {}, policy), smallCharts(curves)]),
  policies.length ? el("p", { class: "aside" }, "All over env-steps; the number is that of the last result.") : null,
  data.curves_left_out ? nothing(`And ${counted(data.curves_left_out, "further curve")}, left out for size.`) : null);
section("Where the time went", ...threads());
section("What became of the steps", ...steps());
section("What went wrong", ...trouble());
section("Settings", data.settings.rows.length
  ? table("settings", data.settings.rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value))))
  : nothing("The report was given no settings."),
  data.settings.left_out ? nothing(`And ${counted(data.settings.left_out, "further setting")}, left out for size.`) : null);

const redraw = () => charts.forEach((draw) => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
redraw();
