r"""Loads weights of pronk into PyTorch modules and compares what comes out with pronk's outputs.

    python -m venv .venv && .venv/bin/pip install safetensors torch
    .venv/bin/python xtask/python/check_torch.py target/tmp/exports

A policy's weights are a safetensors file: `policy-….safetensors` in the folder of a checkpoint, whose manifest also
has the network, or what `Params::to_safetensors` writes. `policy/README.md` lists the tensors. The modules here are for
policies with one torso; copy what you need. They take observations that are normalised already, where a run normalises
them: by `obs.mean` and others, which `pronk export --format safetensors` adds.
"""

import argparse
import json
import pathlib
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

TOLERANCE = 1e-5


def linear(weights, name):
    """A dense layer. pronk's weights are `[inputs, outputs]`, those of PyTorch the transpose."""
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.Linear(*weight.shape)
    layer.load_state_dict({"weight": weight.T, "bias": bias})
    return layer


def conv(weights, name, stride):
    """A convolution. pronk's kernels are `[ky, kx, inputs, outputs]`, those of PyTorch `[outputs, inputs, ky, kx]`."""
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    height, width, inputs, outputs = weight.shape
    layer = nn.Conv2d(inputs, outputs, (height, width), stride)
    layer.load_state_dict({"weight": weight.permute(3, 2, 0, 1), "bias": bias})
    return layer


def lstm_cell(weights, name):
    """An LSTM of one step. The gates have the order of PyTorch, which has two biases where pronk has their sum."""
    of_input, of_hidden, bias = (weights[f"{name}.{part}"] for part in ["input.weight", "hidden.weight", "bias"])
    cell = nn.LSTMCell(of_input.shape[0], of_hidden.shape[0])
    cell.load_state_dict(
        {"weight_ih": of_input.T, "weight_hh": of_hidden.T, "bias_ih": bias, "bias_hh": torch.zeros_like(bias)}
    )
    return cell


def mlp(weights, encoder):
    """Dense layers `torso.0`, `torso.1` and so on, each with the activation."""
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[encoder["activation"]]
    layers = [nn.Flatten()]
    for i in range(len(encoder["hidden"])):
        layers += [linear(weights, f"torso.{i}"), activation()]
    return nn.Sequential(*layers)


class ChannelsLast(nn.Module):
    """Images with channels last: pronk flattens them in the order y, x, channel."""

    def forward(self, images):
        return images.permute(0, 2, 3, 1)


def nature_cnn(weights, _encoder):
    """Three convolutions and a dense layer, each with ReLU."""
    layers = []
    for i, stride in enumerate([4, 2, 1]):
        layers += [conv(weights, f"torso.{i}", stride), nn.ReLU()]
    return nn.Sequential(*layers, ChannelsLast(), nn.Flatten(), linear(weights, "torso.3"), nn.ReLU())


class Policy(nn.Module):
    """A policy of pronk with one torso."""

    def __init__(self, network, weights):
        super().__init__()
        [(encoder, settings)] = network["encoder"].items()
        self.encoder = {"mlp": mlp, "nature_cnn": nature_cnn}[encoder](weights, settings)
        self.lstm = lstm_cell(weights, "torso.lstm") if network["lstm"] else None
        self.policy = linear(weights, "policy")
        self.value = linear(weights, "value")

    def forward(self, obs, state=None):
        """Logits, values, and the state after the step: the hidden state beside the cell. `None` is zeros."""
        features = self.encoder(obs / 255 if obs.dtype == torch.uint8 else obs)
        if self.lstm:
            hidden, cell = self.lstm(features, state.chunk(2, dim=1) if state is not None else None)
            features, state = hidden, torch.cat([hidden, cell], dim=1)
        return self.policy(features), self.value(features).squeeze(1), state


def check(folder):
    """What is wrong with the policy in `folder`, one line each."""
    network = json.loads((folder / "network.json").read_text(encoding="utf-8"))
    policy = Policy(network, load_file(folder / "weights.safetensors"))
    cases = load_file(folder / "cases.safetensors")
    with safe_open(folder / "cases.safetensors", framework="pt") as file:
        steps = int(file.metadata()["steps"])
    state, logits, values = None, [], []
    with torch.no_grad():
        for obs in cases["obs"].chunk(steps):
            logits_of_step, values_of_step, state = policy(obs, state)
            logits.append(logits_of_step)
            values.append(values_of_step)
    outputs = {"logits": torch.cat(logits), "values": torch.cat(values)}
    if state is not None:
        outputs["state_out"] = state
    errors = []
    for name, got in outputs.items():
        expected = cases[name]
        # NaN is no agreement: it is not at most the tolerance.
        worst = ((got - expected).abs() / expected.abs().clamp(min=1)).max().item()
        errors.append(f"{name} {worst:.1e}")
        if not worst <= TOLERANCE:
            yield f"`{name}` is off by {worst:.3g} of max(1, |x|)"
    print(f"{folder.name}: {len(cases['obs'])} observations, {', '.join(errors)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exports", type=pathlib.Path, metavar="FOLDER", help="what the test `exports` wrote")
    args = parser.parse_args()
    print(f"PyTorch {torch.__version__}")
    kinds = ["mlp", "mlp_of_bytes", "nature_cnn", "lstm", "nature_lstm"]
    wrong = [f"{kind}: {line}" for kind in kinds for line in check(args.exports / kind)]
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
