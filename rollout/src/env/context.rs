use pronk_policy::derive_seed;

use super::failure::{EnvFailure, EnvFailureCause, FailurePlace};
use super::seed;
use super::spec::EnvSpec;

/// Which environment a factory makes.
///
/// ```
/// use pronk_rollout::{CartPole, EnvContext};
///
/// let make = |context: &EnvContext| {
///     // Ports, display numbers, scratch folders: anything that must differ between environments.
///     let _port = 9000 + context.worker * 100 + context.index;
///     CartPole::new()
/// };
/// # let _ = make(&EnvContext { worker: 1, index: 0, incarnation: 0, seed: 0 });
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
}

/// Which worker's environments a factory makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorContext {
    /// The worker the environments belong to; 0 is the one that runs on the trainer's thread.
    pub worker: u32,
    /// How often the worker has rebuilt its environments.
    pub incarnation: u32,
    /// The index of the first environment: not 0 for a group of a worker's environments.
    pub first_env: u32,
    /// The seed of the run, or one derived from it for an evaluation.
    pub seed: u64,
}

impl VectorContext {
    /// The context of one environment; `index` counts from `first_env`.
    pub fn env(&self, index: u32) -> EnvContext {
        let index = self.first_env + index;
        let path = [seed::ENVIRONMENT, seed::of_worker(self.worker), self.incarnation.into(), index.into()];
        EnvContext { worker: self.worker, index, incarnation: self.incarnation, seed: derive_seed(self.seed, &path) }
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
