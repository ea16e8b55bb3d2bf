// Draws what a run has to tell, for the report and for the live page. Its data is that of `RunHistory::to_json`:
//   name, sentence: text; results, episode_return, wall_secs, env_steps_per_s: numbers or null
//   env_steps and every step count: whole numbers as text, since they may exceed 2^53
//   returns, evaluation, lag, clock, rate: curves {x, mean, min?, max?}; rate over seconds, the others over env-steps;
//   clock is the wall time in seconds
//   policy_returns: [{name, last, not_finite, curve}]; learner: {policy: [the same]}
//   lag_histogram: {edges, counts}; threads: [{name, threads, wall_secs, states: {state: seconds}}]; threads_lately:
//   the same of the last seconds; pipeline: figures of the newest result between workers, inqueue, learner and weights
//   steps: {rows: [{name, kind, count: {env, agent}, share}], sum, sampled, passes, unexplained: {env, agent}}
//   trouble: {counts: [[name, n]], lists: [{heading, texts: [{text, results?, env_steps?}]}]}
//   settings: {rows: [[name, value]], left_out}
// Functions that draw return {element, update}: `update` takes newer data and changes the element in place, so that
// neither zoom nor focus nor scrolling is lost.
"use strict";

// Elements are built from text nodes alone, so that no name in the data can become markup.
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) if (value != null) node.setAttribute(name, value);
  node.append(...children.filter((child) => child != null).map((child) => (child.nodeType ? child : clean(child))));
  return node;
}
// Control characters and those that turn the direction of text would garble what follows.
const clean = (text) =>
  String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
// Writes only what differs: a text that is selected or read aloud stays.
function setText(node, text) {
  const cleaned = clean(text);
  if (node.textContent !== cleaned) node.textContent = cleaned;
}
// An element whose children `build` makes anew, but only from data that differs from the data before.
function rebuilt(tag, attributes, build) {
  const element = el(tag, attributes);
  let before;
  const update = (data) => {
    const now = JSON.stringify(data) ?? "";
    if (now !== before) element.replaceChildren(...build(data).filter((child) => child != null));
    before = now;
  };
  return { element, update };
}

const whole = (text) => BigInt(text).toLocaleString("en");
const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);
const counted = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`;
const or_dash = (value, text) => (value == null ? "–" : text(value));
const compact = (value) => value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
function figure(value) {
  if (value == null) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(3);
  return value.toLocaleString("en", size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
}
function duration(secs) {
  if (secs < 60) return `${secs.toFixed(secs < 10 ? 2 : 1)} s`;
  const s = Math.round(secs),
    m = Math.floor(s / 60),
    h = Math.floor(m / 60);
  if (h === 0) return `${m} min ${s % 60} s`;
  return h < 24 ? `${h} h ${m % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

const nothing = (why) => el("p", { class: "none" }, why);
const table = (kind, rows) => el("div", { class: "scroll" }, el("table", { class: kind }, ...rows));
const headFigures = (figures) =>
  el(
    "dl",
    { class: "head" },
    ...figures.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
  );
