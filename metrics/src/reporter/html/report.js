// Lays out the report of a run from the JSON in #data, whose fields the script of the charts documents.
"use strict";
{
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.querySelector("main");
  const section = (heading, ...children) =>
    main.append(el("section", {}, el("h2", {}, heading), ...children.filter((child) => child != null)));
  const drawn = (chart, ...newest) => {
    chart.update(...newest);
    return chart.element;
  };

  main.append(
    el(
      "header",
      {},
      el("h1", {}, data.name),
      headFigures([
        ["Return reached", or_dash(data.episode_return, figure)],
        ["Env-steps", or_dash(data.env_steps, whole)],
        ["Wall time", or_dash(data.wall_secs, duration)],
        ["Env-steps/s", or_dash(data.env_steps_per_s, (rate) => figure(Math.round(rate)))],
        ["Results", whole(data.results)],
      ]),
      data.results ? null : nothing("The run ended before its first result."),
      drawn(verdict(), data),
    ),
  );

  if (data.results) section("The pipeline in the last result", drawn(pipelinePicture(), data.pipeline, data.sentence));
  const range = "mean, and the range from minimum to maximum";
  section(
    "Learning",
    drawn(lineChart("Episode return", range, { empty: "No episode has ended." }), data.returns),
    data.evaluation.x.length
      ? drawn(lineChart("Evaluations", "mean return, and the range from minimum to maximum", {}), data.evaluation)
      : null,
    ...(data.policy_returns.length
      ? [el("h3", {}, "Returns of single policies"), drawn(smallCharts(), data.policy_returns)]
      : []),
  );
  section(
    "Policy lag",
    drawn(
      lineChart("Policy lag", `versions behind: ${range}`, { zero: true, empty: "No result has a policy lag." }),
      data.lag,
    ),
    data.lag_histogram ? drawn(histogram(), data.lag_histogram) : null,
  );
  section(
    "Throughput",
    drawn(
      lineChart("Env-steps per second", "of each result", {
        zero: true,
        empty: "No result has a throughput.",
        xName: "wall time, s",
      }),
      data.rate,
    ),
  );
  const policies = Object.entries(data.learner);
  section(
    "Learner",
    policies.length ? null : nothing("No result has statistics of the learner."),
    ...policies.flatMap(([policy, curves]) => [el("h3", {}, policy), drawn(smallCharts(), curves)]),
    policies.length ? el("p", { class: "aside" }, "All over env-steps; the number is that of the last result.") : null,
    data.curves_left_out ? nothing(`And ${counted(data.curves_left_out, "further curve")}, left out for size.`) : null,
  );
  section("Where the time went", drawn(timeBars(), { threads: data.threads, open: data.open_threads }));
  section("What became of the steps", drawn(stepTable(), data.steps));
  section("What went wrong", drawn(troubleList(), data.trouble));
  section("Settings", drawn(settingsTable(), data.settings));
}
