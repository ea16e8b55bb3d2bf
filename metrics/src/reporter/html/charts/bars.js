// The two ledgers as bars: where the time of each thread went, and what became of the steps.
"use strict";

// Paints: work is coloured and waiting is grey; a texture tells names apart that share a colour.
const USUAL = {
  learning: "c0",
  inferring: "c1",
  stepping: "c2",
  reporting: "c3",
  publishing: "c4",
  training: "c0 t1",
  loading: "c6",
  evaluating: "c2 t1",
  saving: "c4 t1",
  starting: "c6 t1",
  restarting: "c5",
  replacing: "c5 t1",
  away: "c3 t1",
  blocked: "c7",
  helping: "c0 t2",
  starved: "c7 t1",
  listening: "c8",
  idle: "c8 t1",
  waiting: "c8 t2",
  watching: "c8 t3",
  waiting_for_stack: "c7 t2",
  waiting_for_data: "c7 t3",
};
const KINDS = { trained: "c0", dropped: "c1", in_flight: "c4", lost: "c5" };
function paints(names) {
  const all = ["", " t1", " t2", " t3"].flatMap((texture) => [0, 1, 2, 3, 4, 5, 6].map((c) => `c${c}${texture}`));
  const taken = new Set(names.map((name) => USUAL[name]));
  const free = all.filter((paint) => !taken.has(paint));
  let next = 0;
  return Object.fromEntries(names.map((name) => [name, USUAL[name] ?? free[next++ % free.length]]));
}
const legend = (entries) =>
  el(
    "ul",
    { class: "legend" },
    ...entries.map(([name, paint]) => el("li", {}, el("i", { class: `chip ${paint}` }), name)),
  );

// A bar of parts [name, paint, share, title], which move to their new shares.
function bar() {
  const element = el("div", { class: "bar", "aria-hidden": "true" }),
    spans = new Map();
  const update = (parts) => {
    for (const [name, span] of spans) if (!parts.some(([other]) => other === name)) span.style.flexGrow = 0;
    for (const [name, paint, share, title] of parts) {
      let span = spans.get(name);
      if (!span && !(share > 0)) continue;
      if (!span) {
        spans.set(name, (span = el("span")));
        element.append(span);
      }
      span.className = `${paint}${share > 0 ? "" : " gone"}`;
      span.style.flexGrow = share;
      span.title = clean(title);
      setText(span, share > 0.12 ? name : "");
    }
  };
  return { element, update };
}

// The bars of {threads: [{name, threads, wall_secs, states}], open: names of threads that do not add up}.
function timeBars() {
  const names = rebuilt("div", {}, ({ seen }) => [seen.length ? legend(seen) : null]);
  const rows = el("div"),
    none = nothing("No result has a time ledger."),
    bad = el("p", { class: "bad" });
  const element = el("div", {}, names.element, none, rows, bad);
  let paint = {};
  const total = (thread) =>
    Math.max(
      thread.wall_secs,
      Object.values(thread.states).reduce((a, b) => a + b, 0),
    ) || 1;
  const row = ({ name }) => {
    const about = el("span"),
      shares = el("p", { class: "shares" }),
      line = bar();
    const who = el("p", { class: "who" }, el("b", {}, name), " ", about);
    const update = (thread) => {
      const parts = Object.entries(thread.states).map(([state, secs]) => [state, secs / total(thread), secs]);
      const words = parts
        .filter(([, share]) => share >= 5e-4)
        .sort((a, b) => b[1] - a[1])
        .map(([state, share]) => `${state} ${percent(share)}`);
      const rest = 1 - parts.reduce((sum, [, share]) => sum + share, 0);
      if (rest >= 1e-3) words.push(`in no state ${percent(rest)}`);
      setText(
        about,
        (thread.threads === 1 ? "" : `${counted(thread.threads, "thread")}, together `) + duration(thread.wall_secs),
      );
      setText(shares, words.join(" · ") || "no time in any state");
      line.update([
        ...parts.map(([state, share, secs]) => [
          state,
          paint[state],
          share,
          `${state}: ${percent(share)}, ${duration(secs)}`,
        ]),
        ["", "rest", Math.max(rest, 0), ""],
      ]);
    };
    return { element: el("div", { class: "thread" }, who, line.element, shares), update };
  };
  const bars = keyed(rows, ({ name }) => name, row);
  const update = ({ threads, open }) => {
    threads ??= [];
    none.hidden = threads.length > 0;
    const states = [...new Set(threads.flatMap((thread) => Object.keys(thread.states)))];
    paint = paints(states);
    const seen = states.filter((name) => threads.some((thread) => (thread.states[name] ?? 0) >= 5e-4 * total(thread)));
    names.update({ seen: seen.map((name) => [name, paint[name]]) });
    bars.update(threads);
    bad.hidden = !open?.length;
    if (open?.length)
      setText(
        bad,
        `The states of ${counted(open.length, "thread")} do not add up to the wall time: ` +
          `${open.slice(0, 5).join(", ")}${open.length > 5 ? ", …" : ""}.`,
      );
  };
  return { element, update };
}

// The bar, table and verdict of the step ledger.
function stepTable() {
  const line = bar();
  const number = (count) => or_dash(count, whole);
  const cells = (row, kind) =>
    el(
      "tr",
      { class: kind },
      el("th", { scope: "row" }, row.name),
      el("td", {}, number(row.count.env)),
      el("td", {}, or_dash(row.share, percent)),
      el("td", {}, number(row.count.agent)),
    );
  const content = rebuilt("div", {}, ({ steps, painted }) => {
    if (!steps) return [nothing("No result has a step ledger.")];
    const { rows, sum, sampled, passes, unexplained } = steps;
    const closes = unexplained && unexplained.env === "0" && unexplained.agent === "0";
    const verdict = closes
      ? "The ledger closes: every sampled step is accounted for."
      : unexplained
        ? `The ledger does not close: ${whole(unexplained.env)} env-steps and ` +
          `${whole(unexplained.agent)} agent-steps are unexplained.`
        : "A figure is missing, so it is unknown whether the ledger closes.";
    return [
      painted.length ? legend(painted) : nothing("No env-step was made."),
      table("numbers", [
        headRow(["", "env-steps", "share", "agent-steps"]),
        ...rows.map((row) => cells(row, "")),
        cells(sum, "sum"),
        cells(sampled, ""),
        cells(passes, "aside"),
      ]),
      el("p", { class: closes ? "" : "bad" }, verdict),
    ];
  });
  const update = (steps) => {
    const textures = {};
    const painted = (steps?.rows ?? [])
      .filter((row) => row.share > 0)
      .map((row) => {
        const n = (textures[row.kind] = (textures[row.kind] ?? -1) + 1) % 4;
        return [row.name, `${KINDS[row.kind]}${n ? ` t${n}` : ""}`, row.share, `${row.name}: ${percent(row.share)}`];
      });
    line.element.hidden = !painted.length;
    line.update(painted);
    content.update({ steps, painted });
  };
  return { element: el("div", {}, line.element, content.element), update };
}

// Whether both ledgers close, in a sentence.
function verdict() {
  const element = el("p");
  const update = ({ open_threads: open, steps }) => {
    const rest = steps?.unexplained;
    const steps_close = rest && rest.env === "0" && rest.agent === "0";
    const good = steps_close && open?.length === 0;
    element.className = good ? "good" : "bad";
    if (good) return setText(element, "Both ledgers close: every step and every second is accounted for.");
    const of_steps = !steps
      ? "There is no step ledger"
      : !rest
        ? "The step ledger lacks a figure"
        : steps_close
          ? "The step ledger closes"
          : `The step ledger does not close (${whole(rest.env)} env-steps and ` +
            `${whole(rest.agent)} agent-steps unexplained)`;
    const of_time = !open
      ? "there is no time ledger"
      : open.length
        ? `the time ledger does not close (${counted(open.length, "thread")})`
        : "the time ledger closes";
    setText(element, `${of_steps}; ${of_time}.`);
  };
  return { element, update };
}
