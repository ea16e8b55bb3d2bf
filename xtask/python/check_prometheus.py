"""Reads what the endpoint for Prometheus served with Prometheus' own parser, and finds the result's figures in it.

    python -m pip install prometheus-client
    curl -s http://127.0.0.1:9464/metrics > served.txt
    python xtask/python/check_prometheus.py served.txt results.jsonl

The text must have been served after the last line of results.jsonl was written. Exits with 1 and a message when the
text breaks a rule of OpenMetrics, or when a figure of that line is missing or another.
"""

import json
import math
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families


class Mismatch(Exception):
    """What the text lacks or has wrong."""


def read_samples(text):
    """Every sample's value by its name and labels."""
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise Mismatch(f"this is no OpenMetrics text: {error}") from error
    samples = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            if key in samples:
                raise Mismatch(f"{show(key)} is there twice")
            samples[key] = sample.value
    return samples


def show(key):
    name, labels = key
    inside = ",".join(f'{label}="{value}"' for label, value in sorted(labels))
    return f"{name}{{{inside}}}" if inside else name


def expected_samples(result):
    """What must be there for a result: steps, return, updates and where each thread's time went."""
    expected = {}

    def expect(name, value, **labels):
        if value is not None:
            expected[name, frozenset(labels.items())] = value

    expect("pronk_training_iterations_total", result["training_iteration"])
    expect("pronk_run_seconds_total", result["time_total_s"])
    expect("pronk_episode_return_mean", result.get("episode_return_mean"))

    steps = result["ledger"]["steps"]
    for unit in ("env", "agent"):
        expect("pronk_steps_sampled_total", steps["sampled"][unit], unit=unit)
        expect("pronk_steps_trained_passes_total", steps["trained_passes"][unit], unit=unit)
        expect("pronk_steps_in_flight", steps["in_flight"][unit], unit=unit)
        expect("pronk_steps_total", steps["trained_once"][unit], fate="trained", unit=unit)
        for fate in ("dropped", "lost"):
            for reason, count in steps[fate].items():
                expect("pronk_steps_total", count[unit], fate=fate, reason=reason, unit=unit)

    for thread, time in result["ledger"]["time"].items():
        for state, spent in time["states"].items():
            expect("pronk_thread_state_seconds_total", spent, thread=thread, state=state)

    for policy, info in result["info"].get("learner", {}).items():
        for stat, value in info.get("learner_stats", {}).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                expect("pronk_learner", value, policy=policy, stat=stat)
    return expected


def check(text, result):
    """How many figures of `result` were found again, of how many samples."""
    samples = read_samples(text)
    expected = expected_samples(result)
    for key, value in expected.items():
        if key not in samples:
            raise Mismatch(f"{show(key)} is missing; the result has {value}")
        if not math.isclose(samples[key], value, rel_tol=1e-9, abs_tol=1e-12):
            raise Mismatch(f"{show(key)} is {samples[key]}, but the result has {value}")
    return len(expected), len(samples)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    served, results = arguments
    try:
        with open(served, encoding="utf-8", newline="") as file:
            text = file.read()
        with open(results, encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
        if not lines:
            raise Mismatch(f"{results} has no result")
        n_found, n_samples = check(text, json.loads(lines[-1]))
    except (Mismatch, OSError, ValueError) as error:
        print(f"{served}: {error}", file=sys.stderr)
        return 1
    print(f"{served}: {n_found} figures of the newest result found again among {n_samples} samples")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
