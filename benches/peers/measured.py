"""What the scripts of all peers share: their options, the games, and how a run is measured and ended."""

import argparse
import collections
import json
import statistics
import time


def options(about, **defaults):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--game", choices=["cartpole", "pong"], default="cartpole", help="what to train")
    parser.add_argument("--envs", type=int, default=8, help="environments, of each worker if there are workers")
    parser.add_argument("--workers", type=int, default=0, help="processes that sample, if the peer has them")
    parser.add_argument("--vector", default="sync", help="how environments are stepped, if the peer has a choice")
    parser.add_argument("--steps", type=int, default=128, help="steps of each environment between updates")
    parser.add_argument("--minibatch", type=int, default=256, help="env-steps of a minibatch")
    parser.add_argument("--epochs", type=int, default=4, help="passes over each sample")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    parser.add_argument("--lr", type=float, default=0.00025, help="learning rate, which falls to 0 at the budget")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until", type=float, help="mean return of 100 episodes to stop at")
    parser.add_argument("--budget", type=int, default=10**9, help="env-steps after which to stop")
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds before the measurement")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of the measurement, without --until")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds after which to stop")
    parser.add_argument("--updates", type=int, help="stop after so many updates")
    parser.set_defaults(**defaults)
    return parser


class Meter:
    """Counts the env-steps of a run that were trained on, and knows when it is over."""

    def __init__(self, args):
        self.args = args
        self.episodes = collections.deque(maxlen=100)
        self.began = time.perf_counter()
        self.updates = 0
        self.measured_from = self.measured_to = None
        self.env_steps = 0

    def episode(self, episode_return):
        self.episodes.append(float(episode_return))

    def reached(self):
        if self.args.until is None or len(self.episodes) < 100:
            return False
        return statistics.fmean(self.episodes) >= self.args.until

    def over(self, env_steps):
        """Whether the return is reached, or the budget or the time spent; may be asked at any step."""
        self.env_steps = env_steps
        late = time.perf_counter() - self.began > self.args.limit
        return late or env_steps >= self.args.budget or self.reached()

    def updated(self, env_steps):
        """To be called after each update; whether the run is over."""
        now = time.perf_counter()
        if self.updates == 0:
            print(json.dumps({"first_update_s": now - self.began}), flush=True)
        self.updates += 1
        if self.over(env_steps) or self.updates == self.args.updates:
            return True
        if self.args.until is not None or now - self.began < self.args.warm_up:
            return False
        if self.measured_from is None:
            self.measured_from = now, env_steps
        self.measured_to = now, env_steps
        return now - self.measured_from[0] >= self.args.seconds

    def finish(self):
        """Prints the result as the last line."""
        seconds = time.perf_counter() - self.began
        result = {"seconds": seconds, "env_steps": self.env_steps, "updates": self.updates}
        if self.args.until is not None:
            result["reached"] = self.reached()
        if self.measured_to and self.measured_to > self.measured_from:
            (since, before), (until, after) = self.measured_from, self.measured_to
            result["env_steps_trained_per_s"] = (after - before) / (until - since)
        if self.episodes:
            result["episode_return_mean"] = statistics.fmean(self.episodes)
        print(json.dumps(result), flush=True)


def make_game(game):
    """The game of Gymnasium; Pong with the preprocessing of Mnih et al. (2015), so that an env-step is four frames."""
    import gymnasium

    if game == "cartpole":
        return gymnasium.make("CartPole-v1", disable_env_checker=True)
    import ale_py
    import cv2

    # A thread for each core in each process would be unfair to the peer.
    cv2.setNumThreads(0)
    if hasattr(gymnasium, "register_envs"):
        gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0, disable_env_checker=True)
    wrappers = gymnasium.wrappers
    env = wrappers.TransformReward(wrappers.AtariPreprocessing(env), sign)
    if hasattr(wrappers, "FrameStackObservation"):
        return wrappers.FrameStackObservation(env, 4)
    return wrappers.FrameStack(env, 4)


def sign(reward):
    return float((reward > 0) - (reward < 0))
