//! A gathering worker as everybody else sees it.

use pronk_buffer::{MultiAgentBatch, Versioned};
use pronk_metrics::{ByPolicy, StateClock};
use pronk_policy::Params;

use super::GatheringWorker;
use crate::env::{EnvFailure, EpisodeStat};
use crate::worker::{AnyEnvSpec, SampleError, Sampler, WorkerState};

impl Sampler for GatheringWorker {
    fn worker(&self) -> u32 {
        self.worker
    }

    fn incarnation(&self) -> u32 {
        self.incarnation
    }

    fn env_spec(&self) -> AnyEnvSpec {
        AnyEnvSpec::Single(self.spec.clone())
    }

    /// Makes one fragment, with one version of the weights from now on.
    ///
    /// Blocks: until `B` columns are full; when the run ends, not at all.
    ///
    /// # Errors
    /// Why there is none. Groups that fail are none, unless all have: see [`take_failures`](Sampler::take_failures).
    fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        match self.fill(weights, clock) {
            Ok(batch) => {
                let ticket = self.book(batch.env_steps());
                Ok(batch.with_ticket(ticket))
            }
            // What was made is kept for the next call.
            Err(SampleError::AllFailed) => Err(SampleError::AllFailed),
            Err(error) => {
                let error = error.unless_the_run_ends(&self.links.tether);
                self.give_up(error.cause_key());
                Err(error)
            }
        }
    }

    fn take_episodes(&mut self) -> Vec<EpisodeStat> {
        std::mem::take(&mut self.episodes)
    }

    fn take_failures(&mut self) -> Vec<EnvFailure> {
        self.untold = false;
        std::mem::take(&mut self.failures)
    }

    fn take_left_behind(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_behind)
    }

    fn lose_fragment(&mut self, cause: &'static str) {
        self.give_up(Some(cause));
    }

    fn close(&mut self) -> Vec<String> {
        match std::mem::replace(&mut self.is_closed, true) {
            true => Vec::new(),
            false => self.groups.close(),
        }
    }

    fn drop_envs(&mut self) {
        self.close();
    }
}

impl Drop for GatheringWorker {
    /// Columns that are not full when the worker ends are learned from by nobody.
    fn drop(&mut self) {
        self.give_up(None);
        self.close();
    }
}
