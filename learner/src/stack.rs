//! Train batches on the host, or in stacks loaded ahead.

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

/// An item that the learner's loop takes from a source: a batch on the host, or in a stack.
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

/// A place for one train batch: RLlib's tower stack. The samples are on the host, where losses read them; the
/// observations also on the networks' devices.
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

/// Loads train batches into stacks: moves the samples, and copies the observations to the networks' devices.
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
    /// A loader with these [`Learner::obs_loaders`](crate::Learner::obs_loaders).
    pub fn new(loaders: ByPolicy<Arc<dyn ObsLoader>>) -> Self {
        Self { loaders }
    }

    fn put(&self, stack: &mut Stack) -> Result<(), PolicyError> {
        let Stack { samples, loaded } = stack;
        for (policy, part) in samples.policies_mut() {
            let Some(loader) = self.loaders.get(policy) else { continue };
            let columns = part.shape().columns;
            // Devices get one row after another: to be written to, a batch lays them so.
            loader.load(obs_ref(part.obs_mut().as_view()), columns, loaded.entry(policy.clone()).or_default())?;
        }
        // After the loads: a thread that has not called a device yet cannot free memory there.
        loaded.retain(|policy, _| samples.get(policy).is_some());
        Ok(())
    }
}

impl Loader<MultiAgentBatch> for StackLoader {
    type Stack = Stack;

    /// # Errors
    /// An error of the device. The batch's steps then count as lost under `loader_error`, or under
    /// `loader_panic` after a panic.
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
