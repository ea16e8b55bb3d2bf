// One run: its curves, pipeline, ledgers, evaluations, failures and settings.
/* global el, setText, clean, rebuilt, headFigures, nothing, table, whole, or_dash, figure, counted, overlay, lineChart,
   smallCharts, histogram, pipelinePicture, timeBars, stepTable, verdict, troubleList, settingsTable */
import { differences, follow, run as askRun, runs as askRuns, videoPath } from "./data.js";
import { FIGURES, ago, choice, copyable, panel, problem, runLink, stateBadge } from "./widgets.js";
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
  main.append(
    el("div", { class: "title" }, h1, badge.element),
    about,
    failed.element,
    ended,
    sample,
    el("div", { class: "overview" }, figures.element, el("div", {}, closes.element, repeat.element)),
    content,
  );

  let run = null,
    view = null,
    others = [];
  const drawCurves = () => run && view.curves(run);
  const show = (newer, error) => {
    failed.update(error);
    if (!newer) return;
    run = newer;
    if (!view) {
      view = panels(id, drawCurves, run.summary.state === "running");
      content.append(...view.elements);
    }
    const { summary } = run;
    title(summary.name);
    badge.update(summary.state);
    setText(ended, summary.error ?? "");
    ended.hidden = !summary.error;
    about.replaceChildren(
      ...[summary.env, summary.algorithm, summary.seed == null ? null : `seed ${summary.seed}`]
        .filter((text) => text && !summary.name.includes(text))
        .flatMap((text) => [text, " · "]),
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
    range: "mean, with the range from minimum to maximum",
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
  const rate = lineChart("Throughput", "env-steps per second, of each result", {
    zero: true,
    height: 200,
    empty: "No result has a throughput.",
    xName: "wall time, s",
  });
  const lag = lineChart("Policy lag", "versions behind: mean, and the range from minimum to maximum", {
    zero: true,
    height: 200,
    empty: "No result has a policy lag.",
  });
  const lags = histogram(),
    lagsPanel = panel("Policy lag in the last result", "third own-title", lags.element);
  const learner = learnerPanel();
  const trouble = troubleList(replayOf);
  const settings = settingsTable(),
    difference = differencePanel(id);
  const video = videoPanel(id);
  const made = rebuilt("div", {}, madeRows);
  const troublePanel = panel("What went wrong", "wide", trouble.element);

  const elements = [
    panel("Learning", "two-thirds", controls(drawCurves), returns.element, policyHead, policies.element),
    video.element,
    panel("Pipeline", "wide", pipeline.element),
    panel("Where the time went", "most", spans, time.element),
    panel("What became of the steps", "least", steps.element),
    troublePanel,
    panel("Throughput", "third own-title", rate.element),
    panel("Policy lag", "third own-title", lag.element),
    lagsPanel,
    learner.element,
    panel("Settings", "wide", difference.element, el("div", { class: "in-columns" }, settings.element)),
    panel("How it was made", "wide", made.element),
  ];
  const curves = (run) => {
    const axis = xAxis([run.clock]);
    const lines = [lineOf("mean return", paint(0), run.returns, axis.of(run.returns, run.clock), { range: true })];
    if (run.evaluation.x.length)
      lines.push(lineOf("evaluations", paint(1), run.evaluation, axis.of(run.evaluation, run.clock), { marks: true }));
    returns.update({ lines, xName: axis.xName });
  };
  const update = (run, others) => {
    newest = run;
    curves(run);
    policyHead.hidden = !run.policy_returns.length;
    policies.update(run.policy_returns);
    pipeline.update(run.pipeline ?? {}, run.sentence);
    drawTime();
    steps.update(run.steps);
    rate.update(run.rate);
    lag.update(run.lag);
    lags.update(run.lag_histogram);
    lagsPanel.hidden = run.lag_histogram == null;
    learner.update(run);
    trouble.update(run.trouble);
    troublePanel.classList.toggle("alarm", run.trouble.counts.length + run.trouble.lists.length > 0);
    settings.update(run.settings);
    video.update(run);
    made.update(run.info);
    difference.others(run, others);
  };
  return { elements, curves, update, others: difference.others };
}

function learnerPanel() {
  const charts = new Map(),
    none = nothing("No result has statistics of the learner."),
    body = el("div"),
    rest = nothing("");
  const aside = el("p", { class: "aside" }, "All over env-steps; the number is that of the last result.");
  const element = panel("Learner", "wide", none, body, aside, rest);
  const update = ({ learner, curves_left_out }) => {
    const policies = Object.entries(learner);
    none.hidden = policies.length > 0;
    aside.hidden = !none.hidden;
    for (const [policy, curves] of policies) {
      if (!charts.has(policy)) {
        charts.set(policy, smallCharts());
        body.append(el("h3", {}, policy), charts.get(policy).element);
      }
      charts.get(policy).update(curves);
    }
    rest.hidden = !curves_left_out;
    if (curves_left_out) setText(rest, `And ${counted(curves_left_out, "further curve")}, left out for size.`);
  };
  return { element, update };
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
    const { x, mean } = run.evaluation;
    line.update({
      n: x.length,
      last: or_dash(mean.at(-1), figure),
      best: or_dash(run.summary.best_evaluation, figure),
    });
    element.hidden = x.length === 0 && run.videos.length === 0;
    figureOfVideo.hidden = run.videos.length === 0;
    const followsNewest = chosen == null || chosen === videos[0]?.name;
    if (run.videos.map(({ name }) => name).join() !== videos.map(({ name }) => name).join()) {
      videos = run.videos;
      pick.replaceChildren(
        ...videos.map(({ name, at_env_steps }) =>
          el("option", { value: name }, at_env_steps == null ? name : `at ${whole(at_env_steps)} env-steps`),
        ),
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
            { href: `#/compare/${[id, ...seeds].map(encodeURIComponent).join(",")}` },
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
  const label = (run) => clean([run.name, run.seed == null ? "" : `seed ${run.seed}`].filter(Boolean).join(" · "));
  let asked = "";
  pick.addEventListener("change", async () => {
    const other = (asked = pick.value);
    failed.update(null);
    if (!other) return result.replaceChildren();
    try {
      const { keys } = await differences([id, other]);
      if (asked !== other) return;
      const names = ["", "this run", pick.selectedOptions[0]?.textContent ?? "the other"];
      result.replaceChildren(
        keys.length
          ? table("settings", [
              el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name))),
              ...keys.map(({ key, values }) =>
                el("tr", {}, el("th", { scope: "row" }, key), ...values.map((value) => el("td", {}, setting(value)))),
              ),
            ])
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
    const now = JSON.stringify(rest.map((other) => [other.id, label(other)]));
    if (now === others.before) return;
    others.before = now;
    const value = pick.value;
    pick.replaceChildren(
      el("option", { value: "" }, "no other run"),
      ...rest.map((other) => el("option", { value: other.id }, label(other))),
    );
    pick.value = value;
  };
  return { element, others };
}
export const setting = (value) => (value == null ? "–" : typeof value === "string" ? value : JSON.stringify(value));

function madeRows(info) {
  if (!info) return [nothing("The folder has no run.json.")];
  const flat = (value, path) =>
    value && typeof value === "object" && !Array.isArray(value)
      ? Object.entries(value).flatMap(([key, inner]) => flat(inner, [...path, key]))
      : [[path.join(" "), value]];
  const words = (name, value) =>
    name === "began"
      ? new Date(1000 * value).toLocaleString()
      : Array.isArray(value)
        ? value.join(" ")
        : setting(value);
  return [
    table(
      "settings",
      flat(info, [])
        .filter(([, value]) => value != null)
        .map(([name, value]) =>
          el("tr", {}, el("th", { scope: "row" }, name.replaceAll("_", " ")), el("td", {}, words(name, value))),
        ),
    ),
  ];
}
