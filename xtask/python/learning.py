"""Trains the tasks of benches/learning.toml over many seeds, keeps their curves, and writes docs/learning.md.

A curve that is in docs/learning already is not made again, and a run that was killed or interrupted goes on from its
last checkpoint, unless its settings have changed since: so does the command.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
from scipy import stats

POINTS = 200  # of a curve, at most
TASK = "task.json"  # what a run was started for, in its folder
EPISODES = 100  # that a point of a curve is the mean of, at least
COLUMNS = ["seed", "env_steps", "seconds", "episode_return_mean"]


def main():
    args = arguments(__doc__)
    tasks = [whole(args.root, task) for task in read_toml(args.root / "benches/learning.toml")["tasks"]]
    known = names_of(tasks, args.tasks)
    failed = []
    for task in tasks:
        if not args.table and task["name"] in (args.tasks or known):
            failed += train(args, task)
    write_table(args.root, tasks)
    if failed:
        sys.exit("\n".join(["not in the table:", *failed]))


def arguments(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("tasks", nargs="*", help="what to train; all by default")
    parser.add_argument("--root", type=Path, required=True, help="the repository")
    parser.add_argument("--pronk", type=Path, required=True, help="the program, a release build")
    parser.add_argument("--folder", type=Path, required=True, help="where runs leave their folders")
    parser.add_argument("--seeds", type=int, help="the seeds 1 to this; by default as many as the file says")
    parser.add_argument("--table", action="store_true", help="train nothing, only write the table")
    return parser.parse_args()


def names_of(tasks, wanted):
    """The names that there are; ends the program if another is wanted."""
    known = [task["name"] for task in tasks]
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"there is no task {unknown[0]!r}; there are {', '.join(known)}")
    return known


def read_toml(path):
    return tomllib.loads(path.read_text())


def whole(root, task):
    """The task with what it leaves to its config."""
    config = read_toml(root / "configs" / task["config"])
    # Environments of Python have the name of their family before a colon.
    is_python = ":" in config["env"]
    target = config["stop"]["episode_return_mean"]
    return {"seeds": 10, "threshold": target, "settings": [], "python": is_python} | task


def train(args, task):
    """Trains the seeds that have no curve yet; returns those that failed, and why."""
    failed = []
    path = curves_path(args.root, task)
    done = {row["seed"] for row in read_curves(path)}
    for seed in range(1, (args.seeds or task["seeds"]) + 1):
        if seed in done:
            continue
        folder = args.folder / f"{task['name']}-{seed}"
        run = subprocess.run(command(args, task, seed, folder), stdout=subprocess.PIPE, text=True)
        what = f"{task['name']}, seed {seed}"
        if run.returncode != 0:
            failed.append(f"{what}: `pronk train` ended with status {run.returncode}")
            continue
        line = json.loads(run.stdout)
        if not line["ledger_closed"]:
            failed.append(f"{what}: the ledger does not close: see {folder}")
            continue
        if not append_curve(path, seed, folder):
            failed.append(f"{what}: no result covers {EPISODES} episodes: raise its env_steps")
            continue
        mean, steps, seconds = line["episode_return_mean"], line["env_steps"], line["seconds"]
        print(f"{what}: {mean:.1f} after {steps} env-steps in {seconds:.1f} s", flush=True)
    return failed


def command(args, task, seed, folder):
    train, config = [args.pronk, "train", "--json"], args.root / "configs" / task["config"]
    settings = ["stop.episode_return_mean=none", f"stop.env_steps={task['env_steps']}", *task["settings"]]
    if task["python"]:
        settings.append(f"env_options.python={sys.executable}")
    wanted = json.dumps({"config": config.read_text(), "settings": settings}, indent=1)
    if was_interrupted(folder):
        if was_started_for(folder, wanted):
            return [*train, "--resume", folder]
        print(f"{folder}: it was interrupted with other settings, and starts anew", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TASK).write_text(wanted)
    train += [config, "--seed", str(seed), "--out", folder, "--overwrite"]
    return train + [part for setting in settings for part in ("--set", setting)]


def was_interrupted(folder):
    """Whether a run has a checkpoint, and was killed or ended by a signal."""
    about = folder / "run.json"
    if not about.exists() or not (folder / "checkpoints/manifest.json").exists():
        return False
    outcome = json.loads(about.read_text())["outcome"]
    return outcome is None or outcome["reason"] in ("interrupted", "terminated")


def was_started_for(folder, wanted):
    """Whether the run in a folder was started for this task."""
    task = folder / TASK
    if not task.exists() or task.read_text() != wanted:
        return False
    # A run is younger than its task: an older one is of another, and the run of this task could not begin.
    return (folder / "run.json").stat().st_mtime_ns >= task.stat().st_mtime_ns


def append_curve(path, seed, folder):
    """Adds the curve of a run: of results with enough episodes, as many as a curve has points. Whether it has any."""
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    enough = [result for result in results if result["episodes_covered"] >= EPISODES]
    every = max(1, -(-len(enough) // POINTS))
    if not enough:
        return False
    # Counted from the end, so that the last one is among them.
    points = enough[::-1][::every][::-1]
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        for point in points:
            mean = round(point["episode_return_mean"], 3)
            writer.writerow([seed, point["num_env_steps_sampled"], round(point["time_total_s"], 2), mean])
    return True


def curves_path(root, task):
    return root / "docs/learning" / f"{task['name']}.csv"


def read_curves(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def interquartile_mean(scores):
    """Mean and interval as rliable has them: the mean of the middle half, and 95 % of bootstrap samples of runs."""
    mean = stats.trim_mean(scores, proportiontocut=0.25)
    if len(scores) < 2:
        return mean, None
    trimmed = lambda samples, axis: stats.trim_mean(samples, proportiontocut=0.25, axis=axis)
    found = stats.bootstrap((np.array(scores),), trimmed, n_resamples=50_000, batch=5_000, method="percentile", rng=0)
    return mean, found.confidence_interval


def row_of(root, task):
    """A row of the table; None without curves."""
    runs = {}
    for point in read_curves(curves_path(root, task)):
        runs.setdefault(point["seed"], []).append(point)
    if not runs:
        return None
    finals = [curve[-1]["episode_return_mean"] for curve in runs.values()]
    mean, interval = interquartile_mean(finals)
    reached = []
    for curve in runs.values():
        first = next((point for point in curve if point["episode_return_mean"] >= task["threshold"]), None)
        if first:
            reached.append(first)
    cells = [
        f"`{task['name']}`",
        f"{len(runs)}",
        in_words(task["env_steps"]),
        f"{mean:,.1f}" + (f" ({interval.low:,.1f} to {interval.high:,.1f})" if interval else ""),
        f"{min(finals):,.1f} to {max(finals):,.1f}",
        f"{task['threshold']:,}: {len(reached)} of {len(runs)}",
        spread([point["env_steps"] for point in reached], in_words),
        spread([point["seconds"] for point in reached], "{:.1f}".format),
        task.get("cleanrl", "–"),
    ]
    return f"| {' | '.join(cells)} |"


def spread(values, text):
    """Median and range."""
    if not values:
        return "–"
    return f"{text(statistics.median(values))} ({text(min(values))} to {text(max(values))})"


def in_words(steps):
    return f"{steps / 1e6:.3g} M" if steps >= 1e6 else f"{steps / 1e3:.0f} k"


def write_table(root, tasks):
    rows = [row for task in tasks if (row := row_of(root, task))]
    heads = ["task", "seeds", "env-steps", "return at the end", "range", "return reached", "env-steps to it",
             "seconds to it", "CleanRL"]
    lines = [HEAD, f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows, FOOT]
    (root / "docs/learning.md").write_text("\n".join(lines))


HEAD = """# What the tuned settings learn

Made by `cargo xtask learning` of the tasks in [`benches/learning.toml`](../benches/learning.toml), each with
the seeds 1, 2, … and without a target, so that all curves are equally long. The curves are in
[`docs/learning/`](learning). [What policy lag costs](lag.md) has a page of its own.
"""

FOOT = """
- *Return at the end*: the interquartile mean over seeds of the mean return of the last hundred episodes or
  more, which are sampled as in training; in brackets the 95 % interval of 50,000 bootstrap samples of the
  runs. These are the definitions of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the
  Statistical Precipice".
- *Env-steps* and *seconds to it*: median and range over the seeds that reached the return, at the first point
  of the curve that has. Seconds are those of two cores that other programs may have shared.
- *CleanRL*: mean and deviation that its documentation gives for PPO with three seeds, after as many env-steps
  unless it says otherwise.
"""

if __name__ == "__main__":
    main()
