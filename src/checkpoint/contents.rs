use pronk_learner::LearnerState;
use pronk_metrics::NormalizerMoments;
use pronk_policy::{NetworkSpec, Space};

use super::score::Score;
use crate::config::TrainerConfig;

/// A trained policy and its optimiser state, with everything needed to act or to resume training.
///
/// On disk it is in a folder with the other policies of its run: `manifest.json`, and for each policy two or
/// three safetensors files, which the manifest lists with sizes and checksums. Files are named after their
/// content, and the manifest is replaced last, atomically. A process killed at any instant leaves the old or
/// the new checkpoint, and the folder can be loaded during a save.
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
    /// The observation space; of a policy that was trained before bytes were scaled by their bounds, with
    /// those of [pixels](Space::as_pixels).
    pub observation: Space,
    /// The action space.
    pub action: Space,
    /// Its network; `None` for a custom one, of which only the parameter layout is kept.
    pub network: Option<NetworkSpec>,
    /// The settings of its run.
    pub config: TrainerConfig,
    /// Statistics of the normalisation of observations and rewards; empty without.
    pub normalizer: NormalizerMoments,
    /// How many times the run was resumed. Random numbers differ in each life.
    pub life: u64,
    /// The evaluation for which it was kept as the best of its run; `None` for any other checkpoint. The
    /// optimiser of such a one is fresh.
    pub score: Option<Score>,
    /// Weights, optimiser state and counters.
    pub state: LearnerState,
}
