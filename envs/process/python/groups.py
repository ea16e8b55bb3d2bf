"""Groups: the environments of one process, by what makes them.

Part of the program that `child.py` begins.
"""

import contextlib
import functools
import operator
import sys

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


def begin_episode(reset, seed):
    """Begins one. Seeds have 64 bits; an environment that takes fewer says so, and gets the lower 31."""
    try:
        return reset(seed=seed)
    except (ValueError, OverflowError, TypeError) as error:
        is_too_large = isinstance(error, OverflowError) or any(word in str(error).lower() for word in ("seed", "int"))
        if seed < 1 << 31 or not is_too_large:
            raise
    return reset(seed=seed & 0x7FFF_FFFF)


def episodes_of(env):
    """A function that begins the episode of a seed.

    To take a seed ALE loads the game anew, which takes as long as some hundred steps. Without sticky actions the seed
    decides nothing but how many idle steps are made at the start, and those are drawn from Gymnasium's generator. So
    that one is seeded, as ALE would, and the game put back as it was when loaded: the episode is the very one that
    `reset(seed=seed)` gives.
    """
    if not is_game_without_chance(env):
        return functools.partial(begin_episode, env.reset)
    game, seeding = env.unwrapped, load("gymnasium.utils.seeding")
    game.load_game()
    loaded = game.clone_state(include_rng=True)

    def begin(seed):
        ours, _ = np.random.SeedSequence(seed).generate_state(2)
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
        self.fps = round(env.metadata.get("render_fps") or 0)
        flags = config["action_mask"], config["channels_first"]
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

        def begin(lane):
            index, begin_episode, _, _, show, _, show_mask = lane
            header[ENV_AT], header[CALL_AT] = index, RESET
            observation, info = begin_episode(seeds[index])
            show(observation)
            if show_mask is not None:
                show_mask(info)

        def reset(which=lanes):
            for lane in which:
                begin(lane)
                index = lane[0]
                rewards[index], ends[index], asked[index] = 0.0, GOES_ON, True

        def step(which=lanes):
            header[CALL_AT] = STEP
            for lane in which:
                index, _, take_step, read, show, show_final, show_mask = lane
                header[ENV_AT] = index
                if not asked[index]:
                    rewards[index], ends[index] = 0.0, GOES_ON
                    continue
                observation, reward, terminated, truncated, info = take_step(read())
                rewards[index] = reward
                if terminated or truncated:
                    ends[index] = TERMINATED if terminated else TRUNCATED
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
        show_mask = None if agent.choices is None else mask_writer(agent.masks[index])
        return index, episodes_of(env), env.step, agent.action.bind(agent.actions[index]), show, show_final, show_mask


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
        self.env = load("ale_py.vector_env").AtariVectorEnv(config["game"], envs, **kwargs)
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

        def begin(which):
            header[CALL_AT] = RESET
            taken = seeds[which] % largest_seed
            taken[taken == 0] = largest_seed
            observations[...], _ = env.reset(seed=taken.astype("i8"), options={"reset_mask": which})

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
            ends[:] = np.where(terminated, TERMINATED, np.where(truncated, TRUNCATED, GOES_ON))
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


class PettingZooGroup:
    """One parallel environment of PettingZoo. The agents in its `agents` act next, unless they have ended."""

    def __init__(self, envs, autoreset, config, render):
        if envs != 1 or autoreset:
            raise Refusal(
                "it has several agents, and was asked for where there is to be one: run it with"
                " `TrainerBuilder::multi_agent_env`"
            )
        make = load_named(f"{config['module']}:parallel_env")
        self.env = wrapped(make(**config["kwargs"]), config["wrappers"])
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
            agent.write_mask = mask_writer(agent.masks[0]) if self.has_mask else None

        def reset():
            header[CALL_AT] = RESET
            self.steps = 0
            observations, infos = begin_episode(env.reset, memory.seeds[0])
            for agent in agents:
                agent.has_ended, agent.rewards[0], agent.ends[0] = False, 0.0, GOES_ON
                self.show(agent, observations, infos)

        def step():
            header[CALL_AT] = STEP
            self.steps += 1
            acting = {agent.key: agent.read() for agent in agents if agent.asked[0]}
            observations, rewards, terminations, truncations, infos = env.step(acting)
            for agent in agents:
                agent.rewards[0], agent.ends[0] = rewards.get(agent.key, 0.0), GOES_ON
                if agent.has_ended:
                    continue
                if terminations.get(agent.key):
                    agent.ends[0] = TERMINATED
                elif truncations.get(agent.key):
                    agent.ends[0] = TRUNCATED
                self.show(agent, observations, infos)
                if self.steps == limit and not agent.ends[0]:
                    agent.ends[0], agent.asked[0] = TRUNCATED, False
                agent.has_ended = bool(agent.ends[0])

        return {b"r": reset, b"s": step}

    def show(self, agent, observations, infos):
        """Asks the agent if it is to act next, and shows it what there is to see."""
        key, goes_on = agent.key, agent.ends[0] == GOES_ON
        agent.asked[0] = acts = goes_on and key in self.env.agents
        if key not in observations:
            is_cut_off = agent.ends[0] == TRUNCATED or goes_on and self.steps == self.max_episode_steps
            if acts or is_cut_off:
                seers = ", ".join(map(str, observations)) or "none"
                raise Refusal(
                    f"agent {key} goes on, or would have gone on, without an observation (with one: {seers}): who acts "
                    "next and who is truncated needs an observation"
                )
            return
        seen = observations[key]
        with naming(key):
            agent.write(seen["observation"] if agent.holds_mask else seen)
            if acts and self.has_mask:
                agent.write_mask(seen if agent.holds_mask else infos.get(key, {}))


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
