//! A worker whose environments step elsewhere, in groups.

mod config;
mod position;
mod start;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pronk_buffer::{BatchShape, End, MultiAgentBatch, ObsView, Versioned};
use pronk_metrics::{ByPolicy, NormalizerMoments, StateClock, Steps, default_policy};
use pronk_policy::Params;

use super::account::Account;
use super::any_env_spec::AnyEnvSpec;
use super::config::{WorkerConfig, WorkerLinks, WorkerState};
use super::error::{BuildError, SampleError};
use super::normalization::Normalization;
use super::restart::RestartPolicy;
use super::rollout_worker::{BetweenSteps, MakeFragments, RolloutWorker};
use super::seat_state::SavedMaker;
use crate::act::{Inference, PolicyActor, PolicyFault, WorkerPolicy};
use crate::env::{EnvSpec, Restarted};
use crate::pool::{AdaptiveGather, Answer, EnvFactory, EnvPool, Gather, GroupFailure, GroupStep, Order};
use crate::sync::Instant;

use waiting::Waiting;

pub use config::GatheringWorkerConfig;

/// Infers for groups of environments as they answer.
struct Gathering {
    /// The seed of the run.
    seed: u64,
    /// Whether actions are drawn from the random stream of the next fragment.
    is_ahead: bool,
    restart: RestartPolicy,
    /// Whether all groups wait for those that are restarting.
    waits_for_restarts: bool,
    gather: Gather,
    /// `Some` for [`Gather::Adaptive`].
    adaptive: Option<AdaptiveGather>,
    spec: EnvSpec,
    /// The shape of a fragment.
    shape: BatchShape,
    actor: PolicyActor,
    groups: Box<dyn EnvPool>,
    states: Vec<GroupState>,
    /// Groups to reset, and when: all of them at first, later those that failed.
    pausing: Vec<(Instant, usize)>,
    /// Groups that have answered and wait for actions, in ascending order.
    ready: Vec<usize>,
    /// Groups that are stepping.
    n_running: usize,
    /// For [`Gather::InTurn`]: groups in the order in which they were sent off.
    turns: VecDeque<usize>,
    /// Answers that arrived before their turn, or while a checkpoint waited for all.
    early: BTreeMap<usize, Answer>,
    /// `[B, state_len]`: recurrent state.
    state: Vec<f32>,
    /// Those of the fragment in progress, with the version that they came with.
    moments: (Arc<NormalizerMoments>, u64),
    /// Of the groups whose columns are full, as the columns were filled.
    gathered: VecDeque<NormalizerMoments>,
    /// When the last round ended, shifted by the time between fragments.
    round_began: Instant,
    /// When the last fragment was full.
    left_off: Instant,
    is_closed: bool,
}

/// The worker's view of one group.
#[derive(Default)]
struct GroupState {
    /// Its last answer; `None` while it steps.
    step: Option<Box<GroupStep>>,
    failures_in_a_row: u32,
    /// `None` if nothing is normalised.
    normalization: Option<Normalization>,
    /// The moments of columns that its last step has filled.
    filled: Option<NormalizerMoments>,
}

impl GroupState {
    /// Its last answer and its normalisation, if the next step begins a column, which needs the scale of
    /// `moments` instead of the present one.
    fn begins_on_another_scale(
        &mut self,
        moments: &Arc<NormalizerMoments>,
    ) -> Option<(&mut GroupStep, &mut Normalization)> {
        let (step, normalization) = (self.step.as_mut()?, self.normalization.as_mut()?);
        let begins = step.ends_column || step.order == Order::Reset;
        (begins && !normalization.is_scaled_by(moments)).then_some((step, normalization))
    }
}

impl RolloutWorker {
    /// A worker whose environments step in groups elsewhere, on threads or as tasks: it infers for all groups
    /// that have answered.
    ///
    /// A column is `T` consecutive steps of one environment, whatever the others did meanwhile, so that a
    /// slow environment holds up no other; a fragment holds the `B` columns that have been full for longest.
    /// Weights change between fragments; every step records its version. A group that fails costs the columns
    /// it was filling, and is rebuilt after a pause while the others continue. With [`Gather::All`] and
    /// [`Gather::InTurn`] fragments do not depend on timing.
    ///
    /// # Errors
    /// The environment that could not be built, how environments and network disagree, or a number of groups
    /// that does not divide the environments.
    pub fn gathering(
        config: GatheringWorkerConfig,
        factory: Arc<dyn EnvFactory>,
        inference: impl Into<Inference>,
        links: WorkerLinks,
    ) -> Result<Self, BuildError> {
        let groups = start::start_groups(&config, factory, &links)?;
        Self::over_pool(groups, &config, inference.into(), links)
    }

    /// A worker over any pool.
    pub(super) fn over_pool(
        groups: Box<dyn EnvPool>,
        config: &GatheringWorkerConfig,
        inference: Inference,
        links: WorkerLinks,
    ) -> Result<Self, BuildError> {
        let GatheringWorkerConfig { worker: config, gather, restart, waits_for_restarts, .. } = *config;
        let spec = groups.spec().clone();
        config.check_normalized(&spec)?;
        let (n_groups, n_envs) = (groups.n_groups(), groups.n_groups() * groups.group_size());
        let policy = WorkerPolicy {
            inference,
            observation: spec.observation.clone(),
            action: spec.action.clone(),
            gaussian: config.gaussian,
            frozen: None,
        };
        let WorkerConfig { worker, incarnation, seed, .. } = config;
        let account = Account::new(worker, incarnation, links);
        let rng = account.acting_stream(seed, 0);
        let length = config.rollout_fragment_length.get();
        let actor = PolicyActor::new(default_policy(), policy, spec.action_mask, (length, n_envs), rng)?;
        let shape = actor.acting().batch_shape(length, n_envs);
        let adaptive = (gather == Gather::Adaptive).then(|| AdaptiveGather::new(n_groups, groups.group_size()));
        let size = groups.group_size();
        let state = || GroupState {
            step: Some(Box::new(GroupStep::new(&spec, size))),
            normalization: Normalization::new(config.normalize, size, &spec),
            ..GroupState::default()
        };
        let maker = Gathering {
            seed,
            is_ahead: false,
            restart,
            waits_for_restarts,
            gather,
            adaptive,
            shape,
            state: vec![0.0; n_envs * shape.state_len],
            actor,
            states: (0..n_groups).map(|_| state()).collect(),
            // All groups begin with a reset.
            pausing: (0..n_groups).map(|group| (Instant::now(), group)).collect(),
            spec,
            groups,
            ready: Vec::new(),
            n_running: 0,
            turns: VecDeque::new(),
            early: BTreeMap::new(),
            moments: (Arc::default(), 0),
            gathered: VecDeque::new(),
            round_began: Instant::now(),
            left_off: Instant::now(),
            is_closed: false,
        };
        Ok(Self::over(maker, account))
    }
}

impl MakeFragments for Gathering {
    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::Single(self.spec.clone())
    }

    /// Blocks until `B` columns are full, or the run ends. The failure of a group goes to the account, and is
    /// an error only if all have failed.
    fn fill(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
        between: &mut BetweenSteps<'_>,
    ) -> Result<MultiAgentBatch, SampleError> {
        // The time between fragments must not count as a round: some rounds have it and others do not.
        self.round_began += self.left_off.elapsed();
        if !std::mem::take(&mut self.is_ahead) {
            self.actor.draw_from(account.acting_stream(self.seed, 0));
        }
        self.moments = (Arc::clone(&weights.moments), weights.version);
        loop {
            if account.is_ending() {
                return Err(SampleError::Closed);
            }
            if !self.ready.is_empty() {
                clock.enter(WorkerState::Inferring);
                self.infer(weights)?;
                let left_off = Instant::now();
                if let Some(batch) = self.take_full(account, weights.version)? {
                    self.left_off = left_off;
                    return Ok(batch);
                }
                self.act(account)?;
            }
            between(clock);
            clock.enter(WorkerState::Stepping);
            let steps = self.gather(account)?;
            if let Some(adaptive) = &mut self.adaptive {
                let now = Instant::now();
                adaptive.round(steps, now - std::mem::replace(&mut self.round_began, now));
            }
        }
    }

    fn forget(&mut self) {
        if let Some(columns) = self.actor.columns() {
            columns.clear();
        }
        self.gathered.clear();
    }

    fn drop_envs(&mut self, _account: &Account) {
        self.close();
    }

    fn close(&mut self) -> Vec<String> {
        if std::mem::replace(&mut self.is_closed, true) { Vec::new() } else { self.groups.close() }
    }

    fn save(&mut self, account: &Account) -> Result<SavedMaker, String> {
        self.save_groups(account).map(|saved| SavedMaker::Gathering(Box::new(saved)))
    }

    fn load(&mut self, account: &mut Account, saved: &SavedMaker) -> Result<Vec<Restarted>, BuildError> {
        let SavedMaker::Gathering(saved) = saved else { return Err(BuildError::other_maker(saved)) };
        self.load_groups(account, saved)
    }
}

impl Gathering {
    /// Infers for every environment that is ready, and completes the steps before.
    fn infer(&mut self, weights: &Versioned<ByPolicy<Params>>) -> Result<(), SampleError> {
        self.rescale(weights)?;
        let BatchShape { obs_len, state_len, .. } = self.shape;
        let size = self.groups.group_size();
        self.actor.clear_rows();
        for &group in &self.ready {
            let Some(step) = &self.states[group].step else { continue };
            for (lane, env) in (group * size..(group + 1) * size).enumerate() {
                let state = &self.state[env * state_len..(env + 1) * state_len];
                self.actor.add_row(env, step.obs.view().row(lane, obs_len), state)?;
                if let Some(mask) = self.actor.add_mask() {
                    let len = mask.len();
                    mask.copy_from_slice(&step.masks[lane * len..(lane + 1) * len]);
                }
            }
        }
        self.actor.infer(weights, 1)?;
        self.actor.complete()?;
        Ok(())
    }

    /// Brings the observations of groups that begin a column to the scale of this fragment. The columns that
    /// end with them are completed first: the value to bootstrap from must be that of their own scale.
    fn rescale(&mut self, weights: &Versioned<ByPolicy<Params>>) -> Result<(), SampleError> {
        let BatchShape { obs_len, state_len, .. } = self.shape;
        let size = self.groups.group_size();
        let moments = &weights.moments;
        self.actor.clear_rows();
        for &group in &self.ready {
            let Some((step, normalization)) = self.states[group].begins_on_another_scale(moments) else { continue };
            for (lane, env) in (group * size..(group + 1) * size).enumerate() {
                let is_incomplete = self.actor.columns().is_some_and(|columns| columns.lacks_the_last_row(env));
                if is_incomplete && normalization.changes_observations() {
                    let state = &self.state[env * state_len..(env + 1) * state_len];
                    self.actor.add_row(env, step.obs.view().row(lane, obs_len), state)?;
                }
            }
        }
        self.actor.infer(weights, 1)?;
        self.actor.complete()?;
        for &group in &self.ready {
            let Some((step, normalization)) = self.states[group].begins_on_another_scale(moments) else { continue };
            normalization.scale_by(moments);
            let rescaled = normalization.rescale(step.obs.view_mut());
            rescaled.map_err(|source| PolicyFault::Moments { version: weights.version, source })?;
        }
        Ok(())
    }

    /// A fragment, if enough columns are full.
    fn take_full(&mut self, account: &Account, version: u64) -> Result<Option<MultiAgentBatch>, SampleError> {
        let width = self.shape.columns;
        if self.actor.columns().is_none_or(|columns| columns.n_full() < width) {
            return Ok(None);
        }
        let batch = self.actor.take_batch(width, &account.links.pool, account.tag(version))?;
        // One entry for the columns of each group, in their order.
        let n_groups = self.groups.n_groups().min(self.gathered.len());
        let moments = self.gathered.drain(..n_groups).reduce(|mut merged, moments| {
            merged.merge(&moments);
            merged
        });
        let batch = batch.map(MultiAgentBatch::single);
        Ok(match moments {
            Some(moments) => batch.map(|batch| batch.with_moments(moments)),
            None => batch,
        })
    }

    /// Chooses actions for all groups that are ready, and sends them off.
    fn act(&mut self, account: &Account) -> Result<(), SampleError> {
        // With groups in turn, the first ones begin the next fragment while the others end this one.
        let begins_next = self.actor.columns().is_some_and(|columns| columns.n_full() > 0);
        if begins_next && !std::mem::replace(&mut self.is_ahead, true) {
            self.actor.draw_from(account.acting_stream_of(account.slot() + 1, self.seed, 0));
        }
        let Self { actor, states, groups, state, shape, .. } = self;
        let (size, act_len, state_len) = (groups.group_size(), shape.act_len, shape.state_len);
        actor.choose()?;
        actor.actions(|env, action| match &mut states[env / size].step {
            Some(step) => step.actions.view_mut().into_row(env % size, act_len).copy_from(action.view()),
            None => Ok(()),
        })?;
        actor.states(|env, own| state[env * state_len..(env + 1) * state_len].copy_from_slice(own));
        for group in std::mem::take(&mut self.ready) {
            self.send(group, Order::Step);
        }
        Ok(())
    }

    fn send(&mut self, group: usize, order: Order) {
        let first_env = group * self.groups.group_size();
        // The environments of a group fill their columns in step.
        let ends_column = self.actor.columns().is_some_and(|columns| columns.begun(first_env) == columns.steps());
        if let Some(mut step) = self.states[group].step.take() {
            step.order = order;
            step.ends_column = ends_column;
            self.groups.send(group, step);
            self.n_running += 1;
            if self.gather == Gather::InTurn {
                self.turns.push_back(group);
            }
        }
    }

    /// Waits for groups by the rule, and returns how many steps they took.
    fn gather(&mut self, account: &mut Account) -> Result<usize, SampleError> {
        self.begin_anew(account)?;
        let rule = self.adaptive.as_ref().map_or(self.gather, AdaptiveGather::rule);
        let mut waiting = Waiting {
            groups: self.groups.as_mut(),
            turn: self.turns.pop_front(),
            early: &mut self.early,
            began: Instant::now(),
        };
        let mut answers = rule.collect(self.n_running, &mut waiting).map_err(|_closed| SampleError::Closed)?;
        // By group: what is collected from them must not depend on which was faster.
        answers.sort_by_key(|answer| answer.group);
        let is_step = |answer: &&Answer| answer.outcome.is_ok() && answer.step.order == Order::Step;
        let steps = answers.iter().filter(is_step).count() * self.groups.group_size();
        for answer in answers {
            self.take_in(account, answer)?;
        }
        self.ready.sort_unstable();
        for &group in &self.ready {
            self.gathered.extend(self.states[group].filled.take());
        }
        Ok(steps)
    }

    /// Resets groups whose pause is over; waits for the first pause to end if no group is stepping.
    fn begin_anew(&mut self, account: &mut Account) -> Result<(), SampleError> {
        let dues = self.pausing.iter().map(|(due, _)| *due);
        let Some(first) = (if self.waits_for_restarts { dues.max() } else { dues.min() }) else { return Ok(()) };
        if self.n_running == 0 && self.ready.is_empty() {
            if account.take_new_failures() {
                return Err(SampleError::AllFailed);
            }
            self.pause_until(first, account)?;
        } else if self.waits_for_restarts {
            self.pause_until(first, account)?;
        }
        let now = Instant::now();
        let mut due: Vec<usize> = self.pausing.extract_if(.., |(due, _)| *due <= now).map(|(_, group)| group).collect();
        due.sort_unstable();
        due.into_iter().for_each(|group| self.send(group, Order::Reset));
        Ok(())
    }

    fn pause_until(&self, due: Instant, account: &Account) -> Result<(), SampleError> {
        let pause = due.saturating_duration_since(Instant::now());
        account.links.token.sleep(pause).map_err(|_closed| SampleError::Closed)
    }

    fn take_in(&mut self, account: &mut Account, answer: Answer) -> Result<(), SampleError> {
        let Answer { group, mut step, outcome } = answer;
        self.n_running -= 1;
        let size = self.groups.group_size();
        let envs = group * size..(group + 1) * size;
        let state_len = self.shape.state_len;
        account.collected.episodes.append(&mut step.episodes);
        if let Err(failure) = outcome {
            self.states[group].step = Some(step);
            self.give_up_group(account, group, failure);
            return Ok(());
        }
        self.normalize(group, &mut step)?;
        if step.order == Order::Step {
            account.add(steps_of(size as u64));
            self.states[group].failures_in_a_row = 0;
            let Some(columns) = self.actor.columns() else { return Ok(()) };
            for (lane, env) in envs.enumerate() {
                columns.pay(env, step.rewards[lane]);
                let end = step.ends[lane];
                if end != End::No {
                    let cut_off_from = step.final_obs.get(0, lane);
                    columns.end(env, end, cut_off_from.unwrap_or(EMPTY))?;
                    self.state[env * state_len..(env + 1) * state_len].fill(0.0);
                }
            }
        } else {
            self.state[envs.start * state_len..envs.end * state_len].fill(0.0);
        }
        self.states[group].step = Some(step);
        self.ready.push(group);
        Ok(())
    }

    /// Normalises what a group answered.
    fn normalize(&mut self, group: usize, step: &mut GroupStep) -> Result<(), SampleError> {
        let (moments, version) = &self.moments;
        let GroupState { normalization: Some(normalization), filled, .. } = &mut self.states[group] else {
            return Ok(());
        };
        let normalized = if step.order == Order::Reset {
            normalization.scale_by(moments);
            normalization.begin(step.obs.view_mut())
        } else {
            normalization.reward(&mut step.rewards, &step.ends);
            let observed = normalization.observe(step.obs.view_mut());
            observed.and_then(|()| normalization.scale(step.final_obs.rows_mut()))
        };
        normalized.map_err(|source| PolicyFault::Moments { version: *version, source })?;
        if step.ends_column {
            *filled = Some(normalization.take());
        }
        Ok(())
    }

    /// Books the columns that a failed group was filling as lost, and pauses it.
    fn give_up_group(&mut self, account: &mut Account, group: usize, failure: GroupFailure) {
        let GroupFailure { mut failure, abandoned } = failure;
        let size = self.groups.group_size();
        let Some(columns) = self.actor.columns() else { return };
        let index = failure.index as usize;
        if let Some(last_obs @ None) = failure.cause.last_obs_mut() {
            *last_obs = columns.last_obs(index);
        }
        let mut lost = failure.steps_made as u64;
        for env in group * size..(group + 1) * size {
            // The last step begun is the one that failed.
            lost += columns.begun(env).saturating_sub(1) as u64;
            columns.forget(env);
        }
        account.add(steps_of(failure.steps_made as u64));
        if lost > 0 {
            account.lose(steps_of(lost), failure.cause.key());
        }
        let state = &mut self.states[group];
        if let Some(normalization) = &mut state.normalization {
            normalization.discard();
        }
        state.failures_in_a_row = state.failures_in_a_row.saturating_add(1);
        self.pausing.push((Instant::now() + self.restart.backoff(state.failures_in_a_row), group));
        account.collected.abandoned.extend(abandoned.map(|thread| format!("{thread}: {failure}")));
        account.add_failure(failure);
    }
}

/// Steps of single-agent environments.
fn steps_of(n: u64) -> Steps {
    Steps { env: n, agent: n }
}

/// A terminated episode has no final observation.
const EMPTY: ObsView<'static> = ObsView::F32(&[]);

#[cfg(test)]
mod tests;
