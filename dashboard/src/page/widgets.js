// Small elements that several views share.
/* global el, svg, clean, setText, whole, or_dash, figure, duration, compact */

const STATES = {
  running: "running",
  finished: "finished",
  failed: "failed",
  killed: "killed",
  unknown: "state unknown",
};
const SIGNS = { running: "▶", finished: "✓", failed: "✕", killed: "◼", unknown: "?" };

// A state in words, with a sign and a colour.
export function stateBadge() {
  const sign = el("span", { class: "sign", "aria-hidden": "true" }),
    word = el("span");
  const element = el("span", { class: "state" }, sign, word);
  const update = (state) => {
    const known = STATES[state] ? state : "unknown";
    element.className = `state ${known}`;
    setText(sign, SIGNS[known]);
    setText(word, STATES[known]);
  };
  return { element, update };
}

// Text to copy, and a button that copies it.
export function copyable(about, text) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${about}` }, "Copy");
  const said = el("span", { class: "unseen", role: "status" });
  button.addEventListener("click", async () => {
    const copied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    setText(button, copied ? "Copied" : "Select and copy by hand");
    setText(said, copied ? `Copied ${about}.` : "The browser does not allow copying.");
    setTimeout(() => setText(button, "Copy"), 2000);
  });
  return el("span", { class: "copyable" }, el("code", {}, text), button, said);
}

// `3 min ago` of unix seconds, which the title says exactly.
export function ago(secs) {
  if (secs == null) return el("span", {}, "–");
  const date = new Date(1000 * secs),
    past = Math.max(0, Date.now() / 1000 - secs);
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

// The figures of a run that several tables show: [heading, text of a summary, number to sort by, field].
export const FIGURES = [
  ["Return", (run) => or_dash(run.episode_return, figure), (run) => run.episode_return, "episode_return"],
  ["Best evaluation", (run) => or_dash(run.best_evaluation, figure), (run) => run.best_evaluation, "best_evaluation"],
  [
    "Env-steps",
    (run) => or_dash(run.env_steps, whole),
    (run) => (run.env_steps == null ? null : Number(run.env_steps)),
    "env_steps",
  ],
  ["Wall time", (run) => or_dash(run.wall_secs, duration), (run) => run.wall_secs, "wall_secs"],
  [
    "Env-steps/s",
    (run) => or_dash(run.env_steps_per_s, (rate) => figure(Math.round(rate))),
    (run) => run.env_steps_per_s,
    "env_steps_per_s",
  ],
];

export const runLink = (id, words) => el("a", { href: `#/run/${encodeURIComponent(id)}` }, words);
// The last folder of a path.
export const lastPart = (folder) => folder.split("/").filter(Boolean).at(-1) ?? folder;
