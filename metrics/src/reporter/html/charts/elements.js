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

// Does `work`. What it throws stands at the end of `place` until it succeeds: an odd figure takes nothing else along.
function attempt(place, work) {
  const before = place.querySelector(":scope > .odd");
  try {
    work();
    before?.remove();
  } catch (error) {
    console.error(error);
    const odd = before ?? el("span", { class: "bad odd", role: "alert" });
    setText(odd, `This cannot be shown: ${error.message}`);
    place.append(odd);
  }
}
// Shows items as the children of `parent`. `make(item)` gives {element, update, place?} once for each `key(item)`; what
// an odd item throws stands in `place`, or else in the element. The element of an item that is gone goes. The others
// are brought into order, and the focus stays where it is.
function keyed(parent, key, make) {
  const kept = new Map();
  const update = (items) => {
    const keys = new Set(items.map(key)),
      focused = document.activeElement;
    for (const [old, { element }] of kept)
      if (!keys.has(old)) {
        kept.delete(old);
        endPlotsIn(element);
        element.remove();
      }
    items.forEach((item, i) => {
      if (!kept.has(key(item))) kept.set(key(item), make(item));
      const { element, place = element, update } = kept.get(key(item));
      if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] ?? null);
      attempt(place, () => update(item, i));
    });
    if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
  };
  return { update, get: (key) => kept.get(key), each: (visit) => kept.forEach(visit) };
}

const whole = (text) => BigInt(text).toLocaleString("en");
const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);
const counted = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`;
// `text(value)`; a dash for what is unknown, and what is no such value as it is.
function or_dash(value, text) {
  if (value == null) return "–";
  try {
    return text(value);
  } catch {
    return String(value);
  }
}
const compact = (value) => value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
function figure(value) {
  if (value == null) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(3);
  return value.toLocaleString("en", size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
}
function duration(secs) {
  if (!Number.isFinite(secs)) return String(secs);
  if (secs < 60) return `${secs.toFixed(secs < 10 ? 2 : 1)} s`;
  const s = Math.round(secs),
    m = Math.floor(s / 60),
    h = Math.floor(m / 60);
  if (h === 0) return `${m} min ${s % 60} s`;
  return h < 24 ? `${h} h ${m % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

// The figures of a run that a table has: [heading, text of a run, number to sort by, field].
const FIGURES = [
  ["Return", "episode_return", figure],
  ["Best evaluation", "best_evaluation", figure],
  ["Env-steps", "env_steps", whole],
  ["Wall time", "wall_secs", duration],
  ["Env-steps/s", "env_steps_per_s", (rate) => figure(Math.round(rate))],
].map(([heading, field, words]) => [
  heading,
  (run) => or_dash(run[field], words),
  (run) => (run[field] == null ? null : Number(run[field])),
  field,
]);

const nothing = (why) => el("p", { class: "none" }, why);
const table = (kind, rows) => el("div", { class: "scroll" }, el("table", { class: kind }, ...rows));
// A row of headings; `isNumber(i)` says which of them are those of numbers.
const headRow = (names, isNumber = () => false) =>
  el("tr", {}, ...names.map((name, i) => el("th", { scope: "col", class: isNumber(i) ? "number" : null }, name)));
const headFigures = (figures) =>
  el(
    "dl",
    { class: "head" },
    ...figures.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
  );
