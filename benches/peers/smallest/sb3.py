"""Trains CartPole-v1 to a mean return of 475 over 100 episodes with Stable-Baselines3."""

from statistics import fmean

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env


def stop(local_variables, _):
    episodes = local_variables["self"].ep_info_buffer
    return len(episodes) < 100 or fmean(episode["r"] for episode in episodes) < 475


model = PPO(
    "MlpPolicy", make_vec_env("CartPole-v1", 8), device="cpu", n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98,
    n_epochs=20, learning_rate=lambda left: left * 0.001, clip_range=lambda left: left * 0.2,
)
model.learn(100_000, callback=stop)
model.save("cartpole")
