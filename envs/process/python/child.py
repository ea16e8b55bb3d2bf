"""The child for environments of Gymnasium, of ALE's vector environment and of PettingZoo, as `PROTOCOL.md` has it.

It runs other people's code, which prints, hangs and dies. So before anything of theirs is imported, the two pipes are
moved out of its reach, standard output goes where standard error goes, and the lifeline is armed.

What the child holds is a *group*: a `GymnasiumGroup`, an `AtariVectorGroup` or a `PettingZooGroup`. Each has `agents`,
`max_episode_steps`, `one_by_one`, `renders`, `close()`, and `orders(memory)`, which gives a function for each order.

Whatever depends on a space is decided before the first step: each row of the memory gets a function that writes an
observation into it or reads an action from it. The loop over environments asks about no type.

The program is four files, one after the other: `spaces.py`, `arguments.py`, `groups.py`, and this one, which holds the
conversation and begins it.

Python 3.9 or later, with gymnasium 1.0 or later; other packages are imported if the configuration asks for them.
"""

import difflib
import faulthandler
import fcntl
import gc
import importlib
import json
import mmap
import operator
import os
import random
import select
import signal
import sys
import time
import traceback

PROTOCOL = 1
MEMORY_FD, LIFELINE_FD = 3, 4
HEADER_BYTES = 65_536
FRAME_BYTES = 1 << 24
MESSAGE_AT, MESSAGE_BYTES = 64, 65_472
LINE_BYTES = 64 << 20
# For how long a child looks for its next order before it sleeps.
AWAKE_NS = 200_000
# Where in the header, counted in u32, and what is written there.
VERSION_AT, ENVS_AT, AGENTS_AT, ENV_AT, CALL_AT, MESSAGE_LEN_AT = 1, 2, 3, 4, 5, 6
WIDTH_AT, HEIGHT_AT, FPS_AT, KEEP_LAST_AT = 7, 8, 9, 10
RESET, STEP, RENDER = 1, 2, 3
CALLS = {RESET: "`reset`", STEP: "`step`", RENDER: "`render`"}
GOES_ON, TERMINATED, TRUNCATED, LIFE_LOST = 0, 1, 2, 3
# What the parent's variable with this name holds is drawn from the run's seed.
SEED = "PRONK_SEED"


class Refusal(Exception):
    """What is wrong and what to do, in words for the user. A traceback would say no more."""


class Gone(Exception):
    """The parent has closed its pipe in the middle of the handshake."""


def main():
    """Returns the exit status."""
    parent = Parent()
    arm_lifeline()
    faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)
    try:
        envs, autoreset, config, render = read_greeting(parent.hear())
        import_packages()
        seed_globals(process_seed())
        group = make_group(envs, autoreset, config, render)
        parent.say(
            protocol=PROTOCOL,
            name=group.name,
            max_episode_steps=group.max_episode_steps,
            agents=[agent.described() for agent in group.agents],
            one_by_one=group.one_by_one,
            render=group.renders,
        )
        memory = Memory(envs, group.agents, autoreset, group.renders)
        memory.map(parent.hear())
        orders = group.orders(memory)
        parent.say(shared_bytes=memory.bytes)
    except Gone:
        return 0
    except BaseException as error:
        parent.say(protocol=PROTOCOL, error=without_secrets(explain(error)))
        return 1
    # What was made up to here stays: looking through it for garbage again and again would only cost time.
    gc.collect()
    gc.freeze()
    status = serve(parent, orders, memory)
    try:
        group.close()
    except BaseException as error:
        # Nothing can be spoilt any more.
        print(without_secrets(explain(error)), file=sys.stderr)
    return status


def serve(parent, orders, memory):
    """Obeys until the parent closes its pipe."""
    while True:
        order = parent.order()
        if not order:
            return 0
        obey = orders.get(order)
        if obey is None:
            print(f"byte {order[0]} is no order of protocol {PROTOCOL}", file=sys.stderr)
            return 2
        answer = b"k"
        try:
            obey()
        except BaseException as error:  # an environment that calls `sys.exit` has failed like any other
            call = CALLS.get(memory.header[CALL_AT], "a call")
            memory.report(explain(error, f"what {call} gave, or was given, is not as it has to be: "))
            answer = b"e"
        try:
            os.write(parent.answers, answer)
        except BrokenPipeError:
            return 0


# ---- The parent -----------------------------------------------------------------------------------------------------


class Parent:
    """The two pipes, where neither environments nor the processes that they start can get at them."""

    def __init__(self):
        self.orders, self.answers = os.dup(0), os.dup(1)
        self.open = [self.orders, self.answers]
        look = select.poll()
        look.register(self.orders, select.POLLIN)
        self.poll = look.poll
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        # A process that an environment forks would keep them open when this one is dead.
        os.register_at_fork(after_in_child=self.close)
        os.set_inheritable(MEMORY_FD, False)
        os.set_inheritable(LIFELINE_FD, False)

    def close(self):
        # Once: in a process that a forked one forks, other files may have these numbers.
        while self.open:
            os.close(self.open.pop())

    def hear(self):
        """The parent's next line. Nothing follows it before the parent has heard ours."""
        line = bytearray()
        while not line.endswith(b"\n"):
            part = os.read(self.orders, 1 << 16)
            if not part:
                raise Gone
            line += part
        try:
            return json.loads(line)
        except ValueError as error:
            raise Refusal(f"a line of the parent is not JSON: {error}") from None

    def order(self):
        """The next order; nothing when there are no more."""
        # A processor that has gone idle takes about as long to wake as a small policy takes to act. Other
        # threads and processes that have work go first.
        until = time.monotonic_ns() + AWAKE_NS
        while not self.poll(0) and time.monotonic_ns() < until:
            os.sched_yield()
        return os.read(self.orders, 1)

    def say(self, **fields):
        line = json.dumps(fields, allow_nan=False).encode() + b"\n"
        if len(line) > LINE_BYTES:
            raise Refusal(f"the bounds of the spaces fill {len(line)} bytes, the most is {LINE_BYTES}: observe less")
        try:
            with open(self.answers, "wb", closefd=False) as pipe:
                pipe.write(line)
        except BrokenPipeError:
            raise Gone from None


def arm_lifeline():
    """Asks the kernel to end this process group when the parent dies, even if an environment hangs then."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGIO})
    fcntl.fcntl(LIFELINE_FD, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(LIFELINE_FD, fcntl.F_SETFL, os.O_ASYNC)
    # The kernel says nothing of what happened before it was asked.
    if select.select([LIFELINE_FD], [], [], 0)[0]:
        sys.exit(0)


def read_greeting(greeting):
    """How many environments, whether they begin anew by themselves, what they are, and whether frames are wanted."""
    if not isinstance(greeting, dict) or greeting.get("protocol") != PROTOCOL:
        begun = json.dumps(greeting)[:80]
        raise Refusal(f"this child speaks protocol {PROTOCOL}, its parent says {begun}: both have to be of one release")
    envs, autoreset, config = (greeting.get(field) for field in ("envs", "autoreset", "config"))
    if type(envs) is not int or envs < 1 or type(autoreset) is not bool or not isinstance(config, dict):
        raise Refusal("the parent's first line needs `envs` from 1, `autoreset` as true or false, an object `config`")
    return envs, autoreset, config, greeting.get("render") is True


# ---- Global random numbers ------------------------------------------------------------------------------------------


def process_seed():
    """For what is random in the construction of environments."""
    return int(os.environ.get(SEED, "0"))


def seed_globals(seed):
    """Seeds the generators that environments share which have none of their own."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFF_FFFF)


# ---- What went wrong ------------------------------------------------------------------------------------------------


def explain(error, if_from_here=""):
    """The error in words; for an unexpected one, the traceback from where this file called other code."""
    if isinstance(error, Refusal):
        return str(error)
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == main.__code__.co_filename:
        frames = frames.tb_next
    if frames is None:
        said = "".join(traceback.format_exception_only(type(error), error))
        return f"{if_from_here}{said}\n{''.join(traceback.format_tb(error.__traceback__))}"
    return "".join(traceback.format_exception(type(error), error, frames))


def why_not_made(error):
    """Why there is no such environment, and what to do where that is known."""
    if isinstance(error, Refusal):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{missing(error.name)}\n\n{explain(error)}"
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        return f"{said}. The pip of this interpreter is `{sys.executable} -m pip`"
    if isinstance(error, (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound)):
        return f"{said} Environments of other packages need their module before a colon, as in `package:Name-v0`"
    return said if isinstance(error, gymnasium.error.Error) else f"{said}\n\n{explain(error)}"


# The packages of environments that many use, by module. To advise anyone to install a package because a module that is
# missing has its name would be unwise: it may be mistyped, and the package anybody's.
PACKAGES = {
    "ale_py": "ale-py",
    "Box2D": "gymnasium[box2d]",
    "cv2": "opencv-python-headless",
    "gymnasium": "gymnasium",
    "mpe2": "mpe2",
    "mujoco": "gymnasium[mujoco]",
    "numpy": "numpy",
    "pettingzoo": "pettingzoo",
    "pygame": "pygame",
}


def missing(module):
    version = ".".join(map(str, sys.version_info[:3]))
    top, dot, _ = module.partition(".")
    what = f"Python {version} at {sys.executable} has no module `{module}`"
    if top in PACKAGES:
        install = f"{sys.executable} -m pip install {'--upgrade ' if dot else ''}'{PACKAGES[top]}'"
        return f"{what}: install it with `{install}`, or name another interpreter"
    try:
        here = os.getcwd()
        own = [name.partition(".")[0] for name in os.listdir(here) if name.endswith(".py") or "." not in name]
    except OSError:
        here, own = "the working directory", []
    near = difflib.get_close_matches(top, own, 1)
    return (
        f"{what}{f', did you mean `{near[0]}`?' if near else ''}: modules of your own are looked for in {here}, where "
        f"this was started, and in PYTHONPATH; install a package with `{sys.executable} -m pip`, or name another "
        "interpreter"
    )


def load(module):
    """The module of that name."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # It takes a traceback to understand that a module is there and what it imports is not.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise Refusal(missing(error.name)) from None


def load_named(name):
    """What "module:name" stands for."""
    module_name, _, attribute = name.partition(":")
    module = load(module_name)
    try:
        return operator.attrgetter(attribute)(module)
    except AttributeError as error:
        raise Refusal(f"there is no {name}: {error}. Names are as in `gymnasium.wrappers:ClipReward`") from None


def import_packages():
    """Imports what every group needs."""
    global np, gymnasium, spaces
    # In this order, so that an interpreter without either is told to install the one that brings the other along.
    gymnasium, np, spaces = load("gymnasium"), load("numpy"), load("gymnasium.spaces")
    version = gymnasium.__version__
    if int(version.partition(".")[0]) < 1:
        upgrade = f"{sys.executable} -m pip install --upgrade gymnasium"
        raise Refusal(f"gymnasium is {version}, but it has to be 1.0 or later: `{upgrade}`")


# ---- Memory ---------------------------------------------------------------------------------------------------------


class Memory:
    """The shared memory. Its sections become attributes of whom they belong to; their rows are environments."""

    def __init__(self, envs, agents, autoreset, renders):
        self.envs, self.agents = envs, len(agents)
        self.sections, self.bytes = [], HEADER_BYTES
        self.add(self, "seeds", "u8")
        for agent in agents:
            observation, action = agent.observation, agent.action
            self.add(agent, "actions", action.dtype, action.length)
            self.add(agent, "observations", observation.dtype, observation.length)
            if autoreset:
                self.add(agent, "final_observations", observation.dtype, observation.length)
            self.add(agent, "rewards", "f8")
            self.add(agent, "ends", "u1")
            if not autoreset:
                self.add(agent, "asked", "u1")
            if agent.choices is not None:
                self.add(agent, "masks", "u1", agent.choices)
        if renders:
            self.sections.append((self, "frame", "u1", None, FRAME_BYTES, self.bytes))
            self.bytes += FRAME_BYTES

    def add(self, owner, name, dtype, length=None):
        """A section with rows of `length` numbers, or of a single one."""
        numbers = self.envs * (length or 1)
        self.sections.append((owner, name, dtype, length, numbers, self.bytes))
        self.bytes += -(-numbers * np.dtype(dtype).itemsize // 64) * 64

    def map(self, told):
        """Maps what the parent has made, if it is what this child expects."""
        size = os.fstat(MEMORY_FD).st_size
        if told != {"shared_bytes": self.bytes} or size != self.bytes:
            said = json.dumps(told)[:80]
            raise Refusal(f"the shared memory has {size} bytes, the parent says {said}, this child needs {self.bytes}")
        memory = mmap.mmap(MEMORY_FD, self.bytes)
        self.text = memoryview(memory)[MESSAGE_AT : MESSAGE_AT + MESSAGE_BYTES]
        self.header = memoryview(memory)[:MESSAGE_AT].cast("I")
        expected = [b"PRNK", PROTOCOL, self.envs, self.agents]
        found = [memory[:4], *(self.header[at] for at in (VERSION_AT, ENVS_AT, AGENTS_AT))]
        if found != expected:
            raise Refusal(f"the shared memory begins with {found}, this child expects {expected}")
        for owner, name, dtype, length, numbers, at in self.sections:
            section = np.frombuffer(memory, dtype, numbers, at)
            # A memory view reads and writes a single number several times as fast as an array does.
            setattr(owner, name, memoryview(section) if length is None else section.reshape(self.envs, length))

    def show(self, frame, fps):
        """Leaves a frame where the parent looks for it; None if there is none."""
        width = height = 0
        if frame is not None:
            frame = np.asarray(frame)
            if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != "u1" or not frame.size:
                raise Refusal(
                    f"`render` gave {frame.dtype} of shape {frame.shape}, expected uint8 of shape (height, width, 3)"
                )
            height, width, _ = frame.shape
            if frame.size > FRAME_BYTES:
                raise Refusal(f"a frame has {width} × {height} pixels: draw smaller, at most {FRAME_BYTES // 3} pixels")
            np.asarray(self.frame)[: frame.size] = frame.ravel()
        self.header[WIDTH_AT], self.header[HEIGHT_AT], self.header[FPS_AT] = width, height, fps

    def report(self, message):
        """Leaves the message where the parent looks for it. Of a long one the end says most."""
        text = without_secrets(message).encode(errors="backslashreplace")
        if len(text) > MESSAGE_BYTES:
            cut = "[…]\n".encode()
            text = cut + text[len(cut) - MESSAGE_BYTES :].decode(errors="ignore").encode()
        self.text[: len(text)] = text
        self.header[MESSAGE_LEN_AT] = len(text)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing is left that would be worth the time that an interpreter takes to tidy up.
    os._exit(status)
