"""PPO on Atari in PyTorch, written as single-file implementations are: what a CPU makes of it in frames a second.

What you set up first, in a virtual environment:

    python3 -m venv target/torch && target/torch/bin/pip install torch numpy gymnasium ale-py opencv-python-headless
    target/torch/bin/python benches/peers/torch_ppo_atari.py --seconds 120

Compare with `cargo run --release --features env-process --example atari -- --minutes 2`, right before or after, on a
machine that does nothing else. Network, preprocessing, environments, minibatches and passes are the same; here they
take turns, as it is usual: first everybody steps, then everybody learns. The last line says how many frames a second,
four to an env-step.
"""

import argparse
import time

import ale_py
import gymnasium
import numpy as np
import torch
from torch import nn

gymnasium.register_envs(ale_py)


def make(game):
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0, disable_env_checker=True)
    wrappers = gymnasium.wrappers
    stack = getattr(wrappers, "FrameStackObservation", None) or wrappers.FrameStack
    return stack(wrappers.AtariPreprocessing(env), 4)


class Agent(nn.Module):
    def __init__(self, n_actions):
        super().__init__()
        self.torso = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
        )  # fmt: skip
        self.policy, self.value = nn.Linear(512, n_actions), nn.Linear(512, 1)

    def forward(self, observations):
        hidden = self.torso(observations.float() / 255)
        return torch.distributions.Categorical(logits=self.policy(hidden)), self.value(hidden)[:, 0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--envs", type=int, default=32)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--minibatch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=120)
    args = parser.parse_args()
    envs = gymnasium.vector.AsyncVectorEnv([lambda: make(args.game)] * args.envs)
    agent = Agent(envs.single_action_space.n)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    observation, _ = envs.reset(seed=0)
    ended = np.zeros(args.envs, bool)
    began, frames, acting, finished, returns = time.time(), 0, 0.0, [], np.zeros(args.envs)
    while time.time() - began < args.seconds:
        rollout, turn = [], time.time()
        for _ in range(args.steps):
            with torch.no_grad():
                distribution, value = agent(torch.as_tensor(np.asarray(observation)))
                action = distribution.sample()
            following, reward, terminated, truncated, _ = envs.step(action.numpy())
            logp = distribution.log_prob(action)
            rollout.append((torch.as_tensor(np.array(observation)), action, logp, value, reward, ended))
            observation, ended = following, terminated | truncated
            returns += reward
            finished += list(returns[ended])
            returns[ended] = 0
            frames += 4 * args.envs
        acting += time.time() - turn
        learn(agent, optimizer, rollout, observation, ended, args)
        elapsed = time.time() - began
        mean = np.mean(finished[-100:]) if finished else float("nan")
        print(f"{frames / elapsed:8.0f} frames/s, acting {acting / elapsed:.0%}, return {mean:.1f}", flush=True)
    envs.close()


def learn(agent, optimizer, rollout, observation, ended, args):
    observations, actions, logps, values, rewards, starts = zip(*rollout)
    with torch.no_grad():
        value = agent(torch.as_tensor(np.asarray(observation)))[1]
    advantages, advantage = [], torch.zeros(args.envs)
    ends = [*starts[1:], ended]
    for t in reversed(range(args.steps)):
        goes_on = torch.as_tensor(1.0 - ends[t])
        delta = torch.as_tensor(np.sign(rewards[t])) + 0.99 * goes_on * value - values[t]
        advantage = (delta + 0.99 * 0.95 * goes_on * advantage).float()
        value = values[t]
        advantages.insert(0, advantage)
    flat = [torch.cat(column) for column in (observations, actions, logps, values, advantages)]
    rows = len(flat[0])
    for _ in range(args.epochs):
        for some in torch.randperm(rows).split(args.minibatch):
            seen, done, logp, value, advantage = (column[some] for column in flat)
            distribution, estimate = agent(seen)
            ratio = (distribution.log_prob(done) - logp).exp()
            target = advantage + value
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            surrogate = torch.min(ratio * advantage, ratio.clamp(0.9, 1.1) * advantage).mean()
            loss = -surrogate + 0.5 * ((estimate - target) ** 2).mean() / 2 - 0.01 * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    main()
