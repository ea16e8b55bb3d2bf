use pronk_policy::derive_seed;

use super::failure::{EnvFailure, EnvFailureCause, FailurePlace};
use super::seed;
use super::spec::EnvSpec;

/// What an environment is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EnvPurpose {
    /// For a worker, which samples experience with it.
    #[default]
    Training,
    /// For whole episodes without learning: an evaluation beside a run or by itself, also one that is drawn.
    Evaluation,
    /// To be looked at and dropped again: for its spaces before a run begins, or by
    /// [`check_env_twice`](crate::check_env_twice).
    Probe,
}

/// Which environment a factory makes.
///
/// ```
/// use pronk_rollout::{CartPole, EnvContext, EnvPurpose};
///
/// let make = |context: &EnvContext| {
///     // Ports, display numbers, scratch folders: anything that must differ between environments. Workers count
///     // from 1, or there is only worker 0; evaluations and probes are made as worker 0, perhaps beside it.
///     let _port = match context.purpose {
///         EnvPurpose::Training => 9000 + context.worker * 100 + context.index,
///         EnvPurpose::Evaluation => 8000 + context.index,
///         EnvPurpose::Probe => 7000,
///     };
///     CartPole::new()
/// };
/// # let _ = make(&EnvContext::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvContext {
    /// The worker the environment belongs to; 0 is the one that runs on the trainer's thread.
    pub worker: u32,
    /// Which environment of the worker, from 0.
    pub index: u32,
    /// How often the worker has rebuilt its environments.
    pub incarnation: u32,
    /// The environment's own seed, from which episode seeds derive; also for randomness in construction.
    pub seed: u64,
    /// What it is made for.
    pub purpose: EnvPurpose,
}

/// Which worker's environments a factory makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorContext {
    /// The worker the environments belong to; 0 is the one that runs on the trainer's thread.
    pub worker: u32,
    /// How often the worker has rebuilt its environments.
    pub incarnation: u32,
    /// The index of the first environment: not 0 for a group of a worker's environments.
    pub first_env: u32,
    /// The seed of the run, or one derived from it for an evaluation.
    pub seed: u64,
    /// What they are made for.
    pub purpose: EnvPurpose,
}

impl VectorContext {
    /// The context of one environment; `index` counts from `first_env`.
    pub fn env(&self, index: u32) -> EnvContext {
        let index = self.first_env + index;
        let path = [seed::ENVIRONMENT, seed::of_worker(self.worker), self.incarnation.into(), index.into()];
        let Self { worker, incarnation, purpose, .. } = *self;
        EnvContext { worker, index, incarnation, seed: derive_seed(self.seed, &path), purpose }
    }

    /// The failure of a factory that made no environment.
    pub(crate) fn failure_to_make(&self, cause: EnvFailureCause) -> EnvFailure {
        self.failure(None, 0, FailurePlace::Make, cause)
    }

    /// The failure of one environment in a step that no other has made yet; `index` counts from `first_env`.
    #[cold]
    pub fn failure(
        &self,
        spec: Option<&EnvSpec>,
        index: u32,
        place: FailurePlace,
        cause: EnvFailureCause,
    ) -> EnvFailure {
        EnvFailure {
            env: spec.map(|spec| spec.name.clone()).unwrap_or_default(),
            worker: self.worker,
            incarnation: self.incarnation,
            index: self.first_env + index,
            place,
            cause,
            steps_made: 0,
        }
    }
}
