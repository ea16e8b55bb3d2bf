"""PPO of Stable-Baselines3, measured by `cargo xtask peers`.

What is not an option is as RL Baselines3 Zoo has tuned it: for CartPole-v1, with schedules that end with the budget,
and for Atari.
"""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from measured import Meter, make_game, options


class Measure(BaseCallback):
    def __init__(self, meter):
        super().__init__()
        self.meter, self.is_over = meter, False

    def _on_rollout_start(self):
        # Everything sampled so far has been trained on.
        if self.num_timesteps > 0:
            self.is_over = self.meter.updated(self.num_timesteps)

    def _on_step(self):
        for info in self.locals["infos"]:
            if "episode" in info:
                self.meter.episode(info["episode"]["r"])
        return not (self.is_over or self.meter.over(self.num_timesteps))


def main():
    args = options(__doc__, steps=32, epochs=20, lr=0.001).parse_args()
    torch.set_num_threads(args.threads)
    kind = {"sync": DummyVecEnv, "async": SubprocVecEnv}[args.vector]
    envs = kind([lambda: Monitor(make_game(args.game))] * args.envs)
    cartpole = {"gae_lambda": 0.8, "gamma": 0.98, "ent_coef": 0.0, "clip_range": lambda left: left * 0.2}
    pong = {"gae_lambda": 0.95, "gamma": 0.99, "ent_coef": 0.01, "clip_range": 0.1}
    model = PPO(
        "MlpPolicy" if args.game == "cartpole" else "CnnPolicy", envs, seed=args.seed, device="cpu",
        n_steps=args.steps, batch_size=args.minibatch, n_epochs=args.epochs,
        learning_rate=lambda left: left * args.lr, **(cartpole if args.game == "cartpole" else pong),
    )  # fmt: skip
    meter = Meter(args)
    model.learn(args.budget, callback=Measure(meter))
    meter.finish()
    envs.close()


if __name__ == "__main__":
    main()
