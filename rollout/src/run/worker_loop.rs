//! The rollout loop: load weights, sample a fragment, report, push.

use std::time::Duration;

use pronk_buffer::{Closed, Granted, MultiAgentBatch, Turn, Versioned, WeightSource};
use pronk_metrics::{ByPolicy, catch};
use pronk_policy::Params;
use tracing::debug_span;

use super::edges::CurrentEnds;
use super::failure::{WorkerFailure, WorkerFailureCause};
use super::report::WorkerReport;
use super::supervised::{Missed, NoFragment, SupervisedWorker, discard, help_if_behind};
use crate::sync::{Instant, atomic::Ordering};
use crate::worker::{Collected, SampleError, WorkerState};

/// The body of a worker's thread: pushes fragments until the run ends, the inqueue closes, or the worker
/// gives up, or another thread has taken its ends.
pub(super) fn run_worker(mut worker: SupervisedWorker, ends: &CurrentEnds) -> Result<(), WorkerFailure> {
    let result = catch(|| push_fragments(&mut worker, ends)).unwrap_or_else(|text| Err(worker.panicked(text)));
    // Before the inqueue closes, so that the last result of a run counts the steps.
    worker.discard_partial();
    // A replaced worker's ends are its replacement's. None is replaced outside of its environments, as here.
    if !worker.seat.monitor.is_taken_over() {
        // The inqueue closes before the rest, because dropping environments may take long, or panic.
        drop(ends.take());
    }
    worker.take_down();
    result
}

fn push_fragments(worker: &mut SupervisedWorker, ends: &CurrentEnds) -> Result<(), WorkerFailure> {
    let Some(weights) = ends.weights() else { return Ok(()) };
    let learner_is_behind = || ends.backlog() > 0;
    loop {
        let fragment = match worker.next_fragment(&weights, Duration::MAX, &learner_is_behind) {
            Ok(fragment) => fragment,
            Err(NoFragment::TimedOut) => continue,
            Err(NoFragment::Closed) => return Ok(()),
            Err(NoFragment::Failed(failure)) => return Err(failure),
        };
        let Some(fragments) = ends.fragments() else {
            discard(fragment);
            return Ok(());
        };
        let mut waiting = worker.waiting(WorkerState::Blocked);
        // Blocks while the inqueue is full: this back-pressure is the only throttle of a run.
        let pushed = debug_span!("push").in_scope(|| fragments.push(fragment, &mut waiting));
        if let Err(Closed(unwanted)) = pushed {
            discard(unwanted);
            return Ok(());
        }
    }
}

impl SupervisedWorker {
    /// Samples a fragment with the newest weights, or those of the worker's turn, and reports it; restarts
    /// the worker after failures. Blocks for that; in pauses before restarts for at most `timeout`, or until
    /// the run ends. While `learner_is_behind`, the learner's update comes before the next step.
    pub(crate) fn next_fragment(
        &mut self,
        source: &WeightSource<ByPolicy<Params>>,
        timeout: Duration,
        learner_is_behind: &dyn Fn() -> bool,
    ) -> Result<MultiAgentBatch, NoFragment> {
        let began = Instant::now();
        loop {
            self.pause(timeout.saturating_sub(began.elapsed()))?;
            // Checked between fragments only: one in progress is completed, because it can be learned from.
            if self.is_over(source) {
                return Err(NoFragment::Closed);
            }
            // Before the weights are loaded, so that they are newer.
            help_if_behind(self.shared.helper.as_ref(), learner_is_behind, &mut self.clock);
            let granted = match source.is_granted() {
                true => source.wait(&mut self.waiting(WorkerState::Awaiting)),
                false => source.wait(&mut ()),
            };
            let Turn { weights, incarnation } = match granted.map_err(|Closed(())| NoFragment::Closed)? {
                Granted::Turn(turn) => turn,
                Granted::Mark(number) => {
                    self.post_seat(number);
                    continue;
                }
            };
            self.skip_to(incarnation);
            let slot = Some((self.seat.worker, self.seat.slots.load(Ordering::Relaxed)));
            let mut report = WorkerReport { slot, ..WorkerReport::default() };
            let sampled = debug_span!("fragment").in_scope(|| self.sample(&weights, learner_is_behind, &mut report));
            let result = match sampled {
                Ok(fragment) => {
                    source.done();
                    self.restarts.reset();
                    report.fragments = 1;
                    report.steps = fragment.steps();
                    Ok(Some(fragment))
                }
                Err(missed) => self.recover(missed, &mut report).map(|()| None),
            };
            self.post(report);
            if let Some(fragment) = result? {
                return Ok(fragment);
            }
            // A pause is timed above; without one, environments restart on their own and use up the time.
            if self.restarts.pause_left().is_none() && began.elapsed() >= timeout {
                return Err(NoFragment::TimedOut);
            }
        }
    }

    /// Makes one attempt at a fragment, and fills `report` whether it succeeds or not.
    fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        learner_is_behind: &dyn Fn() -> bool,
        report: &mut WorkerReport,
    ) -> Result<MultiAgentBatch, Missed> {
        self.make_sampler()?;
        let Self { sampler: Some(sampler), clock, restarts, shared, .. } = self else { return Err(Missed::Closed) };
        let incarnation = sampler.incarnation();
        let mut between = |clock: &mut _| help_if_behind(shared.helper.as_ref(), learner_is_behind, clock);
        let sampled = catch(|| sampler.sample_and(weights, clock, &mut between));

        report.restarts = u64::from(sampler.incarnation() - incarnation);
        let Collected { episodes, policy_returns, failures, abandoned, restarted } = sampler.take_collected();
        report.restarted = restarted;
        report.add_episodes(episodes);
        report.policy_returns = policy_returns;
        report.abandoned = abandoned.into();
        let (last, overspent) = restarts.charge(failures, report);

        match (sampled, overspent) {
            (Err(text), _) => {
                sampler.give_up(Some("worker_panic"));
                Err(Missed::Fatal(WorkerFailureCause::Panic(text)))
            }
            (Ok(Ok(fragment)), None) => Ok(fragment),
            (Ok(Ok(fragment)), Some(cause)) => {
                discard(fragment);
                Err(Missed::Fatal(cause))
            }
            (Ok(Err(SampleError::AllFailed)), Some(cause)) => Err(Missed::Fatal(cause)),
            // Without a failure there is nothing to try again.
            (Ok(Err(SampleError::AllFailed)), None) => Err(last.map_or(Missed::Closed, Missed::AllFailed)),
            (Ok(Err(error)), _) => Err(error.into()),
        }
    }
}
