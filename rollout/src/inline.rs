//! A worker without a thread.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{Bell, Mailbox, MultiAgentBatch, NextError, Source, WeightCell, mailbox};
use pronk_metrics::{ClockReader, StateClock};
use pronk_policy::{Network, Params};

use crate::env::EnvSpec;
use crate::factory::EnvFactory;
use crate::report::WorkerReport;
use crate::supervise::{NoFragment, RestartPolicy, SupervisedWorker, thread_name};
use crate::worker::{BuildError, RolloutWorker, WorkerConfig, WorkerLinks, WorkerState};

/// Makes fragments on the thread that asks for them: what `workers: 0` runs.
///
/// With the same seed and the same weights it gives the same fragments, bit for bit, and since the weights change only
/// between two of its fragments, a whole run repeats itself. Failures, restarts and reports are those of a worker on a
/// thread.
///
/// It starts no thread, so its clock is not in the time ledger by itself: [`clock`](Self::clock) is there to be added.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pronk_buffer::{Bell, Pool, Source, lifeline, weight_cell};
/// use pronk_metrics::StepLedger;
/// use pronk_policy::{CpuNetwork, Gaussian, NetworkSpec};
/// use pronk_rollout::{CartPole, Env, EnvContext, InlineSource, RestartPolicy, WorkerConfig, WorkerLinks};
///
/// let spec = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let (_publisher, weights) = weight_cell(network.init_params(0)?);
/// let (_lifeline, tether) = lifeline();
/// let config = WorkerConfig {
///     worker: 0,
///     seed: 0,
///     num_envs_per_worker: NonZeroUsize::new(8).expect("8 > 0"),
///     rollout_fragment_length: NonZeroUsize::new(16).expect("16 > 0"),
///     gaussian: Gaussian::default(),
/// };
/// let (mut source, reports) = InlineSource::new(
///     config,
///     RestartPolicy::default(),
///     Arc::new(|_: &EnvContext| CartPole::new()),
///     Box::new(CpuNetwork::new(&network)?),
///     weights,
///     WorkerLinks { pool: Pool::new(2), steps: StepLedger::new(), tether },
///     &Bell::new(),
/// )?;
/// assert_eq!(source.next(Duration::ZERO)?.env_steps(), 128);
/// assert_eq!(reports.try_take().map(|report| report.fragments), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InlineSource {
    worker: SupervisedWorker,
    weights: WeightCell<Params>,
}

impl InlineSource {
    /// Makes the worker and the mailbox that its reports go to.
    ///
    /// # Errors
    /// As [`RolloutWorker::new`].
    pub fn new(
        config: WorkerConfig,
        restart: RestartPolicy,
        factory: Arc<dyn EnvFactory>,
        network: Box<dyn Network>,
        weights: WeightCell<Params>,
        links: WorkerLinks,
        bell: &Bell,
    ) -> Result<(Self, Mailbox<WorkerReport>), BuildError> {
        let clock = StateClock::new(thread_name(config.worker), WorkerState::Starting);
        let tether = links.tether.clone();
        let worker = RolloutWorker::new(config, factory, network, links)?;
        let (sender, reports) = mailbox(NonZeroUsize::MIN, bell);
        let mut worker = SupervisedWorker::new(worker, restart, tether, sender, clock);
        worker.enter(WorkerState::Idle);
        Ok((Self { worker, weights }, reports))
    }

    /// What the environments are.
    pub fn spec(&self) -> &EnvSpec {
        self.worker.spec()
    }

    /// How the worker's time is split; between fragments it is idle.
    pub fn clock(&self) -> ClockReader {
        self.worker.clock()
    }
}

impl Drop for InlineSource {
    // What panics here would unwind into the trainer, which has a result to give.
    fn drop(&mut self) {
        self.worker.drop_envs();
    }
}

impl Source for InlineSource {
    type Item = MultiAgentBatch;

    /// Makes a fragment now.
    ///
    /// Blocks for one fragment, which is what is asked for, and in pauses between restarts for at most `timeout`.
    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        let made = self.worker.next_fragment(&self.weights, timeout);
        self.worker.enter(WorkerState::Idle);
        made.map_err(|end| match end {
            NoFragment::TimedOut => NextError::TimedOut,
            NoFragment::Closed => NextError::Closed,
            NoFragment::Failed(failure) => NextError::Failed(Box::new(failure)),
        })
    }

    /// Nothing waits here: a fragment is made when it is asked for.
    fn backlog(&self) -> usize {
        0
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
