"""Stable-Baselines3's PPO on CartPole-v1 until the mean return of 100 episodes is 475: seconds and env-steps.

What you set up first, in a virtual environment:

    python3 -m venv target/sb3 && target/sb3/bin/pip install stable-baselines3==2.9.2
    target/sb3/bin/python benches/peers/sb3_cartpole.py --seeds 5

Compare with `pronk train configs/cartpole.toml --json`, right before or after, on a machine that does nothing else. The
settings are those that RL Baselines3 Zoo has tuned for this environment, whose schedules end at 100,000 env-steps;
`--budget` stretches them, and `--envs` and `--threads` vary what the speed depends on. A run that has used up its
budget ends without having reached the target. The seconds are those of training alone, without imports. The last line
is JSON.
"""

import argparse
import json
import statistics
import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv


class UntilReached(BaseCallback):
    """Ends a run once the newest 100 episodes have reached the target."""

    def _on_step(self):
        episodes = self.model.ep_info_buffer
        return len(episodes) < 100 or statistics.fmean(episode["r"] for episode in episodes) < 475


def run(seed, envs, budget):
    model = PPO(
        "MlpPolicy", make_vec_env("CartPole-v1", envs, seed=seed, vec_env_cls=DummyVecEnv), seed=seed, device="cpu",
        n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=20, ent_coef=0.0,
        learning_rate=lambda left: left * 0.001, clip_range=lambda left: left * 0.2,
    )  # fmt: skip
    began = time.perf_counter()
    model.learn(budget, callback=UntilReached())
    secs = time.perf_counter() - began
    reached = statistics.fmean(episode["r"] for episode in model.ep_info_buffer) >= 475
    return {"seed": seed, "reached": reached, "seconds": round(secs, 2), "env_steps": model.num_timesteps}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--budget", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    runs = []
    for seed in range(1, args.seeds + 1):
        runs.append(run(seed, args.envs, args.budget))
        print(runs[-1], flush=True)
    secs = statistics.median(run["seconds"] for run in runs)
    steps = statistics.median(run["env_steps"] for run in runs)
    rate = statistics.median(run["env_steps"] / run["seconds"] for run in runs)
    reached = sum(run["reached"] for run in runs)
    print(json.dumps({"peer": "stable-baselines3", "envs": args.envs, "threads": args.threads, "budget": args.budget,
                      "reached": reached, "runs": len(runs), "seconds": secs, "env_steps": steps,
                      "env_steps_per_s": round(rate)}))
