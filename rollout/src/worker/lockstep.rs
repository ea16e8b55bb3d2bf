//! Environments that step together on the worker's thread: a fragment is written in place, row by row.

use std::sync::Arc;

use pronk_buffer::{BatchShape, End, MultiAgentBatch, ObsColumn, SampleBatch, Versioned};
use pronk_metrics::{ByPolicy, DEFAULT_POLICY, StateClock, Steps, catch, default_policy};
use pronk_policy::{Params, Rng};

use super::account::Account;
use super::config::{WorkerConfig, WorkerLinks, WorkerState};
use super::error::{BuildError, SampleError};
use super::fragment_worker::{FragmentWorker, MakeFragments};
use super::sampler::AnyEnvSpec;
use crate::act::{ActionSampler, Inference, PolicyFault, WeightsOf};
use crate::env::{CallMonitor, EnvError, EnvFailure, EnvFailureCause, EnvSpec, FailurePlace, VectorContext, seed};
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
/// use pronk_buffer::{Pool, Versioned, shutdown};
/// use pronk_metrics::{ByPolicy, StateClock, StepLedger, default_policy};
/// use pronk_policy::{CpuNetwork, GaussianConfig, Network, NetworkSpec};
/// use pronk_rollout::{CartPole, Env, EnvContext, RolloutWorker, Sampler, WorkerConfig, WorkerLinks, WorkerState};
///
/// let spec = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let weights = ByPolicy::from([(default_policy(), network.init_params(1)?)]);
/// let weights = Versioned { version: 0, weights };
/// let (_lifeline, token) = shutdown();
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
/// let links = WorkerLinks::new(Pool::new(2), steps.clone(), token);
/// let network = Box::new(CpuNetwork::new(&network)?);
/// let mut worker = RolloutWorker::new(config, Arc::new(|_: &EnvContext| CartPole::new()), network, links)?;
/// let mut clock = StateClock::new("rollout-1", WorkerState::Starting);
/// let fragment = worker.sample(&weights, &mut clock)?;
/// assert_eq!((fragment.env_steps(), steps.snapshot().in_flight.env), (10, 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type RolloutWorker = FragmentWorker<Lockstep>;

/// Steps environments together, `T` times for each fragment.
pub struct Lockstep {
    config: WorkerConfig,
    factory: Arc<dyn EnvFactory>,
    spec: EnvSpec,
    shape: BatchShape,
    acting: ActionSampler,
    /// `[B, state_len]`: the recurrent state of every environment's episode.
    state: Vec<f32>,
    /// `None` once they failed; the next fragment then begins with making new ones.
    envs: Option<Box<dyn VectorEnv>>,
    /// `[B, obs_len]`: the observations that the last fragment ended with and the next one begins with.
    obs: ObsColumn,
    /// `[B, dist_len]`: the actions that are possible now; `None` if all always are.
    masks: Option<Vec<bool>>,
    /// Whether `obs` holds that, or the environments must be reset first.
    under_way: bool,
}

impl RolloutWorker {
    /// Makes the environments of the worker and checks that the network fits their spaces.
    ///
    /// # Errors
    /// The environment that could not be made, or why environments and network do not fit each other.
    pub fn new(
        config: WorkerConfig,
        factory: Arc<dyn EnvFactory>,
        inference: impl Into<Inference>,
        links: WorkerLinks,
    ) -> Result<Self, BuildError> {
        let envs = make_envs(factory.as_ref(), &config, config.incarnation, &links.monitor)?;
        let spec = envs.spec().clone();
        let rng = acting_stream(&config, config.incarnation);
        let spaces = (&spec.observation, &spec.action);
        let acting = ActionSampler::new(&spec.name, spaces, config.gaussian, inference.into(), rng)?;
        let shape = acting.batch_shape(config.rollout_fragment_length.get(), config.num_envs_per_worker.get());
        shape.check()?;
        let maker = Lockstep {
            config,
            factory,
            obs: ObsColumn::zeros(shape.obs_kind, shape.columns * shape.obs_len),
            masks: spec.masks_for(shape.columns),
            spec,
            shape,
            state: vec![0.0; shape.columns * shape.state_len],
            acting,
            envs: Some(envs),
            under_way: false,
        };
        Ok(Self { maker, account: Account::new(config.worker, config.incarnation, links) })
    }

    /// The spec of the environments.
    pub fn spec(&self) -> &EnvSpec {
        &self.maker.spec
    }

    /// The worker's settings.
    pub fn config(&self) -> &WorkerConfig {
        &self.maker.config
    }
}

impl Lockstep {
    fn make(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<SampleBatch, SampleError> {
        let Self { config, factory, spec, shape, acting, state, envs, obs, masks, under_way } = self;
        let envs = match envs {
            Some(envs) => envs,
            None => {
                clock.enter(WorkerState::Restarting);
                let incarnation = account.begin_incarnation();
                acting.draw_from(acting_stream(config, incarnation));
                let rebuilt = make_envs(factory.as_ref(), config, incarnation, &account.links.monitor)?;
                let now = AnyEnvSpec::Single(rebuilt.spec().clone());
                AnyEnvSpec::Single(spec.clone()).check_rebuilt(&now, &context(config, incarnation))?;
                envs.insert(rebuilt)
            }
        };
        let BatchShape { columns, state_len, steps, .. } = *shape;
        let version = weights.version;
        let params = weights.weights.get(DEFAULT_POLICY);
        let params = params.ok_or_else(|| PolicyFault::NoWeights { policy: default_policy(), version })?;
        let weights = WeightsOf { params, version };

        let mut batch = account.links.pool.take(*shape, account.tag());
        // Should anything fail from here on, the environments have moved past the observations kept.
        if std::mem::take(under_way) {
            batch.obs_row_mut(0).copy_from(obs.view())?;
            let _inside = account.enter();
            envs.begin_fragment(batch.obs_row_mut(0).into())?;
        } else {
            clock.enter(WorkerState::Stepping);
            let _inside = account.enter();
            envs.reset_all(batch.obs_row_mut(0).into())?;
            state.fill(0.0);
        }
        batch.state_in_mut().copy_from_slice(state);

        for t in 0..steps {
            if account.is_ending() {
                return Err(SampleError::Closed);
            }
            if let Some(masks) = masks {
                clock.enter(WorkerState::Stepping);
                let _inside = account.enter();
                envs.action_masks(masks)?;
            }
            clock.enter(WorkerState::Inferring);
            let mut step = batch.step_mut(t);
            let version = acting.infer(weights, step.obs, columns, state)?;
            acting.choose(masks.as_deref(), step.actions.reborrow(), step.behaviour_logp)?;
            step.behaviour_inputs.copy_from_slice(acting.logits());
            step.behaviour_values.copy_from_slice(acting.values());
            step.versions.fill(version);

            clock.enter(WorkerState::Stepping);
            account.links.monitor.keep_observations(step.obs, columns);
            let inside = account.enter();
            let out = VectorStep {
                t,
                obs: step.next_obs.into(),
                rewards: step.rewards,
                ends: step.ends,
                final_obs: step.final_obs,
            };
            envs.step(acting.for_env(step.actions.as_view()), out)?;
            drop(inside);
            if state_len > 0 {
                state.copy_from_slice(acting.state());
                // The next episode remembers nothing of this one.
                let ends = &batch.ends()[t * columns..(t + 1) * columns];
                let ended = state.chunks_exact_mut(state_len).zip(ends).filter(|(_, end)| **end != End::No);
                ended.for_each(|(state, _)| state.fill(0.0));
            }
            account.add(Steps { env: columns as u64, agent: columns as u64 });
        }

        // The value of the row after the last step; the next fragment begins with its observations.
        clock.enter(WorkerState::Inferring);
        acting.infer(weights, batch.obs_row(steps), columns, state)?;
        batch.behaviour_values_mut()[steps * columns..].copy_from_slice(acting.values());
        batch.check_ends()?;
        obs.view_mut().copy_from(batch.obs_row(steps))?;
        *under_way = true;
        Ok(batch)
    }
}

impl MakeFragments for Lockstep {
    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::Single(self.spec.clone())
    }

    fn fill(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let made = self.make(account, weights, clock);
        // Episodes of a fragment that failed count, too.
        if let Some(envs) = &mut self.envs {
            envs.drain_episodes(&mut account.episodes);
        }
        made.map(MultiAgentBatch::single)
    }

    fn forget(&mut self) {
        self.under_way = false;
    }

    fn drop_envs(&mut self, account: &Account) {
        account.drop_envs(self.envs.take());
    }
}

/// The random numbers by which the policy draws actions.
fn acting_stream(config: &WorkerConfig, incarnation: u32) -> Rng {
    Rng::stream(config.seed, &[seed::ACTING, config.worker.into(), incarnation.into()])
}

fn context(config: &WorkerConfig, incarnation: u32) -> VectorContext {
    VectorContext { worker: config.worker, incarnation, first_env: 0, seed: config.seed }
}

/// Makes the environments of one incarnation; a panic of the factory is a failure like any other.
fn make_envs(
    factory: &dyn EnvFactory,
    config: &WorkerConfig,
    incarnation: u32,
    monitor: &CallMonitor,
) -> Result<Box<dyn VectorEnv>, EnvFailure> {
    let n_envs = config.num_envs_per_worker.get();
    let context = context(config, incarnation);
    monitor.at(0, FailurePlace::Make);
    let inside = monitor.enter(incarnation);
    let envs = catch(|| factory.make_vector(&context, n_envs, monitor))
        .map_err(|text| context.failure_to_make(EnvFailureCause::Panic(text)))??;
    drop(inside);
    if envs.n_envs() == n_envs {
        Ok(envs)
    } else {
        let text = format!("the factory was asked for {n_envs} environments and made {}", envs.n_envs());
        Err(context.failure_to_make(EnvFailureCause::Error(EnvError::new(text))))
    }
}

#[cfg(test)]
mod tests;
