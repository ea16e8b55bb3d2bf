// All runs: filtered, sorted, and selected for a comparison.
/* global FIGURES, el, setText, clean, counted, keyed, nothing */
import { follow, runs as askRuns } from "./data.js";
import { ago, comparisonPath, lastPart, problem, runLink, stateBadge, traits } from "./widgets.js";

// These stay while other views are shown.
const selected = new Set(),
  unfolded = new Set();
let filter = "",
  sortBy = null,
  descending = true;
const ROWS = 200;
const MOST_COMPARED = 64;

export function runList({ main, h1, title }) {
  title("Runs");
  const failed = problem(),
    notes = el("ul", { class: "notes" }),
    empty = nothing("");
  const search = el("input", {
    type: "search",
    placeholder: "Filter: name, environment, algorithm, seed, state",
    "aria-label": "Filter runs",
  });
  const compare = el("button", { type: "button", class: "main-action" }),
    clear = el("button", { type: "button" }, "Clear selection");
  const found = el("p", { class: "aside", role: "status" }),
    more = el("button", { type: "button" }, "Show more");
  const headings = [
    ["Run", null],
    ["State", (run) => run.state],
    ...FIGURES.map(([name, , by]) => [name, by]),
    ["Began", (run) => run.began],
  ];
  const head = el(
    "tr",
    {},
    el("th", { class: "tick" }, el("span", { class: "unseen" }, "Select")),
    ...headings.map(([name, by], i) => {
      if (!by) return el("th", { scope: "col" }, name);
      const button = el("button", { type: "button", class: "sort" }, name);
      button.addEventListener("click", () => {
        [sortBy, descending] = sortBy === i ? (descending ? [i, false] : [null, true]) : [i, true];
        draw();
      });
      return el("th", { scope: "col", class: i > 1 ? "number" : null }, button);
    }),
  );
  const body = el("tbody"),
    table = el(
      "table",
      { class: "runs" },
      el("caption", { class: "unseen" }, "Runs and their newest figures"),
      el("thead", {}, head),
      body,
    );
  main.append(
    h1,
    failed.element,
    notes,
    el("div", { class: "bar-of-tools" }, search, compare, clear, found),
    empty,
    table,
    more,
  );

  let answer = { runs: [], sweeps: [], is_complete: false },
    room = ROWS;
  const isComplete = () => answer.is_complete !== false;
  search.value = filter;
  search.addEventListener("input", () => {
    filter = search.value;
    draw();
  });
  compare.addEventListener("click", () => {
    location.hash = comparisonPath([...selected]);
  });
  clear.addEventListener("click", () => {
    selected.clear();
    draw();
    search.focus();
  });
  more.addEventListener("click", () => {
    room += ROWS;
    draw();
  });

  const runRow = ({ id }) => {
    const tick = el("input", { type: "checkbox" }),
      badge = stateBadge(),
      link = runLink(id, ""),
      about = el("span", { class: "about" }),
      why = el("span", { class: "why" });
    tick.addEventListener("change", () => {
      if (tick.checked) selected.add(id);
      else selected.delete(id);
      tools();
    });
    const began = el("td", { class: "number", "data-label": "Began" }),
      cells = FIGURES.map(([name]) => el("td", { class: "number", "data-label": name }));
    const place = el("th", { scope: "row" }, link, about, why);
    const element = el(
      "tr",
      {},
      el("td", { class: "tick" }, el("label", {}, tick)),
      place,
      el("td", { class: "in-state" }, badge.element),
      ...cells,
      began,
    );
    const update = (run) => {
      setText(link, run.name);
      const folder = run.folder && lastPart(run.folder);
      setText(about, [...traits(run), folder === run.name ? null : folder].filter(Boolean).join(" · "));
      link.title = clean(run.folder ?? "");
      setText(why, run.error ?? "");
      why.hidden = !run.error;
      tick.setAttribute("aria-label", clean(`Select ${run.name}, seed ${run.seed ?? "unknown"}`));
      tick.checked = selected.has(id);
      element.classList.toggle("trial", run.sweep != null);
      badge.update(run.state);
      FIGURES.forEach(([, text], i) => setText(cells[i], text(run)));
      began.replaceChildren(ago(run.began));
    };
    return { element, place, update };
  };
  const sweepRow = ({ id }) => {
    const fold = el("button", { type: "button", class: "fold", "aria-expanded": "false" }),
      link = el("a", { href: `#/sweep/${encodeURIComponent(id)}` }),
      badge = stateBadge(),
      about = el("span", { class: "about" });
    fold.addEventListener("click", () => {
      if (!unfolded.delete(id)) unfolded.add(id);
      draw();
    });
    const place = el("th", { scope: "row" }, link, about);
    const element = el(
      "tr",
      { class: "sweep" },
      el("td", { class: "tick" }, fold),
      place,
      el("td", { class: "in-state" }, badge.element),
      el("td", { colspan: FIGURES.length + 1 }),
    );
    const update = (sweep) => {
      const isOpen = unfolded.has(id);
      fold.setAttribute("aria-expanded", String(isOpen));
      fold.setAttribute("aria-label", clean(`Trials of ${sweep.name}`));
      setText(fold, isOpen ? "▾" : "▸");
      setText(link, `Sweep ${sweep.name}`);
      setText(about, counted(sweep.trials ?? 0, "trial"));
      badge.update(sweep.state);
    };
    return { element, place, update };
  };
  const rows = keyed(
    body,
    ([key]) => key,
    ([, make, data]) => {
      const { element, place, update } = make(data);
      return { element, place, update: ([, , data]) => update(data) };
    },
  );

  const matches = (run, words) =>
    words.every((word) =>
      [
        run.name,
        run.folder,
        run.env,
        run.algorithm,
        run.state,
        run.sweep,
        run.seed == null ? "" : `seed ${run.seed}`,
      ].some((text) =>
        String(text ?? "")
          .toLowerCase()
          .includes(word),
      ),
    );
  const tools = () => {
    const known = new Set(answer.runs.map((run) => run.id));
    for (const id of selected) if (isComplete() && !known.has(id)) selected.delete(id);
    const n = selected.size;
    compare.disabled = n < 1 || n > MOST_COMPARED;
    setText(
      compare,
      n > MOST_COMPARED
        ? `At most ${MOST_COMPARED} runs can be compared`
        : n
          ? `Compare ${counted(n, "run")}`
          : "Select runs to compare",
    );
    clear.hidden = n === 0;
  };
  const draw = () => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = answer.runs.filter((run) => matches(run, words));
    if (sortBy != null) {
      const by = headings[sortBy][1];
      // Without a value last, either way.
      const order = (a, b) => (a == null) - (b == null) || (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1);
      chosen.sort((a, b) => order(by(a), by(b)));
    }
    [...head.children].slice(1).forEach((cell, i) => {
      if (i === sortBy) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    // A sweep stands where its newest trial would.
    const listed = new Set(),
      items = [];
    const sweeps = new Map(answer.sweeps.map((sweep) => [sweep.id, sweep]));
    const addSweep = (sweep) => {
      listed.add(sweep.id);
      items.push([`sweep ${sweep.id}`, sweepRow, sweep]);
      if (unfolded.has(sweep.id))
        for (const run of chosen) if (run.sweep === sweep.id) items.push([`run ${run.id}`, runRow, run]);
    };
    for (const run of chosen) {
      const sweep = sweeps.get(run.sweep);
      if (!sweep) items.push([`run ${run.id}`, runRow, run]);
      else if (!listed.has(sweep.id)) addSweep(sweep);
    }
    for (const sweep of answer.sweeps)
      if (!listed.has(sweep.id) && words.every((word) => sweep.name.toLowerCase().includes(word))) addSweep(sweep);
    rows.update(items.slice(0, room));
    more.hidden = items.length <= room;
    table.hidden = items.length === 0;
    empty.hidden = items.length > 0;
    const where = answer.watched?.length ? ` in ${answer.watched.join(", ")}` : "";
    setText(
      empty,
      answer.runs.length
        ? "No run matches the filter."
        : isComplete()
          ? `No runs yet${where}. \`pronk train configs/cartpole.toml\` starts one.`
          : `Looking for runs${where}…`,
    );
    const all = answer.runs.length;
    const n = words.length ? `${counted(chosen.length, "run")} of ${all}` : counted(all, "run");
    setText(found, isComplete() ? n : all ? `${n} so far, looking for more…` : "");
    tools();
  };
  draw();
  return follow(
    ({ list }) => list,
    askRuns,
    (newer, error) => {
      failed.update(error);
      if (!newer) return;
      // The page of a run alone opens with that run; `#/` is the list.
      if (location.hash === "" && newer.is_complete !== false && newer.runs.length === 1 && !newer.sweeps.length)
        return location.replace(`#/run/${encodeURIComponent(newer.runs[0].id)}`);
      answer = newer;
      notes.replaceChildren(...(newer.problems ?? []).map((text) => el("li", {}, text)));
      draw();
    },
  );
}
