use pronk_buffer::{End, ObsView};
use pronk_metrics::catch;
use pronk_policy::derive_seed;

use crate::env::{
    AgentSpec, Agents, CallMonitor, EnvContext, EnvError, EnvFailure, EnvFailureCause, EpisodeStat, FailurePlace,
    Inside, MultiAgentEnv, MultiAgentSpec, VectorContext, first_non_finite, mask,
};

/// Makes one environment.
pub(crate) type MakeOne<'a> = &'a dyn Fn(&EnvContext, &CallMonitor) -> Result<Box<dyn MultiAgentEnv>, EnvError>;

/// The environments of one worker, each of which is stepped by itself.
///
/// Errors, panics, values that are not finite and broken rules come back as [`EnvFailure`].
pub(crate) struct MultiAgentEnvs {
    context: VectorContext,
    spec: MultiAgentSpec,
    slots: Vec<Slot>,
    monitor: CallMonitor,
}

/// One environment, the episode it is in, and its agents.
pub(crate) struct Slot {
    env: Box<dyn MultiAgentEnv>,
    agents: Agents,
    /// What the episode seeds are derived from.
    seed: u64,
    n_episodes: u64,
    episode: Episode,
}

#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    seed: u64,
    len: u32,
    /// The sum of all rewards of all agents.
    sum: f64,
}

impl MultiAgentEnvs {
    /// Makes `n_envs` environments, one after the other.
    ///
    /// # Errors
    /// The environment that could not be made: its maker failed or panicked, its spec is not that of the first one, or the
    /// spec cannot work.
    pub(crate) fn make(
        make: MakeOne<'_>,
        context: VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Self, EnvFailure> {
        let _inside = monitor.enter(context.incarnation);
        let mut slots = Vec::with_capacity(n_envs);
        let mut shared: Option<MultiAgentSpec> = None;
        for index in 0..n_envs as u32 {
            let env_context = context.env(index);
            monitor.at(index, FailurePlace::Make);
            let (env, spec) = make_one(make, &env_context, monitor, shared.as_ref()).map_err(|cause| {
                let env = shared.as_ref().map(|spec| spec.name.clone()).unwrap_or_default();
                EnvFailure { env, index, ..context.failure_to_make(cause) }
            })?;
            slots.push(Slot::new(env, &spec, env_context.seed));
            shared.get_or_insert(spec);
        }
        match shared {
            Some(spec) => Ok(Self { context, spec, slots, monitor: monitor.clone() }),
            None => {
                let error = EnvError::new("a worker needs at least one environment, got 0");
                Err(context.failure_to_make(EnvFailureCause::Error(error)))
            }
        }
    }

    pub(crate) fn spec(&self) -> &MultiAgentSpec {
        &self.spec
    }

    /// How many environments there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn agents(&self, env: usize) -> &Agents {
        &self.slots[env].agents
    }

    pub(crate) fn agents_mut(&mut self, env: usize) -> &mut Agents {
        &mut self.slots[env].agents
    }

    /// The seed of the episode that the environment is in.
    pub(crate) fn episode_seed(&self, env: usize) -> u64 {
        self.slots[env].episode.seed
    }

    /// The seed of the first episode that the environment will be in.
    pub(crate) fn first_episode_seed(&self, env: usize) -> u64 {
        derive_seed(self.slots[env].seed, &[0])
    }

    /// Begins the next episode of an environment.
    pub(crate) fn reset(&mut self, env: usize) -> Result<(), EnvFailure> {
        let slot = &mut self.slots[env];
        let seed = derive_seed(slot.seed, &[slot.n_episodes]);
        slot.n_episodes += 1;
        let place = FailurePlace::Reset { episode_seed: seed };
        let inside = enter(&self.monitor, &self.context, env, place);
        let result = slot.reset(seed);
        drop(inside);
        result.map_err(|cause| self.failure(env, place, cause))
    }

    /// Takes one step of an environment. The episode, if it is over with it.
    pub(crate) fn step(&mut self, env: usize) -> Result<Option<EpisodeStat>, EnvFailure> {
        let slot = &mut self.slots[env];
        let Episode { seed: episode_seed, len, .. } = slot.episode;
        let inside = enter(&self.monitor, &self.context, env, FailurePlace::Step { episode_seed, step: len + 1 });
        let over = slot.step(self.spec.max_episode_steps);
        drop(inside);
        let Episode { seed, len, sum } = slot.episode;
        match over {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Some(EpisodeStat {
                worker: self.context.worker,
                index: env as u32,
                seed,
                episode_return: sum,
                episode_len: len,
            })),
            Err(cause) => Err(self.failure(env, FailurePlace::Step { episode_seed: seed, step: len }, cause)),
        }
    }

    /// Says what is possible for an agent: writes every element of `mask`, `[dist_len]`.
    pub(crate) fn mask(&self, env: usize, agent: usize, mask: &mut [bool]) -> Result<(), EnvFailure> {
        let slot = &self.slots[env];
        let place = FailurePlace::Mask { episode_seed: slot.episode.seed, step: slot.episode.len };
        let _inside = enter(&self.monitor, &self.context, env, place);
        slot.mask(agent, &self.spec, mask).map_err(|cause| self.failure(env, place, cause))
    }

    #[cold]
    fn failure(&self, env: usize, place: FailurePlace, cause: EnvFailureCause) -> EnvFailure {
        EnvFailure { env: self.spec.name.clone(), index: env as u32, place, ..self.context.failure_to_make(cause) }
    }
}

/// Says which environment is called and what for; the call ends when the returned value is dropped.
fn enter<'a>(monitor: &'a CallMonitor, context: &VectorContext, env: usize, place: FailurePlace) -> Inside<'a> {
    monitor.at(env as u32, place);
    monitor.enter(context.incarnation)
}

impl Slot {
    pub(crate) fn new(env: Box<dyn MultiAgentEnv>, spec: &MultiAgentSpec, seed: u64) -> Self {
        Self { env, agents: Agents::new(spec), seed, n_episodes: 0, episode: Episode::default() }
    }

    pub(crate) fn env(&self) -> &dyn MultiAgentEnv {
        self.env.as_ref()
    }

    pub(crate) fn agents(&self) -> &Agents {
        &self.agents
    }

    pub(crate) fn agents_mut(&mut self) -> &mut Agents {
        &mut self.agents
    }

    /// Begins the episode of a seed.
    pub(crate) fn reset(&mut self, seed: u64) -> Result<(), EnvFailureCause> {
        self.episode = Episode { seed, len: 0, sum: 0.0 };
        self.agents.begin_episode();
        call(|| self.env.reset(seed, &mut self.agents))?;
        check_finite(&self.agents)?;
        self.check_going_on()
    }

    /// Those who were asked act. Whether the episode is over.
    pub(crate) fn step(&mut self, max_episode_steps: Option<u32>) -> Result<bool, EnvFailureCause> {
        self.episode.len += 1;
        self.agents.begin_step();
        call(|| self.env.step(&mut self.agents))?;
        check_finite(&self.agents)?;
        if max_episode_steps.is_some_and(|limit| self.episode.len >= limit) {
            self.agents.cut_off();
        }
        check_cut_off(&self.agents)?;

        let agents = 0..self.agents.len();
        self.episode.sum += agents.clone().map(|agent| f64::from(self.agents.reward_of(agent))).sum::<f64>();
        if agents.clone().all(|agent| self.agents.has_ended(agent)) {
            return Ok(true);
        }
        self.check_going_on()?;
        Ok(false)
    }

    /// Says what is possible for an agent that was asked.
    pub(crate) fn mask(&self, agent: usize, spec: &MultiAgentSpec, mask: &mut [bool]) -> Result<(), EnvFailureCause> {
        mask.fill(true);
        let AgentSpec { action, action_mask, .. } = &spec.agents[agent];
        if !action_mask {
            return Ok(());
        }
        let asked = call(|| self.env.action_mask(agent, mask));
        asked
            .and_then(|()| match mask::first_fully_masked(mask, action) {
                None => Ok(()),
                Some(choice) => Err(EnvFailureCause::NothingPossible { choice }),
            })
            .map_err(|cause| of_agent(&self.agents, agent, cause))
    }

    /// An episode in which nobody acts would never go on.
    fn check_going_on(&self) -> Result<(), EnvFailureCause> {
        if (0..self.agents.len()).any(|agent| self.agents.is_asked(agent)) {
            return Ok(());
        }
        let waiting: Vec<_> = (0..self.agents.len())
            .filter(|agent| !self.agents.has_ended(*agent))
            .map(|agent| format!("`{}`", self.agents.name(agent)))
            .collect();
        let text = format!(
            "nobody is asked to act, and {} did not end, so the episode would never go on: ask somebody in every step, or \
             end it for all",
            waiting.join(", ")
        );
        Err(EnvFailureCause::Error(EnvError::new(text)))
    }
}

fn call(ask: impl FnOnce() -> Result<(), EnvError>) -> Result<(), EnvFailureCause> {
    catch(ask).map_err(EnvFailureCause::Panic)?.map_err(EnvFailureCause::Error)
}

#[cold]
fn of_agent(agents: &Agents, agent: usize, cause: EnvFailureCause) -> EnvFailureCause {
    EnvFailureCause::OfAgent { agent: agents.name(agent).to_owned(), cause: Box::new(cause) }
}

/// What the last call showed and paid.
fn check_finite(agents: &Agents) -> Result<(), EnvFailureCause> {
    for agent in 0..agents.len() {
        if agents.was_shown(agent)
            && let ObsView::F32(row) = agents.obs(agent)
            && let Some((element, value)) = first_non_finite(row)
        {
            return Err(of_agent(agents, agent, EnvFailureCause::NonFiniteObservation { element, value }));
        }
        let value = agents.reward_of(agent);
        if !value.is_finite() {
            return Err(of_agent(agents, agent, EnvFailureCause::NonFiniteReward { value }));
        }
    }
    Ok(())
}

/// Truncated agents need a final observation.
fn check_cut_off(agents: &Agents) -> Result<(), EnvFailureCause> {
    let blind =
        |agent: &usize| agents.end_of(*agent) == End::Truncated && agents.has_acted(*agent) && agents.is_stale(*agent);
    match (0..agents.len()).find(blind) {
        None => Ok(()),
        Some(agent) => {
            let text = "it is cut off, but was shown nothing since it last acted, so that nobody can say what would have \
                        followed: in environments with a time limit, call `show` for those who wait";
            Err(of_agent(agents, agent, EnvFailureCause::Error(EnvError::new(text))))
        }
    }
}

/// Makes one environment and holds its spec against that of the ones before.
fn make_one(
    make: MakeOne<'_>,
    context: &EnvContext,
    monitor: &CallMonitor,
    shared: Option<&MultiAgentSpec>,
) -> Result<(Box<dyn MultiAgentEnv>, MultiAgentSpec), EnvFailureCause> {
    let made = catch(|| {
        let env = make(context, monitor)?;
        let spec = env.spec();
        Ok((env, spec))
    });
    let (env, spec) = made.map_err(EnvFailureCause::Panic)?.map_err(EnvFailureCause::Error)?;
    spec.check().map_err(EnvFailureCause::Error)?;
    match shared {
        Some(shared) if *shared != spec => {
            let text =
                format!("the environments of one worker must have one spec: the first is {shared}, this one {spec}");
            Err(EnvFailureCause::Error(EnvError::new(text)))
        }
        _ => Ok((env, spec)),
    }
}
