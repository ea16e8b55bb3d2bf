"""What policy lag costs: trains the runs of benches/lag.toml at exact lags, keeps their curves, writes docs/lag.md.

Admission is deterministic: the lag of every run is exact, and a run with the same seed repeats bit for bit. What has
a curve in docs/learning/lag already, from the settings of today, is not trained again.
"""

import csv
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from learning import EPISODES, arguments, in_words, interquartile_mean, names_of, read_toml

# Environments find the modules of this folder.
PYTHONPATH = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, PYTHONPATH))}
POINTS = 20  # of a curve, beside the first that reaches the threshold
COLUMNS = ["settings", "objective", "lag", "seed", "env_steps", "episode_return_mean"]


def main():
    args = arguments(__doc__)
    plan = read_toml(args.root / "benches/lag.toml")
    known = names_of(plan["runs"], args.tasks)
    failed = []
    for run in plan["runs"]:
        if not args.table and run["name"] in (args.tasks or known):
            failed += train(args, plan, run)
    write_page(args.root, plan)
    if failed:
        sys.exit("\n".join(["not in the table:", *failed]))


def train(args, plan, run):
    """Trains what has no curve yet, two at a time; returns what failed, and why."""
    path = curves_path(args.root, run)
    digests = {name: digest(args.root, plan, run, name) for name in objectives(plan, run)}
    rows = [row for row in read_curves(path) if row["settings"] == digests.get(row["objective"])]
    write(path, rows)
    done = {(row["objective"], row["lag"], row["seed"]) for row in rows}
    wanted = [
        (objective, lag, seed)
        for lag in run.get("lags", plan["lags"])
        for objective in objectives(plan, run)
        for seed in range(1, (args.seeds or run.get("seeds", plan["seeds"])) + 1)
        if (objective, lag, seed) not in done
    ]
    failed = []
    with ThreadPoolExecutor(2) as threads:
        curves = threads.map(lambda one: curve_of(args, plan, run, *one), wanted)
        for (objective, lag, seed), (curve, why) in zip(wanted, curves):
            what = f"{run['name']}, {objective}, lag {lag}, seed {seed}"
            if why:
                failed.append(f"{what}: {why}")
                continue
            settings = digests[objective]
            rows += [dict(zip(COLUMNS, (settings, objective, lag, seed, *point))) for point in curve]
            write(path, rows)
            print(f"{what}: {curve[-1][1]:.1f} after {curve[-1][0]} env-steps", flush=True)
    return failed


def objectives(plan, run):
    """The settings of each objective: of the run's algorithm, or only of those that it names."""
    own = plan["objectives"][run["algorithm"]]
    return {name: own[name] for name in run.get("objectives", own)}


def settings_of(plan, run, objective):
    """The settings that the config has not."""
    own = [*run.get("settings", []), *objectives(plan, run)[objective]]
    return [*own, "stop.episode_return_mean=none", f"stop.env_steps={run['env_steps']}"]


def digest(root, plan, run, objective):
    """A name for the config and these settings."""
    config = (root / "configs" / run["config"]).read_text()
    return hashlib.sha256(json.dumps([config, settings_of(plan, run, objective)]).encode()).hexdigest()[:8]


def curve_of(args, plan, run, objective, lag, seed):
    """The points of one run, or why there are none."""
    folder = args.folder / "lag" / run["name"] / f"{objective}-{lag}-{seed}"
    settings = [
        *settings_of(plan, run, objective),
        f"learner.admission.deterministic.lag={lag}",
        f"results.min_sample_timesteps_per_iteration={run['env_steps'] // 100}",
        "results.min_time_s_per_iteration=0",
    ]
    if run.get("python"):
        settings.append(f"env_options.python={sys.executable}")
    config = args.root / "configs" / run["config"]
    command = [args.pronk, "train", "--json", config, "--seed", str(seed), "--out", folder, "--overwrite"]
    command += [part for setting in settings for part in ("--set", setting)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode != 0:
        return None, f"`pronk train` ended with status {done.returncode}: {done.stderr.strip()[-300:]}"
    if not json.loads(done.stdout)["ledger_closed"]:
        return None, f"the ledger does not close: see {folder}"
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    shutil.rmtree(folder)
    points = [
        (result["num_env_steps_sampled"], round(result["episode_return_mean"], 2))
        for result in results
        if result["episodes_covered"] >= EPISODES
    ]
    if not points:
        return None, f"no result covers {EPISODES} episodes: raise its env_steps"
    # Counted from the end, so that the last one is among them.
    kept = set(points[::-1][:: max(1, -(-len(points) // POINTS))])
    first = next((point for point in points if point[1] >= run["threshold"]), points[-1])
    return sorted(kept | {first}), None


def curves_path(root, run):
    return root / "docs/learning/lag" / f"{run['name']}.csv"


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whoever interrupts it keeps the curves of before.
    whole = path.with_suffix(".part")
    with whole.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    whole.replace(path)


def read_curves(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        numbers = {"lag": int, "seed": int, "env_steps": int, "episode_return_mean": float}
        return [{name: numbers.get(name, str)(value) for name, value in row.items()} for row in csv.DictReader(file)]


def summaries(root, run):
    """{objective: {lag: {finals, reached}}} of the curves."""
    curves = {}
    for row in read_curves(curves_path(root, run)):
        of_lag = curves.setdefault(row["objective"], {}).setdefault(row["lag"], {})
        of_lag.setdefault(row["seed"], []).append((row["env_steps"], row["episode_return_mean"]))
    return {
        objective: {lag: summary(run, list(seeds.values())) for lag, seeds in sorted(by_lag.items())}
        for objective, by_lag in curves.items()
    }


def summary(run, curves):
    finals = [curve[-1][1] for curve in curves]
    reached = [next((steps for steps, value in curve if value >= run["threshold"]), None) for curve in curves]
    # Within a tenth of the way from the worst return to the threshold.
    lost = run["worst"] + 0.1 * (run["threshold"] - run["worst"])
    return {
        "finals": finals,
        "reached": [steps for steps in reached if steps is not None],
        "collapsed": sum(final < lost for final in finals),
    }


def write_page(root, plan):
    found = [(run, own) for run in plan["runs"] if (own := summaries(root, run))]
    lines = [HEAD]
    for run, own in found:
        lines += table(run, own)
    lines.append(FOOT)
    (root / "docs/lag.md").write_text("\n".join(lines))
    draw(root / "docs/lag.svg", found)


def table(run, own):
    """The section of one run: a row for each lag, and three columns for each objective."""
    title = f"## {run['title']}\n"
    about = f"`{run['config']}`, {in_words(run['env_steps'])} env-steps, return to reach {run['threshold']:,}"
    settings = run.get("settings", [])
    about += "; with\n\n```text\n" + "\n".join(settings) + "\n```\n" if settings else ".\n"
    heads = ["lag"] + [cell for name in own for cell in (name, "reached, after", "worst")]
    lines = [title, about, f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for lag in sorted({lag for by_lag in own.values() for lag in by_lag}):
        cells = [str(lag)]
        for by_lag in own.values():
            cells += of_lag(by_lag[lag]) if lag in by_lag else ["", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def of_lag(one):
    mean, interval = interquartile_mean(one["finals"])
    within = f" ({interval.low:,.0f} to {interval.high:,.0f})" if interval else ""
    reached = f"{len(one['reached'])}/{len(one['finals'])}"
    if one["reached"]:
        reached += f", {in_words(statistics.median(one['reached']))}"
    collapsed = f", {one['collapsed']} lost" if one["collapsed"] else ""
    return [f"{mean:,.0f}{within}", reached, f"{min(one['finals']):,.0f}{collapsed}"]


def draw(path, found):
    """Return against lag, a panel for each run."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "lag", "svg.fonttype": "none", "font.size": 9}
    from matplotlib import pyplot

    across = 3
    down = -(-len(found) // across)
    figure, panels = pyplot.subplots(down, across, figsize=(3.6 * across, 2.6 * down), squeeze=False)
    for panel in panels.flat[len(found) :]:
        panel.set_visible(False)
    for panel, (run, own) in zip(panels.flat, found):
        for objective, by_lag in own.items():
            means = [interquartile_mean(one["finals"]) for one in by_lag.values()]
            lags = list(by_lag)
            (line,) = panel.plot(lags, [mean for mean, _ in means], marker="o", markersize=3, label=objective)
            if all(interval for _, interval in means):
                low, high = ([getattr(interval, end) for _, interval in means] for end in ("low", "high"))
                panel.fill_between(lags, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        panel.set_xscale("symlog", base=2, linthresh=1)
        ticks = sorted({lag for by_lag in own.values() for lag in by_lag})
        panel.set_xticks(ticks, labels=ticks)
        panel.set_title(run["title"])
        panel.set_xlabel("lag in fragments")
        panel.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


HEAD = """# What policy lag costs

Made by `cargo xtask learning lag` of the runs in [`benches/lag.toml`](../benches/lag.toml): the return against
the *exact* age of the data. Under deterministic admission a fragment is sampled with the weights from before
so many fragments; every run can be repeated bit for bit. The curves are in [`docs/learning/lag/`](learning/lag).
[Decision 0056](decisions/0056-near-the-policy-that-acted.md) says what was tried and left out.

![return against lag](lag.svg)
"""

FOOT = """- *The first column of an objective*: the interquartile mean over seeds of the mean return of the last hundred
  episodes or more, with the 95 % interval of bootstrap samples of runs, as in [learning](learning.md).
- *Reached, after*: seeds whose mean return reached the threshold, and the median of the env-steps to it.
- *Worst*: the return at the end of the worst seed, and how many seeds ended within a tenth of the way from
  the task's worst return to the threshold.
"""

if __name__ == "__main__":
    main()
