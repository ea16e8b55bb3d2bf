//! One worker: weights in, fragments out.

use std::sync::Arc;

use pronk_buffer::{BatchShape, MultiAgentBatch, ObsColumn, SampleBatch, Tag, Versioned};
use pronk_metrics::{ByPolicy, StateClock, StepTicket, Steps, catch};
use pronk_policy::Params;

use super::actor::Actor;
use super::config::{SHUTDOWN, WorkerConfig, WorkerLinks, WorkerState};
use super::error::{BuildError, SampleError};
use super::sampler::{AnyEnvSpec, Sampler};
use crate::act::{Inference, copy_obs};
use crate::env::{EnvError, EnvFailure, EnvSpec, EpisodeStat, FailureCause, FailurePlace, VectorContext, Watch};
use crate::pool::EnvFactory;
use crate::vector::{VectorEnv, VectorStep};

/// Steps its environments with one version of the weights per fragment: those of the default policy.
///
/// What it makes depends on the seed, its own number and the versions of the weights it is handed, never on time.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
///
/// use pronk_buffer::{Pool, Versioned, lifeline};
/// use pronk_metrics::{ByPolicy, StateClock, StepLedger, default_policy};
/// use pronk_policy::{CpuNetwork, GaussianConfig, Network, NetworkSpec};
/// use pronk_rollout::{CartPole, Env, EnvContext, RolloutWorker, Sampler, WorkerConfig, WorkerLinks, WorkerState};
///
/// let spec = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let weights = ByPolicy::from([(default_policy(), network.init_params(1)?)]);
/// let weights = Versioned { version: 0, weights };
/// let (_lifeline, tether) = lifeline();
/// let steps = StepLedger::new();
///
/// let config = WorkerConfig {
///     worker: 1,
///     incarnation: 0,
///     seed: 1,
///     num_envs_per_worker: NonZeroUsize::new(2).expect("2 > 0"),
///     rollout_fragment_length: NonZeroUsize::new(5).expect("5 > 0"),
///     gaussian: GaussianConfig::default(),
/// };
/// let links = WorkerLinks::new(Pool::new(2), steps.clone(), tether);
/// let network = Box::new(CpuNetwork::new(&network)?);
/// let mut worker = RolloutWorker::new(config, Arc::new(|_: &EnvContext| CartPole::new()), network, links)?;
/// let mut clock = StateClock::new("rollout-1", WorkerState::Starting);
/// let fragment = worker.sample(&weights, &mut clock)?;
/// assert_eq!((fragment.env_steps(), steps.snapshot().in_flight.env), (10, 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RolloutWorker {
    config: WorkerConfig,
    links: WorkerLinks,
    factory: Arc<dyn EnvFactory>,
    spec: EnvSpec,
    shape: BatchShape,
    actor: Actor,
    /// `None` once they failed; the next fragment then begins with making new ones.
    envs: Option<Box<dyn VectorEnv>>,
    incarnation: u32,
    /// Number of the next fragment within the incarnation.
    sequence: u64,
    /// `[B, obs_len]`: what the last fragment ended with and the next one begins with.
    obs: ObsColumn,
    /// `[B, dist_len]`: what is possible in the present states; `None` if everything always is.
    masks: Option<Vec<bool>>,
    /// Whether `obs` holds that, or the environments must be reset first.
    under_way: bool,
    /// Env-steps of the fragment being made.
    steps_made: u64,
    episodes: Vec<EpisodeStat>,
}

impl RolloutWorker {
    /// Makes the environments of the worker and holds the network against their spaces.
    ///
    /// # Errors
    /// The environment that could not be made, or why environments and network do not fit each other.
    pub fn new(
        config: WorkerConfig,
        factory: Arc<dyn EnvFactory>,
        inference: impl Into<Inference>,
        links: WorkerLinks,
    ) -> Result<Self, BuildError> {
        let envs = make_envs(factory.as_ref(), &config, config.incarnation, &links.watch)?;
        let spec = envs.spec().clone();
        let actor = Actor::new(&config, &spec, inference.into())?;
        let shape = actor.batch_shape(config.rollout_fragment_length.get());
        shape.check()?;
        Ok(Self {
            config,
            links,
            factory,
            obs: ObsColumn::zeros(shape.obs_kind, shape.columns * shape.obs_len),
            masks: spec.masks_for(shape.columns),
            spec,
            shape,
            actor,
            envs: Some(envs),
            incarnation: config.incarnation,
            sequence: 0,
            under_way: false,
            steps_made: 0,
            episodes: Vec::new(),
        })
    }

    /// What the environments are.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// What the worker is to do.
    pub fn config(&self) -> &WorkerConfig {
        &self.config
    }

    fn fill(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<SampleBatch, SampleError> {
        let envs = match &mut self.envs {
            Some(envs) => envs,
            None => {
                clock.enter(WorkerState::Restarting);
                self.incarnation += 1;
                self.sequence = 0;
                self.actor.begin(&self.config, self.incarnation);
                let (factory, watch) = (self.factory.as_ref(), &self.links.watch);
                self.envs.insert(remake_envs(factory, &self.config, self.incarnation, watch, &self.spec)?)
            }
        };

        let tag = Tag { worker: self.config.worker, incarnation: self.incarnation, sequence: self.sequence };
        let mut batch = self.links.pool.take(self.shape, tag);
        // Whatever goes wrong from here on, the environments will have moved past the observation kept.
        if std::mem::take(&mut self.under_way) {
            copy_obs(self.obs.view(), batch.obs_row_mut(0));
            let _inside = self.links.watch.enter(self.incarnation);
            envs.begin_fragment(batch.obs_row_mut(0).into())?;
        } else {
            clock.enter(WorkerState::Stepping);
            let _inside = self.links.watch.enter(self.incarnation);
            envs.reset_all(batch.obs_row_mut(0).into())?;
            self.actor.forget();
        }
        batch.state_in_mut().copy_from_slice(self.actor.state());

        for t in 0..self.shape.steps {
            if self.links.tether.is_cut() || self.links.watch.is_taken_over() {
                return Err(SampleError::Closed);
            }
            if let Some(masks) = &mut self.masks {
                clock.enter(WorkerState::Stepping);
                let _inside = self.links.watch.enter(self.incarnation);
                envs.action_masks(masks)?;
            }
            clock.enter(WorkerState::Inferring);
            let mut step = batch.step_mut(t);
            let version = self.actor.infer(weights, step.obs)?;
            self.actor.choose(self.masks.as_deref(), step.actions.reborrow(), step.behaviour_logp)?;
            step.behaviour_inputs.copy_from_slice(self.actor.logits());
            step.behaviour_values.copy_from_slice(self.actor.values());
            step.versions.fill(version);

            clock.enter(WorkerState::Stepping);
            self.links.watch.see(step.obs, self.shape.columns);
            let inside = self.links.watch.enter(self.incarnation);
            let out = VectorStep {
                t,
                obs: step.next_obs.into(),
                rewards: step.rewards,
                ends: step.ends,
                final_obs: step.final_obs,
            };
            envs.step(self.actor.for_env(step.actions.as_view()), out)?;
            drop(inside);
            self.actor.remember(&batch.ends()[t * self.shape.columns..(t + 1) * self.shape.columns]);
            self.steps_made += self.shape.columns as u64;
            self.links.watch.made(Steps { env: self.steps_made, agent: self.steps_made });
        }

        clock.enter(WorkerState::Inferring);
        self.close(weights, &mut batch)?;
        Ok(batch)
    }

    /// Adds the values of the row after the last step, and keeps its observations for the next fragment.
    fn close(&mut self, weights: &Versioned<ByPolicy<Params>>, batch: &mut SampleBatch) -> Result<(), SampleError> {
        let last = self.shape.steps;
        self.actor.infer(weights, batch.obs_row(last))?;
        let values_from = last * self.shape.columns;
        batch.behaviour_values_mut()[values_from..].copy_from_slice(self.actor.values());
        batch.check_ends().map_err(SampleError::Batch)?;
        copy_obs(batch.obs_row(last), self.obs.view_mut());
        self.under_way = true;
        self.sequence += 1;
        Ok(())
    }

    /// Counts the steps of the fragment as sampled; `None` if somebody else has, because the worker was replaced.
    fn book(&mut self) -> Option<StepTicket> {
        let made = std::mem::take(&mut self.steps_made);
        self.links.watch.book(|| self.links.steps.sampled(Steps { env: made, agent: made }))
    }

    fn give_up_fragment(&mut self, error: &SampleError) {
        if self.steps_made == 0 {
            return;
        }
        match (self.book(), error.cause_key()) {
            (Some(ticket), Some(cause)) => ticket.lost(cause),
            (Some(ticket), None) => ticket.dropped(SHUTDOWN),
            (None, _) => {}
        }
    }
}

impl Sampler for RolloutWorker {
    fn worker(&self) -> u32 {
        self.config.worker
    }

    fn incarnation(&self) -> u32 {
        self.incarnation
    }

    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::Single(self.spec.clone())
    }

    /// Makes one fragment, with one version of the weights.
    ///
    /// It begins with the observation that the one before ended with. After a failure it begins with new environments,
    /// of the next incarnation: other episodes, so that a seed which leads to the failure is not tried again.
    ///
    /// Blocks: for `T` steps of the environments; when the run ends, for one.
    ///
    /// # Errors
    /// The steps of the unfinished fragment are then booked as lost under a short name of the cause, or as dropped under
    /// `"shutdown"` when the run ends.
    fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let made = self.fill(weights, clock);
        if let Some(envs) = &mut self.envs {
            envs.drain_episodes(&mut self.episodes);
        }
        match made {
            Ok(batch) => {
                let ticket = self.book().ok_or(SampleError::Closed)?;
                let batch = MultiAgentBatch::single(batch);
                Ok(batch.with_ticket(ticket))
            }
            Err(error) => {
                let error = error.unless_the_run_ends(&self.links.tether);
                if let SampleError::Environment(failure) = &error {
                    self.steps_made += failure.steps_made as u64;
                    self.drop_envs();
                    // Somebody has reported it long since.
                    if self.links.watch.is_taken_over() {
                        return Err(SampleError::Closed);
                    }
                }
                self.give_up_fragment(&error);
                Err(error)
            }
        }
    }

    fn take_episodes(&mut self) -> Vec<EpisodeStat> {
        std::mem::take(&mut self.episodes)
    }

    fn lose_fragment(&mut self, cause: &'static str) {
        if self.steps_made > 0
            && let Some(ticket) = self.book()
        {
            ticket.lost(cause);
        }
        self.under_way = false;
    }

    fn drop_envs(&mut self) {
        let failed = self.envs.take();
        self.links.watch.at(0, FailurePlace::Unknown);
        let _inside = self.links.watch.enter(self.incarnation);
        // What failed may panic once more while it is dropped. The failure that is reported is the first.
        let _ = catch(|| drop(failed));
    }
}

/// Makes the environments of one incarnation; a panic of the factory is a failure like any other.
fn make_envs(
    factory: &dyn EnvFactory,
    config: &WorkerConfig,
    incarnation: u32,
    watch: &Watch,
) -> Result<Box<dyn VectorEnv>, EnvFailure> {
    let n_envs = config.num_envs_per_worker.get();
    let context = VectorContext { worker: config.worker, incarnation, first_env: 0, seed: config.seed };
    watch.at(0, FailurePlace::Make);
    let inside = watch.enter(incarnation);
    let envs = catch(|| factory.make_vector(&context, n_envs, watch))
        .map_err(|text| context.failure_to_make(FailureCause::Panic(text)))??;
    drop(inside);
    if envs.n_envs() == n_envs {
        Ok(envs)
    } else {
        let text = format!("the factory was asked for {n_envs} environments and made {}", envs.n_envs());
        Err(context.failure_to_make(FailureCause::Error(EnvError::new(text))))
    }
}

/// Makes the environments anew and holds their spaces against the ones that the worker began with.
fn remake_envs(
    factory: &dyn EnvFactory,
    config: &WorkerConfig,
    incarnation: u32,
    watch: &Watch,
    spec: &EnvSpec,
) -> Result<Box<dyn VectorEnv>, EnvFailure> {
    let envs = make_envs(factory, config, incarnation, watch)?;
    if envs.spec().has_spaces_of(spec) {
        return Ok(envs);
    }
    let text = format!("the rebuilt environment has {:?}, but the run began with {spec:?}", envs.spec());
    let context = VectorContext { worker: config.worker, incarnation, first_env: 0, seed: config.seed };
    Err(context.failure_to_make(FailureCause::Error(EnvError::new(text))))
}

#[cfg(test)]
mod tests;
