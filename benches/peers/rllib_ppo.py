"""RLlib's PPO, APPO or IMPALA, measured by `cargo xtask peers`.

`--workers` is the number of env runners; with 0, PPO samples in the process that learns.
"""

import numpy as np
import ray
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from measured import Meter, make_game, options

CONFIGS = {"ppo": PPOConfig, "appo": APPOConfig, "impala": IMPALAConfig}


def make_env(config):
    import gymnasium

    game = make_game(config["game"])
    if config["game"] == "cartpole":
        return game
    # RLlib's convolutions want the channels last, and scaled.
    space = gymnasium.spaces.Box(0, 1, (84, 84, 4), np.float32)
    scaled = lambda frames: np.moveaxis(np.asarray(frames), 0, -1).astype(np.float32) / 255
    return gymnasium.wrappers.TransformObservation(game, scaled, space)


def configured(args):
    register_env("measured", make_env)
    model = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh")
    if args.game == "pong":
        filters = [[32, 8, 4], [64, 4, 2], [64, 3, 1]]
        model = DefaultModelConfig(conv_filters=filters, head_fcnet_hiddens=[512], vf_share_layers=True)
    batch = args.envs * max(args.workers, 1) * args.steps
    algorithm = {"lr": args.lr, "train_batch_size_per_learner": batch, "num_epochs": args.epochs}
    algorithm |= {"minibatch_size": min(args.minibatch, batch), "entropy_coeff": 0.01, "grad_clip": 0.5}
    if args.algorithm == "ppo":
        algorithm |= {"lambda_": 0.95, "clip_param": 0.2, "vf_loss_coeff": 0.5, "use_kl_loss": False}
        algorithm |= {"vf_clip_param": 1e6}
    else:
        algorithm |= {"train_batch_size_per_learner": args.batch or batch}
    config = CONFIGS[args.algorithm]().environment("measured", env_config={"game": args.game})
    config = config.env_runners(
        num_env_runners=args.workers, num_envs_per_env_runner=args.envs, rollout_fragment_length=args.steps,
        gym_env_vectorize_mode=args.vector,
    )  # fmt: skip
    config = config.learners(num_learners=0).training(**algorithm).rl_module(model_config=model)
    config = config.reporting(metrics_num_episodes_for_smoothing=100, min_time_s_per_iteration=0)
    return config.debugging(seed=args.seed, log_level="ERROR")


def main():
    parser = options(__doc__)
    parser.add_argument("--algorithm", choices=list(CONFIGS), default="ppo")
    parser.add_argument("--batch", type=int, help="env-steps of a train batch, of APPO and IMPALA")
    args = parser.parse_args()
    ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    algorithm = configured(args).build_algo()
    meter = Meter(args)
    env_steps, is_over = 0, False
    while not is_over:
        result = algorithm.train()
        learned = result.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained_lifetime")
        sampled = result.get("num_env_steps_sampled_lifetime", 0)
        # Minibatches count their env-steps once in each pass; PPO trains on all that it samples.
        env_steps = sampled if args.algorithm == "ppo" else (learned or 0)
        runners = result.get("env_runners", {})
        mean = runners.get("episode_return_mean")
        if mean is not None and runners.get("num_episodes_lifetime", 0) >= 100:
            meter.episodes.extend([mean] * 100)
        if env_steps:
            is_over = meter.updated(env_steps)
    meter.finish()


if __name__ == "__main__":
    main()
