use pronk_policy::derive_seed;

use super::failure::{EnvFailure, EnvFailureCause, FailurePlace};
use super::seed;
use super::spec::EnvSpec;

/// Which environment is being made.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvContext {
    /// The worker the environment belongs to; 0 is the one that runs on the trainer's thread.
    pub worker: u32,
    /// Which environment of the worker, from 0.
    pub index: u32,
    /// How often the worker has rebuilt its environments.
    pub incarnation: u32,
    /// A seed of the environment's own. Episode seeds are derived from it; use it for what is built once.
    pub seed: u64,
}

/// Which worker's environments are being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorContext {
    /// The worker the environments belong to; 0 is the one that runs on the trainer's thread.
    pub worker: u32,
    /// How often the worker has rebuilt its environments.
    pub incarnation: u32,
    /// The number of the first environment: 0, but for a group of a worker's environments that is made by itself.
    pub first_env: u32,
    /// The seed of the run, or one derived from it for an evaluation.
    pub seed: u64,
}

impl VectorContext {
    /// The context of one of the environments, with a seed of its own; `index` counts from `first_env`.
    pub fn env(&self, index: u32) -> EnvContext {
        let index = self.first_env + index;
        let path = [seed::ENVIRONMENT, self.worker.into(), self.incarnation.into(), index.into()];
        EnvContext { worker: self.worker, index, incarnation: self.incarnation, seed: derive_seed(self.seed, &path) }
    }

    /// The failure of a factory that made no environments at all.
    pub(crate) fn failure_to_make(&self, cause: EnvFailureCause) -> EnvFailure {
        self.failure(None, 0, FailurePlace::Make, cause)
    }

    /// The failure of one of the environments, in a step that no other had made before; `index` counts from `first_env`.
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
