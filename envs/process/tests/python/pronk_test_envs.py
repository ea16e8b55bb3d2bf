"""Environments for tests: `pronk_test_envs:Faulty-v0`, which breaks on demand, `pronk_test_envs:SlowToClose-v0`,
`pronk_test_envs:Drawn-v0`, which draws itself, `pronk_test_envs:Habits-v0`, which does as older environments do,
`pronk_test_envs:Spaces-v0`, which has the spaces that it is told to have, and `pronk_test_envs:Told-v0`, which says
what it is told. Importing this module registers them; it needs Gymnasium and numpy only.
"""

import ctypes
import os
import random
import signal
import stat
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Fault:
    """Something that goes wrong at one moment, or over and over again.

    - `step`, `reset`: raises `ValueError("the gripper is stuck")`
    - `kill`, `segfault`, `exit`: SIGKILL, a read of address 0, `os._exit(3)`
    - `hang`, `hang_in_c`: never comes back, from Python or from C with the interpreter's lock held
    - `print`: prints a line in every step
    - `nan`: the observation is NaN
    - `garbage`: writes `garbage` into every pipe above descriptor 2 that can be written to, and waits

    With a `file` it happens only if there is no such file yet, and the file is made just before. So it happens once,
    however often the environment is made anew. `print` goes on and on and looks at neither.
    """

    def __init__(self, fault="none", at=3, file=None):
        kinds = ("none", "step", "reset", "kill", "segfault", "hang", "hang_in_c", "print", "exit", "nan", "garbage")
        if fault not in kinds:
            raise ValueError(f"fault is {fault!r}, expected one of {', '.join(kinds)}")
        self.fault, self.at, self.file = fault, at, file

    def strikes(self, now):
        """Whether it happens at this step, or at this episode; both count from 1."""
        if now != self.at or self.file is not None and os.path.exists(self.file):
            return False
        if self.file is not None:
            open(self.file, "w").close()
        return True

    def in_reset(self, episode):
        if self.fault == "reset" and self.strikes(episode):
            raise ValueError("the gripper is stuck")

    def in_step(self, step):
        """Whether the observation is to be NaN."""
        if self.fault == "print":
            print(f"step {step}")
        if self.fault in ("none", "reset", "print") or not self.strikes(step):
            return False
        if self.fault == "step":
            raise ValueError("the gripper is stuck")
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "segfault":
            ctypes.string_at(0)
        if self.fault == "exit":
            os._exit(3)
        while self.fault == "hang":
            pass
        while self.fault == "hang_in_c":
            # Functions of a `PyDLL` keep the interpreter's lock.
            ctypes.PyDLL(None).pause()
        if self.fault == "garbage":
            write_into_pipes(b"garbage")
            signal.pause()
        return self.fault == "nan"


def write_into_pipes(text):
    for descriptor in range(3, 61):
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.write(descriptor, text)
        except OSError:
            pass  # not open, or only to be read


class Faulty(gymnasium.Env):
    """Episodes of 10 steps with a reward of 1 each. The observation is the step of the episode, the episode of this
    environment, the last action, and the lowest digit of the seed.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, fault="none", at=3, file=None):
        self.fault = Fault(fault, at, file)
        self.episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.steps, self.digit = 0, (seed or 0) % 10
        self.fault.in_reset(self.episode)
        return self.seen(0), {}

    def step(self, action):
        assert action in self.action_space, action
        self.steps += 1
        is_nan = self.fault.in_step(self.steps)
        seen = np.full(4, np.nan, np.float32) if is_nan else self.seen(action)
        return seen, 1.0, self.steps == 10, False, {}

    def seen(self, action):
        return np.array([self.steps, self.episode, action, self.digit], np.float32)


class SlowToClose(gymnasium.Env):
    """Its `close` takes `secs`, adds a line to `file` when it is done, and raises if it should."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, secs, file, raises=False):
        self.secs, self.file, self.raises = secs, file, raises

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}

    def close(self):
        time.sleep(self.secs)
        with open(self.file, "a") as file:
            file.write("closed\n")
        if self.raises:
            raise RuntimeError("the lid is stuck")


class Drawn(gymnasium.Env):
    """Episodes of 3 steps. A frame has two pixels: the lowest digit of the seed and the step in red, then white.

    `how` spoils it: `floats` have another type, `grey` has another shape, `huge` is too large, `raises` raises, and
    `nothing` is None.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 12.3}
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, how="well", render_mode=None):
        self.how, self.render_mode = how, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.digit = 0, (seed or 0) % 10
        return np.float32([0]), {}

    def step(self, action):
        self.steps += 1
        return np.float32([self.steps]), 1.0, self.steps == 3, False, {}

    def render(self):
        assert self.render_mode == "rgb_array", "nobody asked for frames"
        frame = np.array([[[self.digit, self.steps, 0], [255, 255, 255]]], np.uint8)
        if self.how == "raises":
            raise ValueError("the brush is stuck")
        spoilt = {"floats": frame / 255, "grey": frame[..., 0], "huge": np.zeros((4000, 4000, 3), np.uint8)}
        return None if self.how == "nothing" else spoilt.get(self.how, frame)


class Habits(gymnasium.Env):
    """Episodes of 3 steps with a reward of 1 each, in the manner of older interfaces or of other habits.

    - `four`: `step` gives four values; `alone`: `reset` gives the observation without info
    - `array`: the reward has the shape (1,); `text`: it is one
    - `dones`: `truncated` is a dict
    - `unseen`: what is seen at the end, a terminal state, is None; `cut_unseen`: the same where it is cut off
    - `joint`: the first reset of all raises
    - `bits`: a seed must have 31
    - `global`: what is seen comes from the generators that all share: at the construction, in the reset, in the step
    - `fps`: the frames a second are a text
    - `forks`: what a forked process opens has to be open in what that one forks
    """

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, habit=None, render_mode=None):
        self.habit, self.render_mode = habit, render_mode
        self.drawn, self.resets = random.random() + np.random.random(), 0
        fps = "30" if habit == "fps" else 30
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": fps}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.resets = 0, self.resets + 1
        if self.habit == "joint" and self.resets == 1:
            raise ValueError("the joint is stuck")
        if self.habit == "forks":
            assert forked(opens_and_forks) == 0, "a descriptor was closed"
        if self.habit == "bits":
            assert seed < 1 << 31, f"{seed} is too large"
        seen = self.seen()
        if self.habit == "list":
            return [seen, None]
        return seen if self.habit == "alone" else (seen, {})

    def step(self, action):
        self.steps += 1
        over, seen, reward = self.steps == 3, self.seen(), 1.0
        if over and self.habit in ("unseen", "cut_unseen"):
            seen = None
        if self.habit in ("array", "text"):
            reward = np.ones(1) if self.habit == "array" else "much"
        if self.habit == "four":
            return seen, reward, over, {}
        if self.habit == "dones":
            return seen, reward, False, {"__all__": over}, {}
        return (seen, reward, False, over, {}) if self.habit == "cut_unseen" else (seen, reward, over, False, {})

    def seen(self):
        numbers = (self.drawn, random.random(), np.random.random()) if self.habit == "global" else (self.steps, 0, 0)
        return np.float32(numbers)

    def render(self):
        return np.zeros((2, 2, 3), np.uint8)


def forked(work):
    """The exit status of `work` in a forked process."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def opens_and_forks():
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
    return forked(lambda: max(0 * os.fstat(descriptor).st_size for descriptor in opened))


class Seedless(Habits):
    """Its `reset` takes no seed."""

    def reset(self):
        return super().reset()


SPACES = {
    "discrete": spaces.Discrete(4, start=5),
    "multi_discrete": spaces.MultiDiscrete([3, 2], start=[1, 0]),
    "multi_discrete_2d": spaces.MultiDiscrete([[3, 2], [2, 4]]),
    "box_f32": spaces.Box(np.float32([-1, -np.inf]), np.float32([1, np.inf])),
    "box_f64": spaces.Box(-1.5, 2.5, (2, 3), np.float64),
    # Bounds that f32 does not have.
    "box_tenth": spaces.Box(-0.1, 0.7, (2,), np.float64),
    "box_u8": spaces.Box(0, 255, (2, 2, 3), np.uint8),
    # Height, width, channels; the bounds of the last channel are its own.
    "camera": spaces.Box(np.zeros((6, 5, 3)), np.broadcast_to([255, 255, 9], (6, 5, 3)), dtype=np.uint8),
    "codes": spaces.Box(0, 4, (3,), np.uint8),
    "bits": spaces.Box(0, 1, (3,), np.uint8),
    "coin": spaces.Discrete(2),
    "coins": spaces.MultiDiscrete([2, 2]),
    "scalar": spaces.Box(-1, 1, (), np.float32),
    "dict": spaces.Dict(
        {
            "image": spaces.Box(0, 255, (2, 2), np.uint8),
            "arm": spaces.Box(-1, 1, (3,), np.float64),
            "hand": spaces.Discrete(3, start=-1),
        }
    ),
    "images": spaces.Tuple((spaces.Box(0, 255, (2, 2), np.uint8), spaces.Box(0, 100, (3,), np.uint8))),
    "nested": spaces.Tuple(
        (spaces.Dict({"a": spaces.Tuple((spaces.Box(0, 1, (2,)), spaces.Discrete(2)))}), spaces.MultiDiscrete([2, 3]))
    ),
    # Not in alphabetical order, which Gymnasium would restore in a dict.
    "choices": spaces.Dict(
        [
            ("wheel", spaces.Discrete(3, start=1)),
            ("arms", spaces.Tuple((spaces.MultiDiscrete([2, 4]), spaces.Discrete(2)))),
        ]
    ),
    "numbers": spaces.Dict({"gas": spaces.Box(0, 1, (1,)), "steer": spaces.Box(-1, 1, (2,), np.float64)}),
    "with_mask": spaces.Dict({"seen": spaces.Box(0, 1, (2,)), "action_mask": spaces.Box(0, 1, (4,), np.float32)}),
    # Refused, each by its name.
    "with_text_mask": spaces.Dict({"seen": spaces.Box(0, 1, (2,)), "action_mask": spaces.Text(4)}),
    "mixed": spaces.Dict({"wheel": spaces.Discrete(3), "gas": spaces.Box(0, 1, (1,))}),
    "multi_binary": spaces.MultiBinary(3),
    "deep_text": spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), spaces.Text(5)))}),
    "int_box": spaces.Box(0, 10, (2,), np.int64),
    "f16_box": spaces.Box(0, 1, (2,), np.float16),
    "sequence": spaces.Sequence(spaces.Discrete(2)),
    "empty": spaces.Box(0, 1, (0,)),
}


class Spaces(gymnasium.Env):
    """An environment whose `observation` and `action` are of `SPACES`. Episodes have 7 steps, the time limit is 5.

    The observation is `value(space, k)`, with the lowest digit of the seed and the steps of the episode added up as k.
    The reward echoes the action: it is the sum of all its numbers, as the environment got them. Every action has to be
    in the action space.

    `wrong` spoils observations from step 2 on: `shape` gives one of the wrong shape, `range` a choice that there is
    not, `missing` a dict without its first part, `bool` says which numbers are odd by bools, `text` by words. With
    `masked`, `info["action_mask"]` forbids choice k % n of the first choice; with `masked="forgotten"` only a reset
    gives it.
    """

    def __init__(self, observation="box_f32", action="discrete", wrong=None, masked=False):
        self.observation_space, self.action_space = SPACES[observation], SPACES[action]
        self.wrong, self.masked = wrong, masked

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.k, self.steps = (seed or 0) % 10, 0
        return value(self.observation_space, self.k), self.info()

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.k, self.steps = self.k + 1, self.steps + 1
        seen = value(self.observation_space, self.k)
        if self.wrong and self.steps >= 2:
            seen = spoilt(seen, self.wrong)
        return seen, total(action), self.steps == 7, False, self.info()

    def info(self):
        if not self.masked or self.masked == "forgotten" and self.steps > 0:
            return {}
        return {"action_mask": mask(self.action_space, self.k)}


def value(space, k):
    """The `k`-th value of a space; the numbers in it count on from k."""
    if isinstance(space, spaces.Tuple):
        return tuple(value(part, k) for part in space.spaces)
    if isinstance(space, spaces.Dict):
        return {key: value(part, k) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return space.start + k % space.n
    if isinstance(space, spaces.MultiDiscrete):
        return (space.start + k % space.nvec).astype(space.dtype)
    if isinstance(space, spaces.Box):
        size = int(np.prod(space.shape, dtype=int))
        numbers = (k + np.arange(size)) % 8
        if space.dtype.kind == "f":
            numbers = numbers / 8
        return numbers.reshape(space.shape).astype(space.dtype)
    return space.sample()


def total(action):
    if isinstance(action, dict):
        return total(tuple(action.values()))
    if isinstance(action, tuple):
        return sum(map(total, action))
    return float(np.sum(action))


def spoilt(seen, how):
    if how == "missing":
        return {key: part for key, part in list(seen.items())[1:]}
    if how == "range":
        return seen + 100
    if how in ("bool", "text"):
        odd = np.asarray(seen) % 2 == 1
        return odd.astype(str) if how == "text" else odd if odd.shape else odd[()]
    return np.asarray(seen).ravel()[:1] if how == "shape" else seen


def mask(space, k):
    """Everything but one thing of the first choice is possible."""
    sizes = [space.n] if isinstance(space, spaces.Discrete) else list(space.nvec.ravel())
    parts = [np.ones(size, np.int8) for size in sizes]
    parts[0][k % sizes[0]] = 0
    # The two ways in which environments give it.
    return parts[0] if isinstance(space, spaces.Discrete) else tuple(parts)


class RoundedStart(gymnasium.Wrapper):
    """Rounds the state with which an episode begins to what is seen of it, where the state is the observation in more
    digits. Then an environment that is only told the observation can go the same way.
    """

    def reset(self, *, seed=None, options=None):
        seen, info = self.env.reset(seed=seed, options=options)
        self.unwrapped.state = np.array(seen, dtype=np.float64)
        return seen, info


class ThirtyTwoBits(gymnasium.Wrapper):
    """Takes seeds of 32 bits only, as everything does that hands them to `np.random.RandomState`."""

    def reset(self, *, seed=None, options=None):
        np.random.RandomState(seed)
        return self.env.reset(seed=seed, options=options)


class Told(gymnasium.Env):
    """Writes what it is told into a file, and is never made."""

    def __init__(self, file, **told):
        with open(file, "w") as written:
            written.write(repr(told))
        raise TypeError(f"was told {told}")


def needs_a_simulator(env):
    """What environments say whose simulator is an extra."""
    raise gymnasium.error.DependencyNotInstalled("simulator is not installed, run `pip install simulator`")


gymnasium.register("Faulty-v0", entry_point=Faulty)
gymnasium.register("SlowToClose-v0", entry_point=SlowToClose)
gymnasium.register("Drawn-v0", entry_point=Drawn)
gymnasium.register("Habits-v0", entry_point=Habits)
gymnasium.register("Seedless-v0", entry_point=Seedless)
gymnasium.register("Spaces-v0", entry_point=Spaces, max_episode_steps=5)
gymnasium.register("Told-v0", entry_point=Told)
