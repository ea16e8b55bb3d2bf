//! A worker as its loop runs it: made, restarted after failures, and taken down.

use std::time::Duration;

use pronk_buffer::{MailboxSender, Meanwhile, MultiAgentBatch, ShutdownToken, WeightSource};
use pronk_metrics::{ByPolicy, StateClock, StepLedger, catch};
use pronk_policy::{Helper, Params};

use super::failure::{WorkerFailure, WorkerFailureCause};
use super::failure_log::FailureLog;
use super::report::{PostedSeat, WorkerReport};
use super::restarts::{RestartBudget, Restarts, SpentRestarts};
use crate::env::{EnvFailure, VectorContext};
use crate::sync::Arc;
use crate::sync::channel::Receiver;
use crate::worker::{
    AnyEnvSpec, BuildError, MakeWorker, RolloutWorker, SHUTDOWN, SampleError, WorkerSeat, WorkerState,
};

/// What all workers of a run share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) make: Arc<MakeWorker>,
    pub(super) budget: RestartBudget,
    /// Says when enough is sampled.
    pub(super) steps: StepLedger,
    pub(super) token: ShutdownToken,
    pub(super) reports: MailboxSender<WorkerReport>,
    pub(super) failures: FailureLog,
    pub(super) helper: Option<Helper>,
}

/// Helps the learner while a worker waits.
struct Helping<'a> {
    helper: Option<&'a Helper>,
    clock: &'a mut StateClock<WorkerState>,
}

impl Meanwhile for Helping<'_> {
    fn wakes(&self) -> Option<&Receiver<()>> {
        self.helper.map(Helper::wakes)
    }

    fn work(&mut self) {
        let Some(helper) = self.helper else { return };
        while help(helper, self.clock) && helper.next_are_there() {}
    }
}

/// Computes the shares that are on offer. Returns whether more follow soon.
fn help(helper: &Helper, clock: &mut StateClock<WorkerState>) -> bool {
    let before = clock.state();
    clock.enter(WorkerState::Helping);
    let more = helper.help();
    clock.enter(before);
    more
}

/// Helps the learner, if shares are on offer, while fragments wait for it: it is the limit then.
pub(super) fn help_if_behind(
    helper: Option<&Helper>,
    is_behind: &dyn Fn() -> bool,
    clock: &mut StateClock<WorkerState>,
) {
    if let Some(helper) = helper
        && is_behind()
        && helper.wakes().try_recv().is_ok()
    {
        help(helper, clock);
    }
}

/// A worker with its reports, its clock and its restarts; its loop is in `worker_loop.rs`.
pub(super) struct SupervisedWorker {
    pub(super) sampler: Option<RolloutWorker>,
    pub(super) restarts: Restarts,
    pub(super) clock: StateClock<WorkerState>,
    pub(super) seat: WorkerSeat,
    /// The name of its thread.
    pub(super) thread: String,
    pub(super) shared: Shared,
    /// What its environments have to be; `None` for the first workers of a run.
    spec: Option<AnyEnvSpec>,
    /// Set when the worker has given up, which it reports once.
    gave_up: bool,
}

/// Why there is no fragment, for the owner of the worker.
pub(super) enum NoFragment {
    /// The worker still pauses before a restart.
    TimedOut,
    /// The run is ending, its limit of env-steps is reached, the worker was replaced, or it gave up before.
    Closed,
    /// The worker gives up now.
    Failed(WorkerFailure),
}

/// Why one attempt made no fragment.
pub(super) enum Missed {
    Closed,
    /// An environment failed: restart after a pause.
    Environment(EnvFailure),
    /// All environments failed, which is already reported, and restart on their own.
    AllFailed(Arc<EnvFailure>),
    /// Trying again cannot help.
    Fatal(WorkerFailureCause),
}

impl SupervisedWorker {
    /// Makes a worker that a run starts with. Errors are those of its maker.
    pub(super) fn start(shared: Shared, seat: WorkerSeat) -> Result<Self, BuildError> {
        let thread = thread_name(seat.worker);
        let mut worker = Self::unmade(shared, seat, thread, None, WorkerState::Starting);
        let mut sampler = worker.make()?;
        if let Some(saved) = worker.seat.resume.take() {
            worker.restarts.failures.set(saved.consecutive_failures);
            catch(|| sampler.load(&saved))
                .unwrap_or_else(|text| Err(BuildError::Panic { what: "an environment of a saved worker", text }))?;
        }
        worker.sampler = Some(sampler);
        Ok(worker)
    }

    /// Posts the state of the worker between two fragments, for the checkpoint `number`.
    pub(super) fn post_seat(&mut self, number: u64) {
        let state = match &mut self.sampler {
            Some(sampler) => sampler.save(),
            None => Err("its environments are being rebuilt".to_owned()),
        };
        if self.seat.monitor.is_taken_over() {
            return;
        }
        let consecutive_failures = self.restarts.failures.len();
        let state = state.map(|state| state.after_failures(consecutive_failures));
        let seats = vec![PostedSeat { worker: self.seat.worker, number, state }];
        self.post(WorkerReport { seats, ..WorkerReport::default() });
    }

    /// A worker whose sampler is made with its first fragment, on its own thread: a factory may hang too.
    pub(super) fn unmade(
        shared: Shared,
        seat: WorkerSeat,
        thread: String,
        spec: Option<AnyEnvSpec>,
        state: WorkerState,
    ) -> Self {
        let restarts = Restarts::new(shared.budget.clone());
        // The time of all threads of a worker is booked under one name.
        let clock = StateClock::new(thread_name(seat.worker), state);
        Self { sampler: None, restarts, clock, shared, seat, thread, spec, gave_up: false }
    }

    /// The restarts that its run has spent.
    pub(super) fn spent_restarts(&self) -> SpentRestarts {
        self.shared.budget.spent()
    }

    /// What its environments are, once they are made.
    pub(super) fn env_spec(&self) -> Option<AnyEnvSpec> {
        self.sampler.as_ref().map(|sampler| sampler.env_spec())
    }

    /// Whether no further fragment is to be begun. Turns are granted up to the limit, whatever the ledger
    /// says at this moment.
    pub(super) fn is_over(&self, weights: &WeightSource<ByPolicy<Params>>) -> bool {
        let at_limit = || !weights.is_granted() && self.shared.steps.limit_reached();
        // One that was replaced in a call that saved its environments leaves the turns to the replacement.
        self.gave_up || self.shared.token.is_shut_down() || self.seat.monitor.is_taken_over() || at_limit()
    }

    /// Skips to the recorded incarnation of the next fragment, which begins with new environments: how those
    /// before it failed need not be repeated.
    pub(super) fn skip_to(&mut self, recorded: Option<u32>) {
        let own = self.sampler.as_ref().map_or(self.seat.incarnation, RolloutWorker::incarnation);
        if let Some(incarnation) = recorded.filter(|incarnation| *incarnation > own) {
            self.clock.enter(WorkerState::Restarting);
            self.sampler = None;
            self.seat.incarnation = incarnation;
        }
    }

    /// Waits in this state, and helps the learner meanwhile.
    pub(super) fn waiting(&mut self, state: WorkerState) -> impl Meanwhile {
        self.clock.enter(state);
        Helping { helper: self.shared.helper.as_ref(), clock: &mut self.clock }
    }

    /// Makes the sampler, unless it is made.
    pub(super) fn make_sampler(&mut self) -> Result<(), Missed> {
        if self.sampler.is_none() {
            self.clock.enter(WorkerState::Restarting);
            self.sampler = Some(self.make().inspect_err(|_| self.seat.incarnation += 1)?);
        }
        Ok(())
    }

    fn make(&self) -> Result<RolloutWorker, BuildError> {
        let sampler = catch(|| (self.shared.make)(&self.seat))
            .unwrap_or_else(|text| Err(BuildError::Panic { what: "the making of the worker", text }))?;
        if let Some(spec) = &self.spec {
            let WorkerSeat { worker, incarnation, .. } = self.seat;
            spec.check_rebuilt(
                &sampler.env_spec(),
                &VectorContext { worker, incarnation, ..VectorContext::default() },
            )?;
        }
        Ok(sampler)
    }

    /// Waits until the pause before a restart is over.
    pub(super) fn pause(&mut self, timeout: Duration) -> Result<(), NoFragment> {
        let Some(left) = self.restarts.pause_left() else { return Ok(()) };
        if self.seat.monitor.has_to_give_up() {
            return Err(NoFragment::Closed);
        }
        self.clock.enter(WorkerState::Restarting);
        self.shared.token.sleep(left.min(timeout)).map_err(|_closed| NoFragment::Closed)?;
        if left > timeout {
            return Err(NoFragment::TimedOut);
        }
        self.restarts.end_pause();
        Ok(())
    }

    /// Decides whether the worker tries again or gives up, which `report` then says.
    pub(super) fn recover(&mut self, missed: Missed, report: &mut WorkerReport) -> Result<(), NoFragment> {
        // The supervisor has paid for the restart of one that it has replaced; and what fails when the time
        // of the run is up may have failed because of that.
        if self.seat.monitor.is_taken_over() || self.seat.monitor.has_to_give_up() {
            return Err(NoFragment::Closed);
        }
        let survived = match missed {
            Missed::Closed => return Err(NoFragment::Closed),
            Missed::Environment(failure) => {
                report.add_failure(failure.to_string());
                self.restarts.back_off(failure)
            }
            Missed::AllFailed(last) => self.restarts.count(last),
            Missed::Fatal(cause) => Err(cause),
        };
        survived.map_err(|cause| NoFragment::Failed(self.give_up(cause, report)))
    }

    fn give_up(&mut self, cause: WorkerFailureCause, report: &mut WorkerReport) -> WorkerFailure {
        self.gave_up = true;
        let consecutive_failures = self.restarts.failures.len();
        let failure = WorkerFailure { thread: self.thread.clone(), consecutive_failures, cause };
        report.ended.push(failure.clone());
        failure
    }

    /// Gives up after a panic outside the environments.
    pub(super) fn panicked(&mut self, text: String) -> WorkerFailure {
        if let Some(sampler) = &mut self.sampler {
            sampler.give_up(Some("worker_panic"));
        }
        let mut report = WorkerReport::default();
        let failure = self.give_up(WorkerFailureCause::Panic(text), &mut report);
        self.post(report);
        failure
    }

    /// Discards the steps that are in no fragment.
    pub(super) fn discard_partial(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.give_up(None);
        }
    }

    /// Drops the worker with its environments. A panic meanwhile is reported as a failure but does not change
    /// how the worker ended.
    pub(super) fn take_down(mut self) {
        let mut report = WorkerReport::default();
        let dropped = catch(|| {
            if let Some(mut sampler) = self.sampler.take() {
                report.abandoned = sampler.close().into();
            }
        });
        if let Err(text) = dropped {
            report.add_failure(format!("{} panicked while its environments were dropped: {text}", self.thread));
        }
        if report.n_failures > 0 || report.abandoned.count > 0 {
            self.post(report);
        }
    }

    pub(super) fn post(&self, report: WorkerReport) {
        self.shared.failures.note(&report);
        // Refused only when the reader is gone: then the report is not wanted.
        let _ = self.shared.reports.post(report);
    }
}

impl From<BuildError> for Missed {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Environment(failure) => Missed::Environment(failure),
            error => Missed::Fatal(WorkerFailureCause::Build(Arc::new(error))),
        }
    }
}

impl From<SampleError> for Missed {
    fn from(error: SampleError) -> Self {
        match error {
            SampleError::Closed | SampleError::AllFailed => Missed::Closed,
            SampleError::Environment(failure) => Missed::Environment(failure),
            SampleError::Policy(fault) => Missed::Fatal(WorkerFailureCause::Policy(Arc::new(fault))),
            SampleError::Batch(error) => Missed::Fatal(WorkerFailureCause::Batch(error)),
        }
    }
}

/// Books a fragment that will not be learned from, because the run ends.
pub(super) fn discard(mut fragment: MultiAgentBatch) {
    if let Some(ticket) = fragment.take_ticket() {
        ticket.dropped(SHUTDOWN);
    }
}

/// The name of a worker's first thread, in the time ledger and in errors.
pub(super) fn thread_name(worker: u32) -> String {
    format!("rollout-{worker}")
}

#[cfg(test)]
mod tests;
