"""Trains CartPole-v1 to a mean return of 475 over 100 episodes with Sample Factory."""

import gymnasium
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner


class Stop(AlgoObserver):
    def on_training_step(self, runner, training_iteration_since_resume):
        returns = runner.policy_avg_stats.get("reward", [[]])[0]
        if len(returns) >= 100 and sum(returns) >= 475 * len(returns):
            runner.cfg.train_for_env_steps = 0


def make_env(name, *args, **kwargs):
    return gymnasium.make(name)


if __name__ == "__main__":
    register_env("CartPole-v1", make_env)
    words = """
        --env=CartPole-v1 --experiment=cartpole --device=cpu --serial_mode=True --async_rl=False --use_rnn=False
        --num_workers=1 --num_envs_per_worker=16 --worker_num_splits=1 --rollout=32 --batch_size=512 --num_epochs=4
        --learning_rate=0.001 --encoder_mlp_layers 64 64 --train_for_env_steps=1000000
    """.split()
    parser, _ = parse_sf_args(words)
    config, runner = make_runner(parse_full_cfg(parser, words))
    runner.init()
    runner.register_observer(Stop())
    runner.run()
