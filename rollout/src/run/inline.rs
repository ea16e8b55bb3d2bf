//! A worker without a thread.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{Mailbox, MultiAgentBatch, NextError, Notifier, ShutdownToken, Source, WeightCell, mailbox};
use pronk_metrics::{ByPolicy, ClockReader, StateClock, StepLedger};
use pronk_policy::Params;

use super::budget::RestartBudget;
use super::report::WorkerReport;
use super::supervise::{NoFragment, SupervisedWorker, Supervision, thread_name};
use crate::env::CallMonitor;
use crate::worker::{BuildError, MakeWorker, RestartPolicy, WorkerSeat, WorkerState};

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
/// use pronk_buffer::{Notifier, Pool, Source, shutdown, weight_cell};
/// use pronk_metrics::{ByPolicy, StepLedger, default_policy};
/// use pronk_policy::{CpuNetwork, GaussianConfig, NetworkSpec};
/// use pronk_rollout::{
///     CartPole, Env, EnvContext, InlineSource, RestartPolicy, RolloutWorker, WorkerConfig, WorkerLinks,
///     WorkerSeat,
/// };
///
/// let spec = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let (_publisher, weights) = weight_cell(ByPolicy::from([(default_policy(), network.init_params(0)?)]));
/// let (_lifeline, token) = shutdown();
/// let (steps, of_run) = (StepLedger::new(), token.clone());
/// let of_worker = steps.clone();
/// let make = move |seat: &WorkerSeat| {
///     let config = WorkerConfig {
///         worker: seat.worker,
///         incarnation: seat.incarnation,
///         seed: 0,
///         num_envs_per_worker: NonZeroUsize::new(8).expect("8 > 0"),
///         rollout_fragment_length: NonZeroUsize::new(16).expect("16 > 0"),
///         gaussian: GaussianConfig::default(),
///     };
///     let links = WorkerLinks::new(Pool::new(2), of_worker.clone(), of_run.clone());
///     let links = WorkerLinks { monitor: seat.monitor.clone(), ..links };
///     let network = Box::new(CpuNetwork::new(&network)?);
///     let worker = RolloutWorker::new(config, Arc::new(|_: &EnvContext| CartPole::new()), network, links)?;
///     Ok(worker)
/// };
/// let restart = RestartPolicy::default();
/// let (mut source, reports) = InlineSource::new(Arc::new(make), restart, weights, (steps, token), &Notifier::new())?;
/// assert_eq!(source.next(Duration::ZERO)?.env_steps(), 128);
/// assert_eq!(reports.try_take().map(|report| report.fragments), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InlineSource {
    worker: SupervisedWorker,
    monitor: CallMonitor,
    weights: WeightCell<ByPolicy<Params>>,
}

impl InlineSource {
    /// Has `make` make worker 0, and makes the mailbox that its reports go to. The pauses before restarts end when the shutdown token
    /// is cut. Once the limit of the step ledger is reached, the source is closed.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn new(
        make: Arc<MakeWorker>,
        restart: RestartPolicy,
        weights: WeightCell<ByPolicy<Params>>,
        (steps, token): (StepLedger, ShutdownToken),
        notifier: &Notifier,
    ) -> Result<(Self, Mailbox<WorkerReport>), BuildError> {
        let (sender, reports) = mailbox(NonZeroUsize::MIN, notifier);
        let monitor = CallMonitor::new();
        let mut worker = SupervisedWorker::make(Supervision {
            make,
            seat: WorkerSeat { worker: 0, incarnation: 0, monitor: monitor.clone() },
            spaces: None,
            thread: thread_name(0),
            budget: RestartBudget::new(restart),
            steps,
            token,
            reports: sender,
            clock: StateClock::new(thread_name(0), WorkerState::Starting),
        })?;
        worker.enter(WorkerState::Idle);
        Ok((Self { worker, monitor, weights }, reports))
    }

    /// Which call of an environment the worker is in, for another thread to see.
    pub fn monitor(&self) -> CallMonitor {
        self.monitor.clone()
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
