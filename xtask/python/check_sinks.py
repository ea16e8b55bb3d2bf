r"""Checks what reporters wrote with the programs that people read it with.

    python -m venv .venv && .venv/bin/pip install tensorboard
    .venv/bin/python xtask/python/check_sinks.py --results run/results.jsonl --events run/events \
        --csv run/progress.csv

`--results` names the JSON lines of a run: its last line is what must be found. Exits with 1 and a list of what differs.
"""

import argparse
import csv
import json
import math
import re
import struct
import sys

# As in the documentation of `TensorBoard`; what is not here has its path as its tag.
TAGS = {
    "episode_reward_min": "rollout/ep_rew_min",
    "episode_reward_mean": "rollout/ep_rew_mean",
    "episode_reward_max": "rollout/ep_rew_max",
    "episode_len_mean": "rollout/ep_len_mean",
    "episodes_this_iter": "rollout/episodes_this_iter",
    "training_iteration": "time/iterations",
    "time_this_iter_s": "time/time_this_iter",
    "time_total_s": "time/time_elapsed",
    "num_env_steps_sampled": "time/total_timesteps",
    "progress": "time/progress",
    "throughput/env_steps_per_s": "time/fps",
    "throughput/env_steps_per_s_since_start": "time/fps_since_start",
    "throughput/updates_per_s": "time/updates_per_s",
}


def numbers(tree, way=()):
    """The numbers of a result by their paths."""
    found = {}
    for key, value in tree.items():
        path = (*way, key)
        if isinstance(value, dict):
            found.update(numbers(value, path))
        elif isinstance(value, (int, float)):
            found["/".join(path)] = value
    return found


# As in the documentation of `TensorBoard`: what only repeats another figure, which has the curve.
REPEATS = {
    "episode_return_mean": "episode_reward_mean",
    "timesteps_total": "num_env_steps_sampled",
    "agent_timesteps_total": "num_agent_steps_sampled",
    "num_steps_trained_this_iter": "num_env_steps_trained_this_iter",
    "num_healthy_workers": "workers/healthy",
    "num_in_flight_async_reqs": "workers/healthy",
    "num_remote_worker_restarts": "workers/restarts",
    "num_batches_quarantined": "learner_health/batches_quarantined",
    "ledger/steps/sampled/env": "num_env_steps_sampled",
    "ledger/steps/sampled/agent": "num_agent_steps_sampled",
    "ledger/steps/trained_once/env": "num_env_steps_trained_once",
    "ledger/steps/trained_once/agent": "num_agent_steps_trained_once",
    "ledger/steps/trained_passes/env": "num_env_steps_trained",
    "ledger/steps/trained_passes/agent": "num_agent_steps_trained",
}
STEPS = re.compile(r"num_(env|agent)_steps_(sampled|trained|trained_once)")


def repeated(path):
    """The path of the figure that the one at `path` repeats."""
    if path in REPEATS:
        return REPEATS[path]
    if path.startswith("sampler_results/"):
        return path.removeprefix("sampler_results/")
    counter = re.fullmatch(r"(counters|info)/(num_\w+)", path)
    if counter and (counter[2] in REPEATS or STEPS.fullmatch(counter[2])):
        return REPEATS.get(counter[2], counter[2])
    return f"counters/{counter[2]}" if counter and counter[1] == "info" else None


def tag_of(path):
    learner = re.fullmatch(r"info/learner/(.+?)/learner_stats/(.+)", path)
    if learner:
        policy, stat = learner.groups()
        return f"train/{stat}" if policy == "default_policy" else f"train/{policy}/{stat}"
    return TAGS.get(path, path)


def as_f32(value):
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def check_events(folder, result):
    """What is wrong with the event files in `folder`, one line each."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = {"scalars": 0, "histograms": 0, "tensors": 0}
    events = EventAccumulator(folder, size_guidance=everything)
    events.Reload()
    step = result.get("num_env_steps_sampled", result.get("training_iteration"))
    scalars = {}
    for tag in events.Tags()["scalars"]:
        newest = events.Scalars(tag)[-1]
        if newest.step == step:
            scalars[tag] = newest.value
    missing = []
    n_equal = 0
    for path, value in numbers(result).items():
        if path.startswith("ledger/time/"):
            continue
        tag = tag_of(path)
        if tag not in scalars:
            missing.append((path, as_f32(value)))
        elif scalars[tag] != as_f32(value):
            yield f"`{tag}` is {scalars[tag]!r} and should be {as_f32(value)!r}, as `{path}` is"
        else:
            n_equal += 1
    for path, value in missing:
        original = repeated(path)
        if original is None:
            yield f"`{path}` is {value!r} and has no curve at step {step}"
        elif scalars.get(tag_of(original)) != value:
            yield f"`{path}` repeats `{original}`, whose curve has {scalars.get(tag_of(original))!r} and not {value!r}"
    histograms = events.Tags()["histograms"]
    texts = [tag for tag in events.Tags()["tensors"] if events.SummaryMetadata(tag).plugin_data.plugin_name == "text"]
    if not any(events.Histograms(tag)[-1].histogram_value.num > 0 for tag in histograms):
        yield "no histogram"
    if not any(events.Tensors(tag)[-1].tensor_proto.string_val[0] for tag in texts):
        yield "no text"
    print(
        f"{folder}: {n_equal} curves equal at step {step}, {len(missing)} repeats, "
        f"histograms {histograms}, texts {texts}"
    )


def check_csv(path, result):
    """What is wrong with the table at `path`, one line each."""
    with open(path, newline="", encoding="utf-8") as table:
        rows = list(csv.DictReader(table, strict=True))
    newest = {column: cell for column, cell in rows[-1].items() if cell}
    expected = numbers(result)
    for name in expected.keys() | newest.keys():
        value, cell = expected.get(name), newest.get(name)
        # Read as JSON both keep all digits of integers.
        if value is None or cell is None or json.loads(cell) != value:
            yield f"`{name}` is {cell!r} in the last row and should be {value!r}"
    print(f"{path}: {len(rows)} rows, {len(newest)} cells in the last one")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, metavar="FILE", help="JSON lines of the run")
    parser.add_argument("--events", metavar="FOLDER", help="check the event files for TensorBoard in this folder")
    parser.add_argument("--csv", metavar="FILE", help="check this table")
    args = parser.parse_args()
    with open(args.results, encoding="utf-8") as lines:
        result = json.loads(list(lines)[-1])
    wrong = []
    if args.events:
        wrong += check_events(args.events, result)
    if args.csv:
        wrong += check_csv(args.csv, result)
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
