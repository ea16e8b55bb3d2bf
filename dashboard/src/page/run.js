// One run: its curves, pipeline, ledgers, evaluations, failures and settings.
/* global FIGURES, MEAN_AND_RANGE, OF_LAG, OF_RATE, attempt, el, setText, clean, rebuilt, headFigures, nothing,
   table, whole, or_dash, figure, counted, overlay, lineChart, smallCharts, learnerCharts, histogram, pipelinePicture,
   timeBars, stepTable, verdict, troubleList, settingsTable */
import { differences, follow, run as askRun, runs as askRuns, videoPath } from "./data.js";
import { ago, choice, comparisonPath, copyable, dateOf, differencesTable, missingFrom } from "./widgets.js";
import { lastPart, missingList, optionsOf, panel, problem, runLink, setting, stateBadge, traits } from "./widgets.js";
import { controls, lineOf, paint, xAxis } from "./curves.js";

const LIVE = "live";

export function oneRun({ main, h1, title }, id) {
  title("Run");
  const failed = problem(),
    badge = stateBadge(),
    ended = el("p", { class: "bad why" });
  const about = el("p", { class: "about" }),
    sample = el("p", { class: "note" });
  const figures = rebuilt("div", {}, (rows) => [headFigures(rows)]);
  const repeat = rebuilt("div", { class: "repeat" }, ({ folder }) =>
    folder
      ? [
          el("span", { class: "aside" }, "Repeat it: "),
          copyable("the command that repeats this run", `pronk train ${quoted(`${folder}/config.toml`)}`),
        ]
      : [],
  );
  const closes = verdict(),
    content = el("div", { class: "panels" });
  const head = el(
    "div",
    {},
    el("div", { class: "title" }, h1, badge.element),
    about,
    failed.element,
    ended,
    sample,
    el("div", { class: "overview" }, figures.element, el("div", {}, closes.element, repeat.element)),
  );
  main.append(head, content);

  let run = null,
    view = null,
    others = [];
  const drawCurves = () => run && view.curves(run);
  const showHead = ({ summary }) => {
    title(summary.name);
    badge.update(summary.state);
    setText(ended, summary.error ?? "");
    ended.hidden = !summary.error;
    about.replaceChildren(
      ...traits(summary).flatMap((text) => [clean(text), " · "]),
      ...(summary.folder ? [el("code", {}, clean(summary.folder)), " · "] : []),
      "began ",
      ago(summary.began),
    );
    sample.hidden = !run.sample;
    if (run.sample)
      setText(
        sample,
        `Shown is a sample of ${whole(run.sample.read)} of ${whole(run.sample.of)} results, while the rest is read.`,
      );
    figures.update([...FIGURES.map(([name, text]) => [name, text(summary)]), ["Results", whole(run.results ?? 0)]]);
    closes.update(run);
    repeat.update({ folder: summary.folder });
  };
  const show = (newer, error) => {
    failed.update(error);
    if (!newer) return;
    run = newer;
    attempt(head, () => showHead(run));
    if (!view) {
      view = panels(id, drawCurves, run.summary.state === "running");
      content.append(...view.elements);
    }
    view.update(run, others);
  };
  const ends = [
    follow(
      ({ runs }) => runs.has(id),
      () => askRun(id),
      show,
    ),
    follow(
      ({ list }) => list,
      askRuns,
      (answer) => {
        others = answer?.runs ?? others;
        // The run of this process gets its own address once it has a folder.
        if (id === LIVE && others.length === 1 && others[0].id !== LIVE)
          return location.replace(`#/run/${encodeURIComponent(others[0].id)}`);
        if (run) view.others(run, others);
      },
    ),
  ];
  return () => ends.forEach((end) => end());
}

// A path as a shell takes it.
const quoted = (path) => (/^[\w./:@%+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

function panels(id, drawCurves, isRunning) {
  const returns = overlay("Episode return", {
    height: 270,
    empty: "No episode has ended.",
    range: MEAN_AND_RANGE,
  });
  const policies = smallCharts(),
    policyHead = el("h3", {}, "Returns of single policies");
  const pipeline = pipelinePicture();
  const time = timeBars(),
    steps = stepTable();
  let span = isRunning ? "lately" : "all",
    newest = null;
  const drawTime = () =>
    time.update({ threads: span === "lately" ? newest.threads_lately : newest.threads, open: newest.open_threads });
  const spans = choice(
    "Of",
    [
      ["lately", "the last seconds"],
      ["all", "the whole run"],
    ],
    span,
    (value) => {
      span = value;
      drawTime();
    },
  );
  const rate = lineChart("Throughput", "env-steps per second, of each result", { ...OF_RATE, height: 200 });
  const lag = lineChart("Policy lag", `versions behind: ${MEAN_AND_RANGE}`, { ...OF_LAG, height: 200 });
  const lags = histogram();
  const learner = learnerCharts();
  const trouble = troubleList(replayOf);
  const settings = settingsTable(),
    difference = differencePanel(id);
  const video = videoPanel(id);
  const made = rebuilt("div", {}, madeRows);

  const curves = (run) => {
    const axis = xAxis([run.clock]);
    const lines = [lineOf("mean return", paint(0), run.returns, axis.of(run.returns, run.clock), { range: true })];
    if (run.evaluation.x.length)
      lines.push(lineOf("evaluations", paint(1), run.evaluation, axis.of(run.evaluation, run.clock), { marks: true }));
    returns.update({ lines, xName: axis.xName });
  };
  const learning = panel("Learning", "two-thirds", controls(drawCurves), returns.element, policyHead, policies.element);
  const lagsPanel = panel("Policy lag in the last result", "third own-title", lags.element);
  const troublePanel = panel("What went wrong", "wide", trouble.element);
  const settingsPanel = panel(
    "Settings",
    "wide",
    difference.element,
    el("div", { class: "in-columns" }, settings.element),
  );
  // Each with what it shows of a run: one that cannot be shown leaves the others alone.
  const all = [
    [
      learning,
      (run) => {
        curves(run);
        policyHead.hidden = !run.policy_returns.length;
        policies.update(run.policy_returns);
      },
    ],
    [video.element, video.update],
    [panel("Pipeline", "wide", pipeline.element), (run) => pipeline.update(run.pipeline ?? {}, run.sentence)],
    [panel("Where the time went", "most", spans, time.element), drawTime],
    [panel("What became of the steps", "least", steps.element), (run) => steps.update(run.steps)],
    [
      troublePanel,
      (run) => {
        trouble.update(run.trouble);
        troublePanel.classList.toggle("alarm", run.trouble.counts.length + run.trouble.lists.length > 0);
      },
    ],
    [panel("Throughput", "third own-title", rate.element), (run) => rate.update(run.rate)],
    [panel("Policy lag", "third own-title", lag.element), (run) => lag.update(run.lag)],
    [
      lagsPanel,
      (run) => {
        lagsPanel.hidden = run.lag_histogram == null;
        lags.update(run.lag_histogram);
      },
    ],
    [panel("Learner", "wide", learner.element), learner.update],
    [
      settingsPanel,
      (run, others) => {
        settings.update(run.settings);
        difference.others(run, others);
      },
    ],
    [panel("How it was made", "wide", made.element), (run) => made.update(run.info)],
  ];
  const update = (run, others) => {
    newest = run;
    for (const [element, show] of all) attempt(element, () => show(run, others));
  };
  return {
    elements: all.map(([element]) => element),
    curves: (run) => attempt(learning, () => curves(run)),
    update,
    others: (run, others) => attempt(settingsPanel, () => difference.others(run, others)),
  };
}

// Worker, seed and step of a failure, and what replays it, if its text says so.
function replayOf(text) {
  const where = /environment (\d+) of (\S*rollout-\d+)/.exec(text),
    replay = /\(to replay: (reset with seed (\d+), then the (\d+) steps)\)/.exec(text);
  if (!where && !replay) return null;
  const facts = [
    ["worker", where?.[2]],
    ["environment", where?.[1]],
    ["seed", replay?.[2]],
    ["step", replay?.[3]],
  ].filter(([, value]) => value != null);
  return el(
    "div",
    { class: "replay" },
    ...facts.map(([name, value]) => el("span", { class: "fact" }, el("b", {}, value), ` ${name}`)),
    replay ? copyable("how to replay this failure", replay[1]) : null,
  );
}

// Newest evaluation figures and the videos, of which the chosen one plays.
function videoPanel(id) {
  const line = rebuilt("div", {}, ({ n, last, best }) => [
    n
      ? headFigures([
          ["Newest", last],
          ["Best", best],
          ["Made", counted(n, "evaluation")],
        ])
      : null,
  ]);
  const image = el("img", { class: "video", alt: "" }),
    caption = el("figcaption"),
    pick = el("select", { "aria-label": "Which video" }),
    play = el("button", { type: "button" }, "Play");
  const options = optionsOf(pick);
  const figureOfVideo = el("figure", {}, el("div", { class: "bar-of-tools" }, pick, play), image, caption);
  const element = panel("Evaluation", "third", line.element, figureOfVideo);
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let videos = [],
    chosen = null,
    playing = null;
  const start = () => {
    const video = videos.find(({ name }) => name === chosen);
    if (!video || playing === chosen) return;
    playing = chosen;
    image.src = videoPath(id, video.name);
    image.alt = clean(`Video of an episode of the evaluation at ${or_dash(video.at_env_steps, whole)} env-steps`);
    image.hidden = false;
    play.hidden = true;
    setText(caption, `An episode of the evaluation at ${or_dash(video.at_env_steps, whole)} env-steps`);
  };
  pick.addEventListener("change", () => {
    chosen = pick.value;
    start();
  });
  play.addEventListener("click", start);
  image.hidden = true;
  play.hidden = !isCalm;
  const update = (run) => {
    const { evaluations: n, newest_evaluation: newest, best_evaluation: best } = run.summary;
    line.update({ n, last: or_dash(newest, figure), best: or_dash(best, figure) });
    element.hidden = !n && run.videos.length === 0;
    figureOfVideo.hidden = run.videos.length === 0;
    const followsNewest = chosen == null || chosen === videos[0]?.name;
    if (run.videos.map(({ name }) => name).join() !== videos.map(({ name }) => name).join()) {
      videos = run.videos;
      options.update(
        videos.map(({ name, at_env_steps: at }) => [name, at == null ? name : `at ${or_dash(at, whole)} env-steps`]),
      );
      if (followsNewest || !videos.some(({ name }) => name === chosen)) chosen = videos[0]?.name ?? null;
      pick.value = chosen;
    }
    if (!isCalm) start();
  };
  return { element, update };
}

// The settings that differ from those of another run, which the reader chooses.
function differencePanel(id) {
  const pick = el("select", {}),
    result = el("div"),
    failed = problem();
  const links = rebuilt("p", { class: "aside" }, (seeds) =>
    seeds.length
      ? [
          el(
            "a",
            { href: comparisonPath([id, ...seeds]) },
            `Compare with the ${counted(seeds.length, "run")} of other seeds`,
          ),
        ]
      : [],
  );
  const element = el(
    "div",
    {},
    links.element,
    el("label", { class: "tool" }, "Difference to ", pick),
    failed.element,
    result,
  );
  const options = optionsOf(pick);
  const label = (run) => clean([run.name, run.seed == null ? "" : `seed ${run.seed}`].filter(Boolean).join(" · "));
  let asked = "";
  pick.addEventListener("change", async () => {
    const other = (asked = pick.value);
    failed.update(null);
    if (!other) return result.replaceChildren();
    try {
      const answer = await differences([id, other]);
      if (asked !== other) return;
      const missing = missingFrom(answer, [id, other]);
      const names = ["this run", pick.selectedOptions[0]?.textContent ?? "the other"];
      const rows = answer.keys.map(({ key, values }) => [key, values]);
      result.replaceChildren(
        missing.length
          ? missingList(missing)
          : rows.length
            ? differencesTable(names, rows)
            : nothing("The settings of both are equal."),
        el("p", { class: "aside" }, runLink(other, "To that run")),
      );
    } catch (error) {
      failed.update(error);
    }
  });
  const MOST = 300;
  const others = (run, all) => {
    const rest = all.filter((other) => other.id !== id).slice(0, MOST);
    links.update(
      rest
        .filter((other) => other.group != null && other.group === run.summary.group)
        .map((other) => other.id)
        .slice(0, 63),
    );
    element.hidden = rest.length === 0;
    options.update([["", "no other run"], ...rest.map((other) => [other.id, label(other)])]);
  };
  return { element, others };
}

function madeRows(info) {
  if (!info) return [nothing("The folder has no run.json.")];
  // Of a run that was never resumed, its only start repeats the rest.
  const { starts, ...rest } = info;
  const numbered = Array.isArray(starts) && starts.length > 1 ? starts.map((start, i) => [i + 1, start]) : [];
  const flat = (value, path) =>
    value && typeof value === "object" && !Array.isArray(value)
      ? Object.entries(value).flatMap(([key, inner]) => flat(inner, [...path, key]))
      : [[path.join(" "), value]];
  const words = (name, value) =>
    lastPart(name, " ") === "began"
      ? (dateOf(value)?.toLocaleString() ?? setting(value))
      : Array.isArray(value)
        ? value.map(setting).join(" ")
        : setting(value);
  return [
    table(
      "settings",
      flat({ ...rest, start: Object.fromEntries(numbered) }, [])
        .filter(([, value]) => value != null)
        .map(([name, value]) =>
          el("tr", {}, el("th", { scope: "row" }, name.replaceAll("_", " ")), el("td", {}, words(name, value))),
        ),
    ),
  ];
}
