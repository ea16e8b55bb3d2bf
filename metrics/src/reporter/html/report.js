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
        ...FIGURES.filter(([, , , field]) => field in data).map(([name, text]) => [name, text(data)]),
        ["Results", whole(data.results)],
      ]),
      data.results ? null : nothing("The run ended before its first result."),
      drawn(verdict(), data),
    ),
  );

  if (data.results) section("The pipeline in the last result", drawn(pipelinePicture(), data.pipeline, data.sentence));
  section(
    "Learning",
    drawn(lineChart("Episode return", MEAN_AND_RANGE, { empty: "No episode has ended." }), data.returns),
    data.evaluation.x.length ? drawn(lineChart("Evaluations", MEAN_AND_RANGE, {}), data.evaluation) : null,
    ...(data.policy_returns.length
      ? [el("h3", {}, "Returns of single policies"), drawn(smallCharts(), data.policy_returns)]
      : []),
  );
  section(
    "Policy lag",
    drawn(lineChart("Policy lag", `versions behind: ${MEAN_AND_RANGE}`, OF_LAG), data.lag),
    data.lag_histogram ? drawn(histogram(), data.lag_histogram) : null,
  );
  section("Throughput", drawn(lineChart("Env-steps per second", "of each result", OF_RATE), data.rate));
  section("Learner", drawn(learnerCharts(), data));
  section("Where the time went", drawn(timeBars(), { threads: data.threads, open: data.open_threads }));
  section("What became of the steps", drawn(stepTable(), data.steps));
  section("What went wrong", drawn(troubleList(), data.trouble));
  section("Settings", drawn(settingsTable(), data.settings));
}
