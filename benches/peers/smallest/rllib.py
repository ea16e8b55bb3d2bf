"""Trains CartPole-v1 to a mean return of 475 over 100 episodes with RLlib."""

from ray.rllib.algorithms.ppo import PPOConfig

config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    .training(lr=0.0005, train_batch_size_per_learner=512, minibatch_size=128, num_epochs=10, vf_clip_param=1e6)
)
algorithm = config.build_algo()
while algorithm.train()["env_runners"].get("episode_return_mean", 0) < 475:
    pass
algorithm.save()
