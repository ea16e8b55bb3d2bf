//! Train batches on their way to the learner: on the host, or in a stack that was loaded ahead.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use pronk_buffer::{Loaded, Loader, MultiAgentBatch};
use pronk_metrics::ByPolicy;
use pronk_policy::{LoadedObs, ObsLoader, PolicyError};

use crate::TrainBatch;
use crate::actor_critic::obs_ref;

#[cfg(test)]
mod tests;

/// What the learner's loop can take from a source: a batch on the host, or a stack with one in it.
pub trait HoldsBatch {
    /// The batch, to learn from.
    fn batch(&self) -> TrainBatch<'_>;

    /// Its samples, to take their ticket.
    fn samples_mut(&mut self) -> &mut MultiAgentBatch;
}

impl HoldsBatch for MultiAgentBatch {
    fn batch(&self) -> TrainBatch<'_> {
        self.into()
    }

    fn samples_mut(&mut self) -> &mut MultiAgentBatch {
        self
    }
}

impl<T: HoldsBatch> HoldsBatch for Loaded<T> {
    fn batch(&self) -> TrainBatch<'_> {
        (**self).batch()
    }

    fn samples_mut(&mut self) -> &mut MultiAgentBatch {
        (**self).samples_mut()
    }
}

/// A place for one train batch: RLlib's tower stack. The samples lie on the host, where losses read them; the
/// observations also where the networks of their policies compute.
#[derive(Debug, Default)]
pub struct Stack {
    samples: MultiAgentBatch,
    loaded: ByPolicy<LoadedObs>,
}

impl HoldsBatch for Stack {
    fn batch(&self) -> TrainBatch<'_> {
        TrainBatch { samples: &self.samples, loaded: Some(&self.loaded) }
    }

    fn samples_mut(&mut self) -> &mut MultiAgentBatch {
        &mut self.samples
    }
}

/// Loads train batches into stacks: moves the samples, and puts the observations where the networks compute.
///
/// ```
/// use pronk_buffer::{Loader, MultiAgentBatch};
/// use pronk_learner::{Learner, Stack, StackLoader};
///
/// fn load(learner: &dyn Learner, batch: MultiAgentBatch) -> Result<Stack, Box<dyn std::error::Error + Send + Sync>> {
///     let mut stack = Stack::default();
///     StackLoader::new(learner.obs_loaders()).load(batch, &mut stack)?;
///     Ok(stack)
/// }
/// ```
#[derive(Clone)]
pub struct StackLoader {
    loaders: ByPolicy<Arc<dyn ObsLoader>>,
}

impl StackLoader {
    /// A loader for the networks that [`Learner::obs_loaders`](crate::Learner::obs_loaders) are of.
    pub fn new(loaders: ByPolicy<Arc<dyn ObsLoader>>) -> Self {
        Self { loaders }
    }

    fn put(&self, stack: &mut Stack) -> Result<(), PolicyError> {
        for (policy, loader) in &self.loaders {
            match stack.samples.get(policy) {
                Some(part) => {
                    let into = stack.loaded.entry(policy.clone()).or_default();
                    loader.load(obs_ref(part.obs()), part.shape().columns, into)?;
                }
                None => drop(stack.loaded.remove(policy)),
            }
        }
        Ok(())
    }
}

impl Loader<MultiAgentBatch> for StackLoader {
    type Stack = Stack;

    /// # Errors
    /// What the device said; the steps of the batch are then counted as lost under `loader_error`, after a
    /// panic under `loader_panic`.
    fn load(&mut self, batch: MultiAgentBatch, stack: &mut Stack) -> Result<(), Box<dyn Error + Send + Sync>> {
        stack.samples = batch;
        // The thread reports the panic.
        let put = catch_unwind(AssertUnwindSafe(|| self.put(stack)));
        let cause = match &put {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(_)) => "loader_error",
            Err(_) => "loader_panic",
        };
        if let Some(ticket) = stack.samples.take_ticket() {
            ticket.lost(cause);
        }
        match put {
            Ok(put) => Ok(put?),
            Err(panic) => resume_unwind(panic),
        }
    }
}
