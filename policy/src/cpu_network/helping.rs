//! [`Helpers`]: the threads that compute the shares of a batch together with the learner's own.

use super::share::Share;
use super::sharing::{Next, Offering, Taker, poll};
use crate::PolicyError;
use crate::sync::Arc;
use crate::sync::channel::Receiver;

/// The threads that compute shares of a batch for a network that learns: threads of their own, and others,
/// each with a [`Helper`], in the moments that they choose. Clones are the same threads, for other networks.
///
/// ```
/// use pronk_policy::{CpuNetwork, Helpers, NetworkSpec, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
/// let helpers = Helpers::new(1, 0)?;
/// let network = CpuNetwork::with_helpers(&NetworkSpec::for_spaces(&observation, &action)?, helpers.clone())?;
///
/// // In a thread that waits for something else as well:
/// if let Some(helper) = helpers.helper() {
///     while helper.wakes().try_recv().is_ok() {
///         helper.help();
///     }
/// }
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone)]
pub struct Helpers(pub(super) Arc<Offering<Share>>);

impl Helpers {
    /// At most `helpers` threads help with a batch, of which it starts `threads`: `network-1`, …. They end
    /// with the last clone.
    ///
    /// # Errors
    /// A thread that cannot be spawned.
    pub fn new(helpers: usize, threads: usize) -> Result<Self, PolicyError> {
        Ok(Self(Arc::new(Offering::new(helpers, threads)?)))
    }

    /// A handle for a thread that helps beside its own work; `None` if none is to help.
    pub fn helper(&self) -> Option<Helper> {
        self.0.taker().map(Helper)
    }
}

/// Lets a thread compute shares of a network's batches; see [`Helpers`].
#[derive(Clone)]
pub struct Helper(Taker<Share>);

impl Helper {
    /// Receives a message when there may be shares to compute; closed once the network is gone.
    pub fn wakes(&self) -> &Receiver<()> {
        self.0.wakes()
    }

    /// Computes shares until no more are offered: at most the forward or backward pass of a batch. Returns
    /// whether more follow soon: see [`next_are_there`](Self::next_are_there).
    pub fn help(&self) -> bool {
        self.0.run_all() == Next::Soon
    }

    /// Waits about as long as a loss takes, which is between a forward and a backward pass. Returns whether
    /// shares may be on offer.
    pub fn next_are_there(&self) -> bool {
        poll(self.0.wakes()).is_some()
    }
}
