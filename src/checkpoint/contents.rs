use pronk_learner::LearnerState;
use pronk_policy::{NetworkSpec, Space};
use pronk_rollout::NormalizerMoments;

use crate::config::TrainerConfig;

/// A trained policy and the state of its optimiser, with all that is needed to use or to go on training them.
///
/// On disk it is in a folder, together with the other policies of its run: `manifest.json`, and for each
/// policy two or three safetensors files that the manifest names with their sizes and checksums. The files
/// are named after their content and the manifest is replaced last and atomically. So a process killed at any
/// instant leaves either all policies of the old checkpoint or all of the new one, and another process may
/// load the folder while it is saved into.
///
/// # Example
/// ```no_run
/// use pronk::Checkpoint;
///
/// let checkpoint = Checkpoint::load("runs/cartpole")?;
/// println!("{} after {} updates", checkpoint.env, checkpoint.state.updates);
/// # Ok::<(), pronk::CheckpointError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Name of the environment it was trained on.
    pub env: String,
    /// Name of the algorithm it was trained with.
    pub algorithm: String,
    /// What the policy observes.
    pub observation: Space,
    /// What it decides on.
    pub action: Space,
    /// Its network; none for one of the user's own, of which only the layout of the parameters is kept.
    pub network: Option<NetworkSpec>,
    /// The settings of its run.
    pub config: TrainerConfig,
    /// What the run had found out about the scales of observations and rewards; empty where nothing is
    /// normalised.
    pub normalizer: NormalizerMoments,
    /// How often the run was resumed before: 0 is the first life. Random numbers differ from life to life.
    pub life: u64,
    /// Weights, optimiser state and counters.
    pub state: LearnerState,
}
