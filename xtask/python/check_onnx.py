r"""Runs exported policies with ONNX Runtime and compares what comes out with what pronk made of the same observations.

    python -m venv .venv && .venv/bin/pip install onnx onnxruntime safetensors
    .venv/bin/python xtask/python/check_onnx.py target/tmp/exports

Each folder below the given one has a model, `policy.onnx`, and `cases.safetensors`: observations `[steps * rows, …]`
and pronk's outputs. A recurrent policy starts from a state of zeros, and each step continues from the state after the
one before. Prints the largest error of each output, relative to max(1, |x|), and exits with 1 and a list of what
differs.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors import safe_open

TOLERANCE = 1e-5


def load(path):
    """The tensors of a file by name, the steps they are of, and the sizes of the action's choices."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return tensors, int(file.metadata()["steps"]), json.loads(file.metadata()["choices"])


def run(session, obs, steps):
    """The outputs for all steps, one after the other; the state after the last."""
    rows = len(obs) // steps
    inputs = {value.name: value for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    state = np.zeros((rows, inputs["state_in"].shape[1]), np.float32) if "state_in" in inputs else None
    outputs = {name: [] for name in names}
    for step in range(steps):
        feed = {"obs": obs[step * rows : (step + 1) * rows]}
        if state is not None:
            feed["state_in"] = state
        for name, value in zip(names, session.run(names, feed)):
            outputs[name].append(value)
        if state is not None:
            state = outputs["state_out"][-1]
            outputs["state_out"] = [state]
    return {name: np.concatenate(values) for name, values in outputs.items()}


def error(got, expected):
    """The largest error, relative to max(1, |x|). NaN counts as infinite."""
    difference = np.abs(got.astype(np.float64) - expected) / np.maximum(1, np.abs(expected))
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0))


def wrong_choices(logits, actions, choices):
    """The number of actions whose logit is not the highest of its choice. Of two logits within the tolerance of each
    other either may be."""
    actions = actions.reshape(len(logits), -1)
    wrong, first = 0, 0
    for i, n in enumerate(choices):
        of_choice = logits[:, first : first + n]
        taken = np.take_along_axis(of_choice, actions[:, i : i + 1], axis=1)[:, 0]
        highest = of_choice.max(axis=1)
        wrong += int((highest - taken > 2 * TOLERANCE * np.maximum(1, np.abs(highest))).sum())
        first += n
    return wrong


def check(folder):
    """What is wrong with the model in `folder`, one line each."""
    model = onnx.load(folder / "policy.onnx")
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "policy.onnx", options, providers=["CPUExecutionProvider"])
    cases, steps, choices = load(folder / "cases.safetensors")
    outputs = run(session, cases.pop("obs"), steps)
    if outputs.keys() != cases.keys():
        yield f"its outputs are {sorted(outputs)} and should be {sorted(cases)}"
        return
    errors = []
    for name, expected in sorted(cases.items()):
        got = outputs[name]
        if got.shape != expected.shape or got.dtype != expected.dtype:
            yield f"`{name}` is {got.dtype} {got.shape} and should be {expected.dtype} {expected.shape}"
        elif expected.dtype == np.int64:
            errors.append(f"{name} {int((got != expected).sum())} of {got.size} others")
            wrong = wrong_choices(cases["logits"], got, choices)
            if wrong:
                yield f"`{name}`: {wrong} of {got.size} have not the highest logit"
        else:
            worst = error(got, expected)
            errors.append(f"{name} {worst:.1e}")
            if not worst <= TOLERANCE:
                yield f"`{name}` is off by {worst:.3g} of max(1, |x|)"
    print(f"{folder.name}: {len(cases['values'])} observations, {', '.join(errors)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exports", type=pathlib.Path, metavar="FOLDER", help="what the test `exports` wrote")
    args = parser.parse_args()
    folders = sorted(path.parent for path in args.exports.glob("*/policy.onnx"))
    wrong = [f"{folder.name}: {line}" for folder in folders for line in check(folder)]
    if not folders:
        wrong = [f"there is no model in {args.exports}"]
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
