"""APPO of Sample Factory, measured by `cargo xtask peers`: processes sample while the learner learns.

`--workers 0` samples and learns in one process. With `--split 2` a worker steps one half of its environments while the
policy infers for the other. `--batches` is how many minibatches the learner takes at a time.
"""

import pathlib
import tempfile

import numpy as np
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

from measured import Meter, make_game, options

CARTPOLE = {"encoder_mlp_layers": [64, 64], "nonlinearity": "tanh", "normalize_input": False, "gae_lambda": 0.95}
ATARI = {
    "encoder_conv_architecture": "convnet_atari", "obs_scale": 255.0, "nonlinearity": "relu", "normalize_input": False,
    "encoder_conv_mlp_layers": [512], "exploration_loss_coeff": 0.01, "ppo_clip_ratio": 0.1, "max_grad_norm": 0.5,
}  # fmt: skip


class Measure(AlgoObserver):
    def __init__(self, meter):
        self.meter, self.is_over = meter, False

    def on_training_step(self, runner, training_iteration_since_resume):
        if self.is_over:
            return
        self.meter.episodes = runner.policy_avg_stats.get("reward", [[]])[0]
        if self.meter.updated(sum(runner.env_steps.values())):
            self.is_over = True
            self.meter.finish()
            runner.cfg.train_for_env_steps = -1


def make_env(name, config, env_config, render_mode=None):
    import gymnasium

    env = make_game(name)
    # Frames that share memory would be pickled as such.
    return env if name == "cartpole" else gymnasium.wrappers.TransformObservation(env, np.asarray)


def main():
    parser = options(__doc__)
    parser.add_argument("--split", type=int, default=1)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], help="settings of Sample Factory, such as with_vtrace=True")
    args = parser.parse_args()
    register_env(args.game, make_env)
    folder = pathlib.Path(tempfile.mkdtemp())
    settings = {
        "env": args.game, "train_dir": folder, "experiment": "measured", "device": "cpu", "seed": args.seed,
        "serial_mode": args.workers == 0, "async_rl": args.workers > 0, "num_workers": max(args.workers, 1),
        "num_envs_per_worker": args.envs, "worker_num_splits": args.split, "rollout": args.steps,
        "batch_size": args.minibatch, "num_batches_per_epoch": args.batches, "num_epochs": args.epochs,
        "use_rnn": False, "learning_rate": args.lr, "env_frameskip": 1, "decorrelate_experience_max_seconds": 0,
        "save_every_sec": 10**6, "stats_avg": 100, "train_for_env_steps": args.budget, "train_for_seconds": 10**6,
    } | (CARTPOLE if args.game == "cartpole" else ATARI) | dict(setting.split("=") for setting in args.set)  # fmt: skip
    words = []
    for name, value in settings.items():
        words += [f"--{name}", *map(str, value)] if isinstance(value, list) else [f"--{name}={value}"]
    parser, _ = parse_sf_args(words)
    config, runner = make_runner(parse_full_cfg(parser, words))
    runner.init()
    runner.register_observer(Measure(Meter(args)))
    runner.run()


if __name__ == "__main__":
    main()
