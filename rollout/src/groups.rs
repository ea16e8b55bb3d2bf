//! Environments in groups that take their steps elsewhere: on threads, or as tasks that wait for a network.

mod tasks;
mod threaded;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::{ActionColumn, Closed, End, FinalObs, InqueueReceiver, ObsColumn, PopError};
use pronk_metrics::thread_states;

use crate::env::{EnvSpec, ObsMut, act_kind, obs_kind};
use crate::factory::{EnvFactory, VectorContext};
use crate::failure::EnvFailure;
use crate::gathering_worker::GatheringWorkerConfig;
use crate::vector::EpisodeStat;
use crate::watch::time_between_looks;
use crate::worker::{BuildError, WorkerConfig, WorkerLinks};

pub(crate) use tasks::{Seat, TaskGroups, play};
use threaded::ThreadedVectorEnv;

/// How long the threads are waited for when they are to end.
const CLOSE_WITHIN: Duration = Duration::from_millis(200);

/// What came first while groups were waited for.
enum Waited<T> {
    Answer(T),
    /// Time to look whether some hang.
    Look,
    TimedOut,
}

/// When groups are looked at next, whether they hang. They are looked at while others answer, too.
struct Looks {
    /// `None` where they may hang for ever.
    every: Option<Duration>,
    last: Instant,
}

impl Looks {
    /// For groups that hang after so long.
    fn new(env_hang_timeout: Option<Duration>) -> Self {
        Self { every: env_hang_timeout.map(time_between_looks), last: Instant::now() }
    }

    /// Waits for an answer, until it is time for a look or `deadline` is over.
    fn wait<T>(&mut self, answers: &InqueueReceiver<T>, deadline: Option<Instant>) -> Result<Waited<T>, Closed> {
        loop {
            let now = Instant::now();
            if self.are_due(now) {
                return Ok(Waited::Look);
            }
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
            let until_look = self.left(now);
            match answers.pop(left.min(until_look)) {
                Ok(answer) => return Ok(Waited::Answer(answer)),
                Err(PopError::Closed) => return Err(Closed(())),
                Err(PopError::TimedOut) if left <= until_look => return Ok(Waited::TimedOut),
                Err(PopError::TimedOut) => {}
            }
        }
    }

    /// How long until the next look.
    fn left(&self, now: Instant) -> Duration {
        self.every.map_or(Duration::MAX, |every| every.saturating_sub(now - self.last))
    }

    /// Whether it is time for a look, which is then the last one.
    fn are_due(&mut self, now: Instant) -> bool {
        let due = self.left(now).is_zero();
        if due {
            self.last = now;
        }
        due
    }
}

thread_states! {
    /// What a thread does that steps environments for a worker, or the tasks of its environments.
    pub enum EnvThreadState {
        /// Waiting for orders, or with tasks for what they wait for.
        Waiting = "waiting",
        /// Making environments and stepping them.
        Stepping = "stepping",
    }
}

/// What the groups of one worker are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupsConfig {
    /// Of all the worker's environments.
    pub(crate) context: VectorContext,
    pub(crate) n_groups: usize,
    /// 1, where they are tasks.
    pub(crate) group_size: usize,
    /// How long a call of an environment may take before it is cancelled, or its thread left behind.
    pub(crate) env_hang_timeout: Option<Duration>,
}

/// Starts a thread for each group of a worker's environments, or one for all of them where they are tasks.
///
/// # Errors
/// The environment that could not be made, or a number of groups that cannot be.
pub(crate) fn start(
    config: &GatheringWorkerConfig,
    factory: Arc<dyn EnvFactory>,
    links: &WorkerLinks,
) -> Result<Box<dyn EnvGroups>, BuildError> {
    let GatheringWorkerConfig { worker: of_worker, num_env_groups, env_hang_timeout, .. } = *config;
    let WorkerConfig { worker, incarnation, seed, .. } = of_worker;
    let (n_envs, n_groups) = (of_worker.num_envs_per_worker.get(), num_env_groups.get());
    if !n_envs.is_multiple_of(n_groups) {
        return Err(BuildError::UnequalGroups { num_envs_per_worker: n_envs, num_env_groups: n_groups });
    }
    let config = GroupsConfig {
        context: VectorContext { worker, incarnation, first_env: 0, seed },
        n_groups,
        group_size: n_envs / n_groups,
        env_hang_timeout,
    };
    match factory.tasks() {
        None => Ok(Box::new(ThreadedVectorEnv::new(config, factory, links)?)),
        Some(_) if n_groups > 1 => Err(BuildError::GroupsOfTasks { num_env_groups: n_groups }),
        Some(tasks) => {
            let config = GroupsConfig { n_groups: n_envs, group_size: 1, ..config };
            Ok(Box::new(TaskGroups::new(config, tasks, links)?))
        }
    }
}

/// The environments of one worker in groups of one size, each of which takes its steps by itself.
///
/// A group is sent orders and answers each of them once, in any order among the groups. One that fails says so in its answer,
/// and makes its environments anew when it is next told to reset them.
pub(crate) trait EnvGroups: Send {
    /// The spec that all the environments share.
    fn spec(&self) -> &EnvSpec;

    /// How many groups there are.
    fn n_groups(&self) -> usize;

    /// How many environments there are in each.
    fn group_size(&self) -> usize;

    /// Has a group step, or reset, its environments. It does not wait.
    fn send(&mut self, group: usize, order: Box<GroupStep>);

    /// The next answer; `None` if there was none within `timeout`. A group that has been silent for too long answers with that
    /// failure.
    ///
    /// # Errors
    /// The run is ending.
    fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Closed>;

    /// Ends all groups, and waits for them a short while. The names of the threads that have not ended.
    fn close(&mut self) -> Vec<String>;
}

/// A group's answer.
pub(crate) struct Answer {
    pub(crate) group: usize,
    pub(crate) step: Box<GroupStep>,
    /// How long it took.
    pub(crate) took: Duration,
    /// What went wrong, if something did: nothing in `step` counts then.
    pub(crate) outcome: Result<(), GroupFailure>,
}

/// What went wrong in a group.
pub(crate) struct GroupFailure {
    pub(crate) failure: EnvFailure,
    /// The thread that was left behind for it.
    pub(crate) left_behind: Option<String>,
}

/// One step of a group's environments: what it is told to do and what came of it. It moves to the group and back.
pub(crate) struct GroupStep {
    pub(crate) order: Order,
    /// Whether the step is the last of a fragment, after which a group does what is done once a fragment.
    pub(crate) ends_fragment: bool,
    /// `[size, act_len]`, as the environments take them.
    pub(crate) actions: ActionColumn,
    /// `[size, obs_len]`: what follows.
    pub(crate) obs: ObsColumn,
    /// `[size, obs_len]`: the same on the scale of the fragment that the step ends, where the next one has another; else empty.
    pub(crate) closing_obs: Vec<f32>,
    /// `[size]`.
    pub(crate) rewards: Vec<f32>,
    /// `[size]`.
    pub(crate) ends: Vec<End>,
    /// In row 0: one for every truncated end.
    pub(crate) final_obs: FinalObs,
    /// `[size, dist_len]`: what is possible next; empty if everything always is.
    pub(crate) masks: Vec<bool>,
    /// Episodes that ended.
    pub(crate) episodes: Vec<EpisodeStat>,
}

/// What a group is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Begin an episode in every environment; make them anew first, if they failed.
    Reset,
    /// Take a step in every environment.
    Step,
}

impl GroupStep {
    /// For `size` environments of that spec, beginning with a reset.
    pub(crate) fn new(spec: &EnvSpec, size: usize) -> Self {
        let (obs_kind, obs_len) = (obs_kind(&spec.observation), spec.observation.obs_len());
        Self {
            order: Order::Reset,
            ends_fragment: false,
            actions: ActionColumn::zeros(act_kind(&spec.action), size * spec.action.act_len()),
            obs: ObsColumn::zeros(obs_kind, size * obs_len),
            closing_obs: Vec::new(),
            rewards: vec![0.0; size],
            ends: vec![End::No; size],
            final_obs: FinalObs::new(obs_kind, obs_len),
            masks: if spec.action_mask { vec![true; size * spec.action.dist_len()] } else { Vec::new() },
            episodes: Vec::new(),
        }
    }

    /// Has the next fragment begin: what follows the step is written anew on its scale.
    pub(crate) fn begin_fragment<E>(&mut self, rewrite: impl FnOnce(ObsMut<'_>) -> Result<(), E>) -> Result<(), E> {
        if let ObsColumn::F32(obs) = &self.obs {
            self.closing_obs.extend_from_slice(obs);
        }
        rewrite(self.obs.view_mut().into())?;
        // Rows that stay as they were need no inference of their own.
        if self.obs.view().as_f32() == Some(&self.closing_obs) {
            self.closing_obs.clear();
        }
        Ok(())
    }

    /// Forgets what the order before left here for its answer.
    pub(crate) fn clear(&mut self) {
        self.final_obs.clear();
        self.closing_obs.clear();
    }
}

#[cfg(test)]
mod tests;
