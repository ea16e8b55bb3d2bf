"""PufferLib's trainer on Gymnasium's environments, measured by `cargo xtask peers`.

`--workers` processes step the environments, `--envs` each; with 0 the trainer steps `--envs` itself. What is not an
option is the default of PufferLib, with Adam.
"""

import functools

import pufferlib.emulation
import pufferlib.models
import pufferlib.vector
import torch
from pufferlib import pufferl

from measured import Meter, make_game, options

DEFAULTS = {
    "torch_deterministic": True, "cpu_offload": False, "device": "cpu", "optimizer": "adam", "anneal_lr": True,
    "precision": "float32", "gamma": 0.99, "gae_lambda": 0.95, "clip_coef": 0.2, "vf_coef": 0.5, "vf_clip_coef": 10.0,
    "max_grad_norm": 0.5, "ent_coef": 0.01, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-5,
    "checkpoint_interval": 10**9, "batch_size": "auto", "max_minibatch_size": 32768, "compile": False,
    "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.0, "prio_beta0": 1.0, "use_rnn": False,
    "data_dir": "puffer", "env": "measured",
}  # fmt: skip


class Trainer(pufferl.PuffeRL):
    def print_dashboard(self, *args, **kwargs):
        pass


def make_env(game, buf=None, seed=0):
    env = pufferlib.EpisodeStats(make_game(game))
    return pufferlib.emulation.GymnasiumPufferEnv(env=env, buf=buf)


def main():
    args = options(__doc__, steps=64).parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    vector = {"backend": pufferlib.vector.Serial, "num_envs": args.envs}
    if args.workers:
        vector = {"backend": pufferlib.vector.Multiprocessing, "num_envs": args.envs * args.workers}
        vector["num_workers"] = args.workers
    envs = pufferlib.vector.make(functools.partial(make_env, args.game), seed=args.seed, **vector)
    if args.game == "cartpole":
        policy = pufferlib.models.Default(envs.driver_env, hidden_size=128)
    else:
        policy = pufferlib.models.Convolutional(envs.driver_env, framestack=4, flat_size=64 * 7 * 7)
        policy.forward_eval = policy.forward
    config = DEFAULTS | {
        "seed": args.seed, "learning_rate": args.lr, "update_epochs": args.epochs, "bptt_horizon": args.steps,
        "minibatch_size": args.minibatch, "total_timesteps": args.budget,
    }  # fmt: skip
    trainer = Trainer(config, envs, policy)
    meter = Meter(args)
    is_over, known = False, 0
    while not is_over:
        trainer.evaluate()
        returns = trainer.stats.get("episode_return", [])
        for episode in returns[known:]:
            meter.episode(episode)
        known = len(returns)
        trainer.train()
        # The trainer begins new lists from time to time.
        known = min(known, len(trainer.stats.get("episode_return", [])))
        is_over = meter.updated(trainer.global_step)
    meter.finish()
    trainer.utilization.stop()
    envs.close()


if __name__ == "__main__":
    main()
