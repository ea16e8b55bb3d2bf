"""Trains CartPole-v1 to a mean return of 475 over 100 episodes with PufferLib."""

from collections import deque

import gymnasium
import pufferlib.emulation
import pufferlib.models
import pufferlib.vector
from pufferlib import pufferl


def make_env(buf=None, seed=0):
    return pufferlib.emulation.GymnasiumPufferEnv(env=pufferlib.EpisodeStats(gymnasium.make("CartPole-v1")), buf=buf)


envs = pufferlib.vector.make(make_env, backend=pufferlib.vector.Serial, num_envs=16)
policy = pufferlib.models.Default(envs.driver_env, hidden_size=128)
config = pufferl.load_config("default")["train"] | {
    "device": "cpu", "optimizer": "adam", "env": "cartpole", "batch_size": "auto", "bptt_horizon": 32,
    "minibatch_size": 512, "update_epochs": 10, "learning_rate": 0.001, "total_timesteps": 1_000_000,
    "prio_alpha": 0.0, "use_rnn": False, "compile": False,
}  # fmt: skip
trainer = pufferl.PuffeRL(config, envs, policy)
returns = deque(maxlen=100)
while len(returns) < 100 or sum(returns) < 475 * 100:
    returns.extend(trainer.evaluate().get("episode_return", []))
    trainer.stats.clear()
    trainer.train()
trainer.close()
