use pronk_buffer::{MultiAgentBatch, Versioned};
use pronk_metrics::{ByPolicy, StateClock, Steps};
use pronk_policy::Params;

use super::account::Account;
use super::config::WorkerState;
use super::error::SampleError;
use super::sampler::{AnyEnvSpec, Sampler};
use crate::env::{EnvFailure, EpisodeStat, ReturnStat};

/// A worker: a maker of fragments, and the account of every step.
///
/// The makers differ in where environments step and what a column is:
/// [`RolloutWorker`](crate::RolloutWorker), [`GatheringWorker`](crate::GatheringWorker) and
/// [`MultiAgentWorker`](crate::MultiAgentWorker).
pub struct FragmentWorker<M: MakeFragments> {
    pub(super) maker: M,
    pub(super) account: Account,
}

/// Makes the fragments of a worker.
pub trait MakeFragments: Send {
    /// The spec of the environments.
    fn env_spec(&self) -> AnyEnvSpec;

    /// Makes one fragment with one version of the weights, and adds each step to the account.
    fn fill(
        &mut self,
        account: &mut Account,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError>;

    /// Discards the steps that are in no fragment; the next fragment begins with new episodes.
    fn forget(&mut self);

    /// Drops the environments.
    fn drop_envs(&mut self, account: &Account);

    /// Ends its threads, if any, and waits briefly for them. Returns the names of those still running.
    fn close(&mut self) -> Vec<String> {
        Vec::new()
    }
}

impl<M: MakeFragments> FragmentWorker<M> {
    fn give_up(&mut self, cause: Option<&'static str>) {
        self.maker.forget();
        self.account.give_up(cause);
    }
}

impl<M: MakeFragments> Sampler for FragmentWorker<M> {
    fn worker(&self) -> u32 {
        self.account.worker()
    }

    fn incarnation(&self) -> u32 {
        self.account.incarnation()
    }

    fn env_spec(&self) -> AnyEnvSpec {
        self.maker.env_spec()
    }

    /// Makes one fragment, with one version of the weights.
    ///
    /// It continues where the last one ended. After a failure it begins with environments of the next
    /// incarnation, whose episodes have other seeds: the seed that led to the failure is not repeated.
    ///
    /// Blocks: for a fragment; when the run ends, for one step of the environments.
    ///
    /// # Errors
    /// Steps that are in no fragment are booked as lost to the cause, or as dropped under `"shutdown"` when
    /// the run ends. After [`SampleError::AllFailed`] they stay for the next fragment.
    fn sample(
        &mut self,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<MultiAgentBatch, SampleError> {
        let Self { maker, account } = self;
        let error = match maker.fill(account, weights, clock) {
            Ok(batch) => {
                let ticket = account.book(batch.steps()).ok_or(SampleError::Closed)?;
                return Ok(batch.with_ticket(ticket));
            }
            Err(SampleError::AllFailed) => return Err(SampleError::AllFailed),
            Err(error) => error.unless_the_run_ends(&account.links.token),
        };
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

    fn take_episodes(&mut self) -> Vec<EpisodeStat> {
        std::mem::take(&mut self.account.episodes)
    }

    fn take_policy_returns(&mut self) -> ByPolicy<ReturnStat> {
        std::mem::take(&mut self.account.policy_returns)
    }

    fn take_failures(&mut self) -> Vec<EnvFailure> {
        self.account.take_failures()
    }

    fn take_abandoned(&mut self) -> Vec<String> {
        std::mem::take(&mut self.account.abandoned)
    }

    fn lose_fragment(&mut self, cause: &'static str) {
        self.give_up(Some(cause));
    }

    fn drop_envs(&mut self) {
        self.maker.drop_envs(&self.account);
    }

    fn close(&mut self) -> Vec<String> {
        self.maker.close()
    }
}

impl<M: MakeFragments> Drop for FragmentWorker<M> {
    /// Books the steps that are in no fragment as dropped.
    fn drop(&mut self) {
        self.give_up(None);
        self.maker.close();
    }
}
