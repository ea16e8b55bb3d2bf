"""PyTorch on the shapes of `cargo bench --bench policy`: rows a second, acting and learning, on one thread.

`cargo xtask peers networks` runs both in turn. Alone, with the interpreter that it has set up:

    target/peers/torch-ppo/bin/python benches/peers/torch_nets.py            # all of it, about two minutes
    target/peers/torch-ppo/bin/python benches/peers/torch_nets.py mlp        # what has `mlp` in its name
    target/peers/torch-ppo/bin/python benches/peers/torch_nets.py --device cuda --rows 256,4096 cnn

Compare the ratio, on a machine that does nothing else. A learning step is forward, an actor-critic loss, backward and
Adam, as in the bench. Image networks run in `channels_last` too, the layout that oneDNN likes best, and `--compile`
has all networks pass through `torch.compile`; the best of these is the one to compare with. On a GPU, observations
are there already, and TF32 is off, as in candle; `--tf32` turns it on.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


class Mlp(nn.Module):
    def __init__(self, inputs, width, actions, activation):
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, width)
        self.policy, self.value = nn.Linear(width, actions), nn.Linear(width, 1)
        self.activation = activation

    def forward(self, x):
        x = self.activation(self.second(self.activation(self.first(x))))
        return self.policy(x), self.value(x)


class Nature(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)])
        self.dense, self.policy, self.value = nn.Linear(3136, 512), nn.Linear(512, 6), nn.Linear(512, 1)

    def forward(self, x):
        x = x.float() / 255.0
        for conv in self.convs:
            x = F.relu(conv(x))
        x = F.relu(self.dense(x.flatten(1)))
        return self.policy(x), self.value(x)


class Section(nn.Module):
    def __init__(self, inputs, channels):
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Conv2d(channels, channels, 3, padding=1) for _ in range(4)])

    def forward(self, x):
        x = F.max_pool2d(self.conv(x), 3, 2, 1)
        for first, second in (self.blocks[:2], self.blocks[2:]):
            x = x + second(F.relu(first(F.relu(x))))
        return x


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.sections = nn.Sequential(Section(4, 16), Section(16, 32), Section(32, 32))
        self.dense, self.policy, self.value = nn.Linear(32 * 11 * 11, 256), nn.Linear(256, 6), nn.Linear(256, 1)

    def forward(self, x):
        x = F.relu(self.sections(x.float() / 255.0))
        x = F.relu(self.dense(x.flatten(1)))
        return self.policy(x), self.value(x)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.core, self.policy, self.value = nn.LSTM(256, 256), nn.Linear(256, 6), nn.Linear(256, 1)

    def forward(self, x):
        x, _ = self.core(x)
        x = x.flatten(0, 1)
        return self.policy(x), self.value(x)


def seconds(call, wait):
    """The median time of a call: at least 2 ms a sample, at most 6 s in all. `wait` waits for the device."""
    call(), call(), call(), wait()
    samples, start = [], time.perf_counter()
    while len(samples) < 101 and (len(samples) < 3 or time.perf_counter() - start < 6.0):
        begin, calls = time.perf_counter(), 0
        while time.perf_counter() - begin < 0.002:
            call()
            calls += 1
        wait()
        samples.append((time.perf_counter() - begin) / calls)
    return sorted(samples)[len(samples) // 2]


def loss(logits, values, actions, advantages, targets):
    log_probs = F.log_softmax(logits, 1)
    chosen = log_probs.gather(1, actions[:, None])[:, 0]
    entropy = -(log_probs.exp() * log_probs).sum(1)
    return (-chosen * advantages - 0.01 * entropy + 0.25 * (values[:, 0] - targets) ** 2).mean()


def measure(name, net, obs, rows, learn, args):
    device = args.device
    net, obs = net.to(device), obs.to(device)
    if args.compile:
        name, net = f"{name} compiled", torch.compile(net)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    if not learn:
        with torch.inference_mode():
            took = seconds(lambda: net(obs), wait)
    else:
        actions = torch.arange(rows, device=device) % 2
        advantages, targets = torch.randn(rows, device=device), torch.randn(rows, device=device)
        optimizer = torch.optim.Adam(net.parameters(), 1e-6, fused=True)

        def step():
            optimizer.zero_grad()
            loss(*net(obs), actions, advantages, targets).backward()
            optimizer.step()

        took = seconds(step, wait)
    print(f"{name:<50} {rows:>6} {rows / took:>12.0f} rows/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Measures PyTorch on the shapes of `cargo bench --bench policy`.")
    parser.add_argument("wanted", nargs="*", help="parts of the names to measure [default: all]")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--rows", type=lambda text: [int(rows) for rows in text.split(",")], help="rows of batches")
    parser.add_argument("--compile", action="store_true", help="compile the networks")
    parser.add_argument("--tf32", action="store_true", help="let the GPU round to TF32")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    on_cpu = f"{torch.get_num_threads()} thread, {torch.backends.cpu.get_cpu_capability()}"
    place = torch.cuda.get_device_name(args.device) if args.device.type == "cuda" else on_cpu
    print(f"PyTorch {torch.__version__}, {place}, TF32 {'on' if args.tf32 else 'off'}")

    def run(name, net, obs, rows, learn):
        name = f"{name} {'learning' if learn else 'acting'}"
        if not args.wanted or any(part in name for part in args.wanted):
            measure(name, net, obs, rows, learn, args)

    small, large = ((1, 64, 256, 4096), (64, 512, 4096)), ((1, 16, 256), (64, 256, 2048))
    mlps = ((4, 64, 2, torch.tanh, small), (4, 64, 2, torch.relu, small), (17, 256, 6, torch.tanh, large))
    for inputs, width, actions, activation, (acting, learning) in mlps:
        name = f"mlp {inputs}-{width}-{width} {activation.__name__}"
        for learn, batches in ((False, acting), (True, learning)):
            for rows in args.rows or batches:
                run(name, Mlp(inputs, width, actions, activation), torch.randn(rows, inputs), rows, learn)
    for name, kind, batches in (("nature cnn", Nature, (32, 256)), ("residual cnn", Residual, (32,))):
        for channels_last in (False, True):
            layout = torch.channels_last if channels_last else torch.contiguous_format
            for learn in (False, True):
                for rows in args.rows or batches:
                    obs = torch.randint(0, 256, (rows, 4, 84, 84), dtype=torch.uint8).to(memory_format=layout)
                    net = kind().to(memory_format=layout)
                    run(f"{name}{' channels_last' if channels_last else ''}", net, obs, rows, learn)
    for learn in (False, True):
        for rows in args.rows or (640,):
            run("lstm 256, 20 steps", Lstm(), torch.randn(20, rows // 20, 256), rows, learn)


if __name__ == "__main__":
    main()
