"""Gymnasium's vector environments and ale-py's, for `benches/processes.rs`, which starts this and takes turns with it.

Arguments: `sync`, `async` or `ale`, then an id (or a game) and how many environments, then whether Atari is
preprocessed. For every line on standard input that holds a number of seconds it steps for so long and prints
environment steps per second.
"""

import sys
import time

import gymnasium
import numpy as np


def make(name, preprocessed):
    kwargs = {}
    if name.startswith("ALE/"):
        import ale_py

        gymnasium.register_envs(ale_py)
        kwargs = {"frameskip": 1, "repeat_action_probability": 0.0}
    env = gymnasium.make(name, disable_env_checker=True, **kwargs)
    if preprocessed:
        import cv2

        env = gymnasium.wrappers.AtariPreprocessing(env)
        env = gymnasium.wrappers.FrameStackObservation(env, 4)
        # A thread for each core in each process would be unfair to the peer.
        cv2.setNumThreads(0)
    return env


def vector(kind, name, n, preprocessed):
    if kind == "ale":
        from ale_py.vector_env import AtariVectorEnv

        return AtariVectorEnv(name, n, num_threads=2, reward_clipping=False)
    makers = [lambda: make(name, preprocessed)] * n
    return gymnasium.vector.SyncVectorEnv(makers) if kind == "sync" else gymnasium.vector.AsyncVectorEnv(makers)


def main():
    kind, name, n, preprocessed = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "preprocessed"
    envs = vector(kind, name, n, preprocessed)
    envs.reset(seed=0)
    generator = np.random.default_rng(0)
    actions = generator.integers(envs.single_action_space.n, size=(64, n))
    for line in sys.stdin:
        seconds, began, rounds = float(line), time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            envs.step(actions[rounds % 64])
            rounds += 1
        print(rounds * n / (time.perf_counter() - began), flush=True)
    envs.close()


if __name__ == "__main__":
    main()
