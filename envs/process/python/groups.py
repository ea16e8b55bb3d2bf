"""Groups: the environments of one process, by what makes them.

Part of the program that `child.py` begins.
"""

import contextlib
import difflib
import functools
import inspect
import operator
import re
import sys
import traceback

def make_group(envs, autoreset, config, render):
    kind = config.get("kind")
    if kind not in KINDS:
        raise Refusal(f"`kind` of the configuration is {kind!r}, expected {', '.join(KINDS)}")
    group, keys = KINDS[kind]
    unlike = keys.symmetric_difference(config)
    if unlike:
        expected, wrong = ", ".join(sorted(keys)), ", ".join(sorted(unlike))
        raise Refusal(f"a configuration of kind {kind} has {expected}; missing or too much here: {wrong}")
    name = next(config[key] for key in ("id", "game", "module") if key in config)
    try:
        config = {**config, "kwargs": arguments(config["kwargs"])}
        made = group(envs, autoreset, config, render)
    except BaseException as error:
        raise Refusal(f"{name}: {why_not_made(error)}") from None
    if "cv2" in sys.modules:
        # It would start a thread for each core, in every child.
        sys.modules["cv2"].setNumThreads(0)
    made.name = name
    return made


def wrapped(env, wrappers):
    for wrapper in wrappers:
        env = load_named(wrapper["name"])(env, **arguments(wrapper["kwargs"]))
    return env


# Seeds have 64 bits. Environments get the lower 31, which all of them take: some hand their seed to a generator that
# takes 32 bits, or to a signed number in C.
SEEDS = 0x7FFF_FFFF


def begin_episode(env, seed):
    """Begins the episode of a seed, and returns the observation and the info."""
    seed &= SEEDS
    seed_globals(seed)
    try:
        begun = env.reset(seed=seed)
    except TypeError as error:
        raise old_reset(env, error) or error
    if isinstance(begun, (tuple, list)) and len(begun) == 2:
        observation, info = begun[0], {} if begun[1] is None else begun[1]
        if isinstance(info, collections.abc.Mapping):
            return observation, info
    raise Refusal(
        f"`reset` gave {kind_of(begun)}, expected two values: (observation, info), where info is a dict. Environments "
        "of gym before 0.26 give the observation alone: return `observation, {}`"
    )


def old_reset(env, error):
    """What to say of a `reset` that was not entered, because it does not take what Gymnasium gives it; else None."""
    entered = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}

    def code(env):
        return getattr(getattr(type(env), "reset", None), "__code__", None)

    while code(env) in entered and hasattr(env, "env"):
        env = env.env
    if code(env) is None or code(env) in entered:
        return None
    takes = inspect.signature(env.reset).parameters
    missing = [f"`{name}`" for name in ("seed", "options") if name not in takes]
    if not missing or any(it.kind is it.VAR_KEYWORD for it in takes.values()):
        return None
    return Refusal(
        f"`reset` of {type(env).__name__} does not take {' and '.join(missing)}: write `def reset(self, *, seed=None, "
        "options=None)`, as Gymnasium has it, and return `observation, info`"
    )


STEP_VALUES = 5


def stepped(values):
    """Refuses what is not the five values of a step."""
    if isinstance(values, (tuple, list)) and len(values) == STEP_VALUES:
        return values
    raise Refusal(
        f"`step` gave {kind_of(values)}, expected five values: (observation, reward, terminated, truncated, info). "
        "Environments of gym before 0.26 give four, with `done` for both kinds of end: return `done, False` in its "
        "place, or the other way round where a time limit ended the episode"
    )


def number(reward):
    """The reward in an array of one number, whatever its shape."""
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise Refusal(f"`step` gave {kind_of(reward)} as the reward, expected a number")
    return float(array.item())


def check_flag(flag, name):
    if not isinstance(flag, (bool, int, np.bool_, np.integer, np.ndarray)):
        raise Refusal(f"`step` gave {kind_of(flag)} as `{name}`, expected True or False")


def kind_of(value):
    """What a value is, in a few words."""
    if isinstance(value, (tuple, list)) and len(value) < 10:
        kinds = ["tuple" if isinstance(it, tuple) else kind_of(it) for it in value]
        return f"{len(value)} values: ({', '.join(kinds)})"
    shape = getattr(value, "shape", None)
    name = "None" if value is None else type(value).__name__
    return name if shape is None else f"{name} of shape {shape}"


def lives_of(env):
    """A function that tells how many lives are left, where losing one is to end what is learned from; else None.

    Gymnasium's wrapper would begin a new game with each life. So it plays on instead, and the loop looks at the lives.
    """
    while isinstance(env, gymnasium.Wrapper):
        if getattr(env, "terminal_on_life_loss", False):
            env.terminal_on_life_loss = False
            return env.unwrapped.ale.lives
        env = env.env
    return None


def is_lost(before, now):
    """Whether a life was lost, or some were. Games that show no life for a while before they are over, as Qbert does,
    end once.
    """
    return (now < before) & (now > 0)


def fps_of(env):
    """How many frames a second to show; 0 if that is not known."""
    try:
        return min(max(round(float((env.metadata or {}).get("render_fps") or 0)), 0), 65_535)
    except (TypeError, ValueError, OverflowError):
        return 0


def episodes_of(env):
    """A function that begins the episode of a seed.

    To take a seed ALE loads the game anew, which takes as long as some hundred steps. Without sticky actions the seed
    decides nothing but how many idle steps are made at the start, and those are drawn from Gymnasium's generator. So
    that one is seeded, as ALE would, and the game put back as it was when loaded: the episode is the very one that
    `reset(seed=seed)` gives.
    """
    if not is_game_without_chance(env):
        return functools.partial(begin_episode, env)
    game, seeding = env.unwrapped, load("gymnasium.utils.seeding")
    game.load_game()
    loaded = game.clone_state(include_rng=True)

    def begin(seed):
        ours, _ = np.random.SeedSequence(seed & SEEDS).generate_state(2)
        game.np_random, _ = seeding.np_random(int(ours))
        game.restore_state(loaded)
        return env.reset()

    return begin


def is_game_without_chance(env):
    """Whether nothing looks at a seed but ALE and Gymnasium's own wrappers, and actions are not sticky."""
    while isinstance(env, gymnasium.Wrapper):
        if not type(env).__module__.startswith("gymnasium.wrappers"):
            return False
        env = env.env
    return type(env).__module__ == "ale_py.env" and env.ale.getFloat("repeat_action_probability") == 0


class GymnasiumGroup:
    """Environments that `gymnasium.make` makes."""

    def __init__(self, envs, autoreset, config, render):
        self.autoreset = autoreset
        if render and "render_mode" not in config["kwargs"] and self.can_draw(config):
            config = {**config, "kwargs": {**config["kwargs"], "render_mode": "rgb_array"}}
        self.envs = [self.make(config) for _ in range(envs)]
        env = self.envs[0]
        self.renders = render and env.render_mode == "rgb_array"
        self.fps = fps_of(env)
        self.lives = [lives_of(env) for env in self.envs]
        flags = config["action_mask"], config["channels_first"]
        with telling_where_masks_are(env.observation_space):
            self.agents = [Agent("agent", env.observation_space, env.action_space, *flags)]
        limit = env.spec.max_episode_steps if env.spec else None
        self.max_episode_steps = None if limit is None else operator.index(limit)
        self.one_by_one = True

    @staticmethod
    def make(config):
        name = config["id"]
        module = "ale_py" if name.startswith("ALE/") else name.rpartition(":")[0]
        if module:
            load(module)
        limit = config["max_episode_steps"]
        env = gymnasium.make(name, max_episode_steps=limit, disable_env_checker=True, **config["kwargs"])
        return wrapped(without_order_enforcing(env), config["wrappers"])

    def can_draw(self, config):
        """Whether there is a mode for frames. Only an environment itself knows, so one is made to ask it."""
        env = self.make(config)
        try:
            return "rgb_array" in (env.metadata.get("render_modes") or ())
        finally:
            env.close()
            # What is random in construction is as without frames.
            seed_globals(process_seed())

    def close(self):
        # Every environment is closed, even if another one's close raises.
        with contextlib.ExitStack() as closing:
            for env in reversed(self.envs):
                closing.callback(env.close)

    def orders(self, memory):
        agent, autoreset = self.agents[0], self.autoreset
        header, seeds, rewards, ends = memory.header, memory.seeds, agent.rewards, agent.ends
        # With autoreset, everybody always acts.
        asked = bytearray(len(self.envs)) if autoreset else agent.asked
        lanes = [self.lane(index, env) for index, env in enumerate(self.envs)]
        lives_left = [0] * len(lanes)

        def begin(lane):
            index, begin_episode, _, _, show, _, show_mask, lives = lane
            header[ENV_AT], header[CALL_AT] = index, RESET
            observation, info = begin_episode(seeds[index])
            show(observation)
            if show_mask is not None:
                show_mask(info)
            if lives is not None:
                lives_left[index] = lives()

        def reset(which=lanes):
            for lane in which:
                begin(lane)
                index = lane[0]
                rewards[index], ends[index], asked[index] = 0.0, GOES_ON, True

        def step(which=lanes):
            header[CALL_AT] = STEP
            for lane in which:
                index, _, take_step, read, show, show_final, show_mask, lives = lane
                header[ENV_AT] = index
                if not asked[index]:
                    rewards[index], ends[index] = 0.0, GOES_ON
                    continue
                values = take_step(read())
                if type(values) is not tuple or len(values) != STEP_VALUES:
                    values = stepped(values)
                observation, reward, terminated, truncated, info = values
                try:
                    rewards[index] = reward
                except (TypeError, ValueError):
                    rewards[index] = number(reward)
                if terminated or truncated:
                    check_flag(terminated, "terminated")
                    check_flag(truncated, "truncated")
                    ends[index] = TERMINATED if terminated else TRUNCATED
                    # Nothing is learned from what follows a terminal state.
                    if observation is not None or not terminated:
                        show_final(observation)
                    if autoreset:
                        if header[KEEP_LAST_AT] == index + 1:
                            draw()
                        begin(lane)
                        header[CALL_AT] = STEP
                    else:
                        asked[index] = False
                    continue
                ends[index] = GOES_ON
                show(observation)
                if show_mask is not None:
                    show_mask(info)
                if lives is not None:
                    before, lives_left[index] = lives_left[index], lives()
                    if is_lost(before, lives_left[index]):
                        ends[index] = LIFE_LOST

        def draw():
            header[CALL_AT] = RENDER
            memory.show(self.envs[header[ENV_AT]].render(), self.fps)

        def for_one(order):
            return lambda: order([lanes[header[ENV_AT]]])

        drawing = {b"p": draw} if self.renders else {}
        return {b"r": reset, b"s": step, b"R": for_one(reset), b"S": for_one(step), **drawing}

    def lane(self, index, env):
        """What the loop needs of one environment, so that it has to look for nothing."""
        agent = self.agents[0]
        show = agent.observation.bind(agent.observations[index])
        show_final = agent.observation.bind(agent.final_observations[index]) if self.autoreset else show
        advice = MASK_IN_OBSERVATION if has_mask_in(env.observation_space) else MASK_IN_INFO
        show_mask = None if agent.choices is None else mask_writer(agent.masks[index], advice)
        read, lives = agent.action.bind(agent.actions[index]), self.lives[index]
        return index, episodes_of(env), env.step, read, show, show_final, show_mask, lives


MASK_IN_INFO = "the mask is read from `info[\"action_mask\"]` of every reset and step: give one there"
MASK_IN_OBSERVATION = (
    "with one agent the mask is read from `info[\"action_mask\"]` of every reset and step, not from the observation: "
    "put it there as well, and leave it out of the observation"
)


def has_mask_in(space):
    return isinstance(space, spaces.Dict) and "action_mask" in space.spaces


@contextlib.contextmanager
def telling_where_masks_are(observation_space):
    """Adds to a refusal what there is to know of a mask in the observation."""
    try:
        yield
    except Refusal as refusal:
        if has_mask_in(observation_space):
            raise Refusal(f"{refusal}; {MASK_IN_OBSERVATION}") from None
        raise


def without_order_enforcing(env):
    """Leaves out the wrapper that asks in every step whether there was a reset; the protocol sees to that."""
    if isinstance(env, gymnasium.wrappers.OrderEnforcing):
        return env.env
    if isinstance(env, gymnasium.Wrapper):
        env.env = without_order_enforcing(env.env)
    return env


class AtariVectorGroup:
    """One vector environment of ALE for the whole group, which steps all games in C++.

    *Seeds*: order `r` begins every episode with its seed. After an episode that ends in a step, ALE begins the next one
    by itself, with what its generators come to; that episode's seed is not looked at. So the same seeds at `r` and the
    same actions give the same run, bit for bit, but later episodes are not those of their seeds. To make them so, put
    `"autoreset_mode": "Disabled"` into `kwargs`; it is so without autoreset, too. It is not the rule because ALE loads
    the game anew to take a seed, for as long as some hundred steps take. ALE knows seeds from 1 to 2³¹ - 1: others
    are taken modulo that number, which stands for 0.

    *Lives*: ALE would begin a new game with each life that is lost. So `episodic_life` is not for ALE, which plays
    games to their end, but for what is learned from; `life_loss_info` is the same.

    *Errors* are said to be of environment 0, for ALE does not say whose they are.

    *Frames* are the newest image that a policy observes: ALE's vector environment gives no other.
    """

    def __init__(self, envs, autoreset, config, render):
        self.renders, kwargs = render, config["kwargs"]
        mode = kwargs.get("autoreset_mode", "SameStep")
        if envs > 1 and not autoreset:
            raise Refusal("ALE steps all games of a vector or none, so without autoreset there can only be one")
        if mode not in ("SameStep", "Disabled"):
            raise Refusal(f"`autoreset_mode` is {mode!r}, expected SameStep, or Disabled to seed every episode")
        self.autoreset, self.seeds_each = autoreset, mode == "Disabled" or not autoreset
        # In its next-step mode, ALE does not reset again what was reset before the next step.
        mode = "NextStep" if self.seeds_each else "SameStep"
        # What `AtariPreprocessing` does not do is off.
        kwargs = {"num_threads": 1, "reward_clipping": False, "use_fire_reset": False, **kwargs, "autoreset_mode": mode}
        self.lives_count = any([kwargs.pop(name, False) for name in ("episodic_life", "life_loss_info")])
        vector_env = load("ale_py.vector_env").AtariVectorEnv
        check_game(config["game"], load("ale_py.roms").get_all_rom_ids())
        self.env = vector_env(config["game"], envs, **kwargs)
        self.agents = [Agent("agent", self.env.single_observation_space, self.env.single_action_space, False)]
        # Counted in frames of steps, without those before the first one; looked at after each frame.
        frames, frames_per_step = kwargs.get("max_num_frames_per_episode", 108_000), kwargs.get("frameskip", 4)
        self.max_episode_steps = -(-frames // frames_per_step)
        self.fps = max(1, round(60 / frames_per_step))
        # An episode that ALE began by itself has no seed to begin it with again.
        self.one_by_one = envs == 1 and self.seeds_each

    def close(self):
        self.env.close()

    def orders(self, memory):
        env, agent, header, autoreset = self.env, self.agents[0], memory.header, self.autoreset
        seeds, rewards, ends = map(np.asarray, (memory.seeds, agent.rewards, agent.ends))
        observations = agent.observations.reshape(-1, *env.single_observation_space.shape)
        final_observations = agent.final_observations.reshape(observations.shape) if autoreset else None
        asked = None if autoreset else np.asarray(agent.asked)
        is_discrete, largest_seed = agent.action.dtype == "u4", np.uint64(2**31 - 1)
        lives = np.zeros(len(seeds), "i4")

        def begin(which):
            header[CALL_AT] = RESET
            taken = seeds[which] % largest_seed
            taken[taken == 0] = largest_seed
            observations[...], info = env.reset(seed=taken.astype("i8"), options={"reset_mask": which})
            lives[:] = info["lives"]

        def reset():
            begin(np.ones(len(seeds), bool))
            rewards[:], ends[:] = 0.0, GOES_ON
            if not autoreset:
                asked[:] = True

        def step():
            header[CALL_AT] = STEP
            actions = agent.actions[:, 0].astype("i8") if is_discrete else agent.actions.copy()
            observations[...], rewards[:], terminated, truncated, info = env.step(actions)
            over = terminated | truncated
            goes_on = np.where(is_lost(lives, info["lives"]), LIFE_LOST, GOES_ON) if self.lives_count else GOES_ON
            ends[:] = np.where(terminated, TERMINATED, np.where(truncated, TRUNCATED, goes_on))
            lives[:] = info["lives"]
            if not autoreset:
                asked[:] = ~over
            elif over.any():
                final_observations[over] = (observations if self.seeds_each else info["final_obs"])[over]
                kept = header[KEEP_LAST_AT]
                if kept and over[kept - 1]:
                    show(final_observations[kept - 1])
                if self.seeds_each:
                    begin(over)

        def show(images):
            newest = images[-1]
            memory.show(newest if newest.ndim == 3 else np.repeat(newest[..., None], 3, 2), self.fps)

        def draw():
            header[CALL_AT] = RENDER
            show(observations[header[ENV_AT]])

        drawing = {b"p": draw} if self.renders else {}
        return {b"r": reset, b"s": step, b"R": reset, b"S": step, **drawing}


def check_game(name, games):
    """Refuses the name of a game that there is not, and says which may be meant."""
    if name in games:
        return
    plain = name.replace("_", "").lower()
    by_plain = {game.replace("_", ""): game for game in games}
    of_id = re.fullmatch(r"(ale/)?(.+?)(noframeskip|deterministic)?(-ram)?(-v\d+)?", plain)
    near = difflib.get_close_matches(of_id[2], by_plain, 1)
    if of_id[2] in by_plain and of_id[2] != plain:
        raise Refusal(
            f"this is an id of Gymnasium, and here a game is named alone: `{by_plain[of_id[2]]}`. Frames are skipped "
            "and stacked by ale-py's vectoriser, whose arguments `kwargs` are"
        )
    meant = f", did you mean `{by_plain[near[0]]}`?" if near else ""
    raise Refusal(f"ale-py has no game of this name{meant}: names are those of its ROMs, as in `ms_pacman`")


class PettingZooGroup:
    """One parallel environment of PettingZoo. The agents in its `agents` act next, unless they have ended."""

    def __init__(self, envs, autoreset, config, render):
        if envs != 1 or autoreset:
            raise Refusal(
                "it has several agents, and was asked for where there is to be one: run it with"
                " `TrainerBuilder::multi_agent_env`"
            )
        env = maker_of_parallel(config["module"])(**config["kwargs"])
        check_parallel(env)
        self.env = wrapped(env, config["wrappers"])
        self.has_mask, self.max_episode_steps = config["action_mask"], config["max_episode_steps"]
        self.channels_first = config["channels_first"]
        self.agents = [self.agent(key) for key in self.env.possible_agents]
        self.one_by_one = self.renders = False

    def agent(self, key):
        space = self.env.observation_space(key)
        # An observation with its mask in it.
        looks_so = isinstance(space, spaces.Dict) and set(space) == {"observation", "action_mask"}
        holds_mask = self.has_mask and looks_so
        shown = space["observation"] if holds_mask else space
        with naming(key):
            if looks_so and not self.has_mask:
                raise Refusal(
                    "its observation has an `action_mask`: switch `action_mask` on, or leave it out with a wrapper"
                )
            agent = Agent(str(key), shown, self.env.action_space(key), self.has_mask, self.channels_first)
        agent.key, agent.holds_mask = key, holds_mask
        return agent

    def close(self):
        self.env.close()

    def orders(self, memory):
        env, agents, header, limit = self.env, self.agents, memory.header, self.max_episode_steps
        for agent in agents:
            agent.read = agent.action.bind(agent.actions[0])
            agent.write = agent.observation.bind(agent.observations[0])
            agent.write_mask = mask_writer(agent.masks[0], MASK_OF_AGENT) if self.has_mask else None

        def reset():
            header[CALL_AT] = RESET
            self.steps = 0
            observations, infos = begin_episode(env, memory.seeds[0])
            for agent in agents:
                agent.has_ended, agent.rewards[0], agent.ends[0] = False, 0.0, GOES_ON
                self.show(agent, observations, infos)

        def step():
            header[CALL_AT] = STEP
            self.steps += 1
            acting = {agent.key: agent.read() for agent in agents if agent.asked[0]}
            observations, rewards, terminations, truncations, infos = stepped(env.step(acting))
            for agent in agents:
                reward, agent.ends[0] = rewards.get(agent.key, 0.0), GOES_ON
                try:
                    agent.rewards[0] = reward
                except (TypeError, ValueError):
                    with naming(agent.key):
                        agent.rewards[0] = number(reward)
                if agent.has_ended:
                    continue
                if terminations.get(agent.key):
                    agent.ends[0] = TERMINATED
                elif truncations.get(agent.key):
                    agent.ends[0] = TRUNCATED
                self.show(agent, observations, infos)
                if self.steps == limit:
                    agent.asked[0] = False
                    # Who takes no part, or has left, sees nothing. The parent ends the episode for all.
                    if agent.ends[0] == GOES_ON and agent.key in observations:
                        agent.ends[0] = TRUNCATED
                agent.has_ended = bool(agent.ends[0])

        return {b"r": reset, b"s": step}

    def show(self, agent, observations, infos):
        """Asks the agent if it is to act next, and shows it what there is to see."""
        key, goes_on = agent.key, agent.ends[0] == GOES_ON
        agent.asked[0] = acts = goes_on and key in self.env.agents
        if key not in observations:
            if acts or agent.ends[0] == TRUNCATED:
                seers = ", ".join(map(str, observations)) or "none"
                raise Refusal(
                    f"agent {key} goes on, or would have gone on, without an observation (with one: {seers}): who acts "
                    "next and who is truncated needs an observation"
                )
            return
        seen = observations[key]
        # Nothing is learned from what follows a terminal state.
        if seen is None and agent.ends[0] == TERMINATED:
            return
        with naming(key):
            agent.write(seen["observation"] if agent.holds_mask else seen)
            if acts and self.has_mask:
                agent.write_mask(seen if agent.holds_mask else infos.get(key, {}))


MASK_OF_AGENT = (
    "the mask is read from the observation, if its space is `Dict({\"observation\": …, \"action_mask\": …})`, or else "
    "from the agent's info: give one in every reset and step"
)


def maker_of_parallel(name):
    """What makes the parallel environment of a module, or of "module:name"."""
    if ":" in name:
        return load_named(name)
    module = load(name)
    if hasattr(module, "parallel_env"):
        return module.parallel_env
    own = [it for it in vars(module).values() if isinstance(it, type) and it.__module__ == module.__name__]
    parallel = [it.__name__ for it in own if hasattr(it, "step") and hasattr(it, "reset") and not is_aec(it)]
    if parallel:
        raise Refusal(
            f"the module has no function `parallel_env`: write `def parallel_env(**kwargs): return "
            f"{parallel[0]}(**kwargs)`, or name the class, as in `{name}:{parallel[0]}`"
        )
    if hasattr(module, "env") or any(map(is_aec, own)):
        raise Refusal(f"the module has no function `parallel_env`, {AEC}")
    raise Refusal(
        "the module has no function `parallel_env`: write `def parallel_env(**kwargs)`, which returns a `ParallelEnv` "
        f"of PettingZoo, or name one, as in `{name}:Name`"
    )


AEC = (
    "but an AEC environment, in which agents take turns. It takes a parallel environment, in which all of `agents` act "
    "at once: where the rules allow that, `pettingzoo.utils.conversions.aec_to_parallel(env(**kwargs))` makes one, for "
    "`def parallel_env(**kwargs)` in a module of your own; where they do not, write a `ParallelEnv` whose `agents` is "
    "the one whose turn it is"
)


def is_aec(env):
    return hasattr(env, "agent_iter") and hasattr(env, "last")


def check_parallel(env):
    if is_aec(env):
        raise Refusal(f"{kind_of(env)} is not parallel, {AEC}")
    missing = [name for name in ("possible_agents", "observation_space", "action_space") if not hasattr(env, name)]
    if missing or isinstance(env, gymnasium.Env):
        lacks = f"which has no `{missing[0]}`" if missing else "an environment of Gymnasium"
        raise Refusal(f"what was made is {kind_of(env)}, {lacks}: it has to be a `ParallelEnv` of PettingZoo")


@contextlib.contextmanager
def naming(agent):
    """Says whom a refusal is about."""
    try:
        yield
    except Refusal as refusal:
        raise Refusal(f"agent {agent}: {refusal}") from None


SHARED_KEYS = {"kind", "kwargs", "wrappers", "max_episode_steps", "action_mask", "channels_first"}
KINDS = {
    "gymnasium": (GymnasiumGroup, SHARED_KEYS | {"id"}),
    "atari_vector": (AtariVectorGroup, {"kind", "game", "kwargs"}),
    "pettingzoo": (PettingZooGroup, SHARED_KEYS | {"module"}),
}
