use pronk_buffer::{MultiAgentBatch, Versioned};
use pronk_metrics::{ByPolicy, StateClock, Steps};
use pronk_policy::Params;

use super::account::{Account, Collected};
use super::any_env_spec::AnyEnvSpec;
use super::config::{WorkerSeat, WorkerState};
use super::error::{BuildError, SampleError};
use super::seat_state::{SavedMaker, SeatState};
use crate::env::{Restarted, caught};

/// A worker: weights in, fragments out.
///
/// [`new`](Self::new) builds one whose environments step together on its own thread,
/// [`gathering`](Self::gathering) one for groups that step elsewhere, [`multi_agent`](Self::multi_agent) one
/// for several agents. A [`WorkerSet`](crate::WorkerSet) runs workers on threads, an
/// [`InlineSource`](crate::InlineSource) one on the caller's. Every step is booked once: with the ticket of a
/// fragment, or as lost or dropped.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
///
/// use pronk_buffer::{Pool, Versioned, shutdown};
/// use pronk_metrics::{ByPolicy, StateClock, StepLedger, default_policy};
/// use pronk_policy::{CpuNetwork, GaussianConfig, Network, NetworkSpec};
/// use pronk_rollout::{
///     CartPole, Env, EnvContext, NormalizerConfig, RolloutWorker, WorkerConfig, WorkerLinks, WorkerState,
/// };
///
/// let spec = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let weights = ByPolicy::from([(default_policy(), network.init_params(1)?)]);
/// let weights = Versioned::new(0, weights);
/// let (_guard, token) = shutdown();
/// let steps = StepLedger::new();
///
/// let config = WorkerConfig {
///     worker: 1,
///     incarnation: 0,
///     seed: 1,
///     num_envs_per_worker: NonZeroUsize::new(2).expect("2 > 0"),
///     rollout_fragment_length: NonZeroUsize::new(5).expect("5 > 0"),
///     gaussian: GaussianConfig::default(),
///     normalize: NormalizerConfig::default(),
/// };
/// let links = WorkerLinks::new(Pool::new(2), steps.clone(), token);
/// let network = Box::new(CpuNetwork::new(&network)?);
/// let mut worker = RolloutWorker::new(config, Arc::new(|_: &EnvContext| CartPole::new()), network, links)?;
/// let mut clock = StateClock::new("rollout-1", WorkerState::Starting);
/// let fragment = worker.sample(&weights, &mut clock)?;
/// assert_eq!((fragment.env_steps(), steps.snapshot().in_flight.env), (10, 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RolloutWorker {
    maker: Box<dyn MakeFragments>,
    account: Account,
    /// The size of a frame, if observations are stacks of frames.
    frame_len: Option<usize>,
    /// Whether it has begun its first fragment.
    has_begun: bool,
    /// Whether the run has ended a fragment in its middle.
    is_stopped: bool,
}

/// Builds the worker of a seat, on the thread that will run it or, as a run starts, on one of its own beside
/// those of other workers.
pub type MakeWorker = dyn Fn(&WorkerSeat) -> Result<RolloutWorker, BuildError> + Send + Sync;

/// What a worker does between two steps besides sampling.
pub(crate) type BetweenSteps<'a> = dyn FnMut(&mut StateClock<WorkerState>) + 'a;

/// Makes the fragments of a worker: where its environments step, and what a column is.
pub(super) trait MakeFragments: Send {
    /// The spec of the environments.
    fn env_spec(&self) -> AnyEnvSpec;

    /// Makes one fragment with one version of the weights, and adds each step to the account.
    fn fill(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
        between: &mut BetweenSteps<'_>,
    ) -> Result<MultiAgentBatch, SampleError>;

    /// Discards the steps that are in no fragment; the next fragment begins with new episodes.
    fn forget(&mut self);

    /// Drops the environments.
    fn drop_envs(&mut self, account: &Account);

    /// Ends its threads and waits briefly for them. Returns those still running.
    fn close(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Its state between two fragments; an error says why it cannot be saved now.
    fn save(&mut self, account: &Account) -> Result<SavedMaker, String>;

    /// Continues from a saved state, before the first fragment. Returns the environments that began a new
    /// episode instead.
    fn load(&mut self, account: &mut Account, saved: &SavedMaker) -> Result<Vec<Restarted>, BuildError>;
}

impl RolloutWorker {
    pub(super) fn over(maker: impl MakeFragments + 'static, account: Account) -> Self {
        let frame_len = match maker.env_spec() {
            AnyEnvSpec::Single(spec) => spec.observation.frame_len(),
            AnyEnvSpec::MultiAgent(_) => None,
        };
        Self { maker: Box::new(maker), account, frame_len, has_begun: false, is_stopped: false }
    }

    /// The worker's number.
    pub fn worker(&self) -> u32 {
        self.account.worker()
    }

    /// How often it has rebuilt its environments.
    pub fn incarnation(&self) -> u32 {
        self.account.incarnation()
    }

    /// The spec of its environments.
    pub fn env_spec(&self) -> AnyEnvSpec {
        self.maker.env_spec()
    }

    /// Makes one fragment, with one version of the weights.
    ///
    /// It continues where the last one ended. After a failure it begins with environments of the next
    /// incarnation, whose episodes have other seeds. Blocks for a fragment; when the run ends, for one step.
    ///
    /// # Errors
    /// Steps that are in no fragment are booked as lost to the cause, or as dropped under `"shutdown"` when
    /// the run ends. After [`SampleError::AllFailed`] they stay for the next fragment.
    pub fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        self.sample_and(weights, clock, &mut |_clock| ())
    }

    /// As [`sample`](Self::sample), with something else to do between two steps.
    pub(crate) fn sample_and(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
        between: &mut BetweenSteps<'_>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let Self { maker, account, frame_len, has_begun, is_stopped } = self;
        *has_begun = true;
        let error = match maker.fill(account, weights, clock, between) {
            Ok(mut batch) => {
                if let Some(frame_len) = *frame_len {
                    clock.enter(WorkerState::Stepping);
                    batch.policies_mut().for_each(|(_, samples)| samples.share_rows(frame_len, &account.links.pool));
                }
                let ticket = account.book(batch.steps()).ok_or(SampleError::Closed)?;
                return Ok(batch.with_ticket(ticket));
            }
            Err(SampleError::AllFailed) => return Err(SampleError::AllFailed),
            Err(error) => error.unless_the_run_ends(&account.links.token),
        };
        *is_stopped |= matches!(error, SampleError::Closed);
        if let SampleError::Environment(failure) = &error {
            let made = failure.steps_made as u64;
            account.add(Steps { env: made, agent: made });
            maker.drop_envs(account);
            // The supervisor has already reported this hang.
            if account.links.monitor.is_taken_over() {
                return Err(SampleError::Closed);
            }
        }
        self.give_up(error.cause_key());
        Err(error)
    }

    /// The worker between two fragments, for a checkpoint.
    ///
    /// # Errors
    /// Why it cannot be saved now, such as a group that is restarting.
    pub fn save(&mut self) -> Result<SeatState, String> {
        let Self { maker, account, has_begun, is_stopped, .. } = self;
        if *is_stopped {
            return Err("the run has ended it in the middle of a fragment".to_owned());
        }
        let maker = match has_begun {
            false => SavedMaker::Unbegun,
            true => caught(|| maker.save(account))?,
        };
        let (made, untrained) = account.save();
        let (worker, incarnation, slots) = (account.worker(), account.incarnation(), account.slot());
        Ok(SeatState { worker, incarnation, slots, consecutive_failures: 0, made, untrained, maker })
    }

    /// Continues where a saved worker was: its next fragment is the one that the saved worker would have
    /// made. An environment that cannot get back into its episode begins the next one, which the report of
    /// that fragment says.
    ///
    /// # Errors
    /// A state of another kind of worker.
    pub fn load(&mut self, saved: &SeatState) -> Result<(), BuildError> {
        if saved.maker == SavedMaker::Unbegun {
            return Ok(());
        }
        let Self { maker, account, has_begun, .. } = self;
        *has_begun = true;
        account.load(saved.made, saved.untrained);
        let restarted = maker.load(account, &saved.maker)?;
        let worker = account.worker();
        let text = |Restarted { index, why }: &Restarted| format!("rollout-{worker}, environment {index}: {why}");
        account.collected.restarted = restarted.iter().map(text).collect();
        Ok(())
    }

    /// Takes what was collected since the last call.
    pub fn take_collected(&mut self) -> Collected {
        self.account.take_collected()
    }

    /// Drops the environments; a panic in a destructor is contained.
    pub(crate) fn drop_envs(&mut self) {
        self.maker.drop_envs(&self.account);
    }

    /// Ends the worker's own threads and waits briefly for them. Returns those still running.
    pub(crate) fn close(&mut self) -> Vec<String> {
        self.maker.close()
    }

    /// Books the steps that are in no fragment as lost to `cause`, or as dropped without one.
    pub(crate) fn give_up(&mut self, cause: Option<&'static str>) {
        self.maker.forget();
        self.account.give_up(cause);
    }
}

impl Drop for RolloutWorker {
    fn drop(&mut self) {
        self.give_up(None);
        self.maker.close();
    }
}
