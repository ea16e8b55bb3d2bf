"""A game of tag for tests, with the interface of PettingZoo's parallel environments but without PettingZoo.

`runner` and `chaser` have different spaces. The runner is caught, that is terminated, after 4 steps; the chaser runs on
alone until it is truncated after 6. In step t the runner is paid t, the chaser -t/4. What they see begins with the
steps of the episode and the lowest digit of the seed, and ends with the first number of their last action.
"""

import numpy as np
from gymnasium import spaces
from pronk_test_envs import Fault


class Tag:
    metadata = {"name": "tag_v0"}
    possible_agents = ["runner", "chaser"]
    caught_after, cut_after = 4, 6

    def __init__(
        self, fault="none", at=3, file=None, mask=None, lasts=None,
        blind=False, absent=False, leaves=False, camera=False, unseen=False,
    ):
        """`mask`: `"observation"` or `"info"`, where action masks are to be found. Then both have three actions.

        `blind`: who is cut off sees nothing any more.

        `camera`: the runner sees images with their channels last.

        `lasts`: nobody is caught, nobody is cut off. A time limit has to be set from outside.

        `unseen`: who is caught sees None.

        `absent`: an agent `ghost` is possible and takes no part. `leaves`: who is cut off just leaves, without a flag.
        """
        self.blind, self.leaves, self.camera, self.unseen = blind, leaves, camera, unseen
        self.playing = list(Tag.possible_agents)
        self.possible_agents = ["ghost", *self.playing] if absent else self.playing
        self.fault, self.mask, self.lasts = Fault(fault, at, file), mask, bool(lasts)
        self.agents, self.episode = [], 0

    def observation_space(self, agent):
        if self.camera and agent == "runner":
            return spaces.Box(0, 255, (6, 5, 3), np.uint8)
        plain = spaces.Box(-np.inf, np.inf, (3,)) if agent != "chaser" else spaces.Box(0, 255, (2, 2), np.uint8)
        if self.mask != "observation":
            return plain
        n = self.action_space(agent).n
        return spaces.Dict({"observation": plain, "action_mask": spaces.Box(0, 1, (n,), np.int8)})

    def action_space(self, agent):
        if agent != "chaser" or self.mask:
            return spaces.Discrete(3)
        return spaces.Box(-1, 1, (2,), np.float64)

    def reset(self, seed=None, options=None):
        self.agents = list(self.playing)
        self.episode += 1
        self.steps, self.digit = 0, (seed or 0) % 10
        self.fault.in_reset(self.episode)
        return self.seen(dict.fromkeys(self.agents, 0)), self.infos()

    def step(self, actions):
        assert set(actions) == set(self.agents), f"{set(actions)} act, expected {set(self.agents)}"
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), f"{action!r} of {agent}"
        self.steps += 1
        is_nan = self.fault.in_step(self.steps)
        seen = self.seen({agent: np.ravel(action)[0] for agent, action in actions.items()})
        if is_nan:
            seen["runner"] = np.full(3, np.nan, np.float32)
        rewards = {agent: {"runner": 1.0, "chaser": -0.25}[agent] * self.steps for agent in self.agents}
        is_caught = self.steps == self.caught_after and not self.lasts
        is_cut_off = self.steps == self.cut_after and not self.lasts
        terminations = {agent: agent == "runner" and is_caught for agent in self.agents}
        truncations = {agent: agent == "chaser" and is_cut_off for agent in self.agents}
        if self.unseen:
            seen = {agent: None if terminations[agent] else part for agent, part in seen.items()}
        if self.blind or self.leaves:
            seen = {agent: part for agent, part in seen.items() if not truncations[agent]}
        infos = self.infos()
        self.agents = [agent for agent in self.agents if not (terminations[agent] or truncations[agent])]
        if self.leaves:
            truncations = dict.fromkeys(truncations, False)
        return seen, rewards, terminations, truncations, infos

    def close(self):
        print("the game of tag is over")

    def seen(self, actions):
        plain = {
            "runner": lambda action: np.array([self.steps, self.digit, action], np.float32),
            "camera": lambda action: np.arange(90, dtype=np.uint8).reshape(6, 5, 3) + np.uint8(self.steps),
            "chaser": lambda action: np.array([[self.steps, self.digit], [7, abs(int(action))]], np.uint8),
        }
        view = {"runner": "camera"} if self.camera else {}
        shown = {agent: plain[view.get(agent, agent)](action) for agent, action in actions.items()}
        if self.mask != "observation":
            return shown
        return {agent: {"observation": part, "action_mask": self.possible()} for agent, part in shown.items()}

    def infos(self):
        return {agent: {"action_mask": self.possible()} if self.mask == "info" else {} for agent in self.agents}

    def possible(self):
        """Everything but one action, which one changes with the steps."""
        return (np.arange(3) != self.steps % 3).astype(np.int8)


def parallel_env(**kwargs):
    return Tag(**kwargs)
