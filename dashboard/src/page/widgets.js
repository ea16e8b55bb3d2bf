// Small elements that several views share.
/* global el, setText, clean, or_dash, headRow, keyed, table */

const STATES = {
  running: "running",
  finished: "finished",
  failed: "failed",
  killed: "killed",
  waiting: "waiting",
  unknown: "state unknown",
};
const SIGNS = { running: "▶", finished: "✓", failed: "✕", killed: "◼", waiting: "○", unknown: "?" };

// A state in words, with a sign and a colour.
export function stateBadge(first) {
  const sign = el("span", { class: "sign", "aria-hidden": "true" }),
    word = el("span");
  const element = el("span", { class: "state" }, sign, word);
  const update = (state) => {
    const known = Object.hasOwn(STATES, state) ? state : "unknown";
    element.className = `state ${known}`;
    setText(sign, SIGNS[known]);
    setText(word, STATES[known]);
  };
  update(first);
  return { element, update };
}

// Text to copy, and a button that copies it as it is shown: control characters would be keys in a terminal.
export function copyable(about, text) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${about}` }, "Copy");
  const said = el("span", { class: "unseen", role: "status" });
  button.addEventListener("click", async () => {
    const copied = await navigator.clipboard?.writeText(clean(text)).then(
      () => true,
      () => false,
    );
    setText(button, copied ? "Copied" : "Select and copy by hand");
    setText(said, copied ? `Copied ${about}.` : "The browser does not allow copying.");
    setTimeout(() => setText(button, "Copy"), 2000);
  });
  return el("span", { class: "copyable" }, el("code", {}, text), button, said);
}

// Of unix seconds; null if they are no time of the calendar.
export function dateOf(secs) {
  const date = new Date(1000 * secs);
  return secs == null || Number.isNaN(date.getTime()) ? null : date;
}

// `3 min ago` of unix seconds, which the title says exactly; what is no time of the calendar as it is.
export function ago(secs) {
  const date = dateOf(secs);
  if (!date) return el("span", {}, or_dash(secs, String));
  const past = Math.max(0, Date.now() / 1000 - secs);
  const words =
    past < 60
      ? "just now"
      : past < 3600
        ? `${Math.floor(past / 60)} min ago`
        : past < 86400
          ? `${Math.floor(past / 3600)} h ago`
          : past < 14 * 86400
            ? `${Math.floor(past / 86400)} d ago`
            : date.toLocaleDateString("en-CA");
  return el("time", { datetime: date.toISOString(), title: date.toLocaleString() }, words);
}

// Choices of which one holds: a row of radio buttons.
export function choice(about, options, chosen, change) {
  const name = `choice-${(choice.made = (choice.made ?? 0) + 1)}`;
  const radios = options.map(([value, words]) => {
    const radio = el("input", { type: "radio", name, value });
    radio.checked = value === chosen;
    radio.addEventListener("change", () => change(value));
    return el("label", {}, radio, el("span", {}, words));
  });
  return el("fieldset", { class: "choice" }, el("legend", {}, about), ...radios);
}

export const panel = (heading, kind, ...children) =>
  el("section", { class: `panel ${kind}` }, el("h2", {}, heading), ...children.filter((child) => child != null));

// A place for an error: it shows only while there is one.
export function problem() {
  const element = el("p", { class: "problem", role: "alert" });
  element.hidden = true;
  const update = (error) => {
    element.hidden = !error;
    setText(element, error?.message ?? error ?? "");
  };
  return { element, update };
}

// What is known of a run. A run without a folder is called `ENV · ALGORITHM`, which is not said again; the name of
// a folder may say anything.
export function traits({ name, env, algorithm, seed }) {
  const said = name.split(" · ");
  return [env, algorithm, seed == null ? null : `seed ${seed}`].filter((text) => text && !said.includes(text));
}

export const runLink = (id, words) => el("a", { href: `#/run/${encodeURIComponent(id)}` }, words);
export const comparisonPath = (ids) => `#/compare/${ids.map(encodeURIComponent).join(",")}`;

// The runs among `ids` that an answer lacks, each with the reason: [{id, reason}].
export function missingFrom({ missing, runs }, ids) {
  const there = new Set(runs.map((run) => run.id ?? run));
  return missing ?? ids.filter((id) => !there.has(id)).map((id) => ({ id, reason: "it cannot be found" }));
}
// Those in words; `nameOf(id)` may know a name.
export const missingList = (missing, nameOf = () => null) =>
  el(
    "ul",
    { class: "notes" },
    ...missing.map(({ id, reason }) =>
      el("li", {}, "The run ", runLink(id, nameOf(id) ?? id), ` is missing: ${or_dash(reason, String)}`),
    ),
  );

// The values of settings, [key, values], under the names of runs.
export const differencesTable = (names, rows) =>
  table("settings differences", [
    headRow(["", ...names]),
    ...rows.map(([key, values]) =>
      el("tr", {}, el("th", { scope: "row" }, key), ...values.map((value) => el("td", {}, setting(value)))),
    ),
  ]);

// Shows choices [value, words] in a `select`, where the chosen one stays so.
export const optionsOf = (select) =>
  keyed(
    select,
    ([value]) => value,
    ([value]) => {
      const element = el("option", { value });
      return { element, update: ([, words]) => setText(element, words) };
    },
  );

// What follows the last separator of a path.
export const lastPart = (path, separator = "/") => path.split(separator).filter(Boolean).at(-1) ?? path;

// The value of a setting, which is any JSON.
export const setting = (value) =>
  or_dash(value, (value) => (typeof value === "string" ? value : JSON.stringify(value)));

// Of numbers in order.
export function median(sorted) {
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
