//! [`Resume`]: what a run begins with.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use pronk_metrics::{ByPolicy, default_policy};

use crate::checkpoint::Checkpoint;

/// What a run begins with: for [`TrainerBuilder::resume`](crate::TrainerBuilder::resume).
///
/// A text names a run as on the command line: `"auto"` or a path.
///
/// ```
/// use pronk::Resume;
///
/// let auto: Resume = "auto".parse()?;
/// let path: Resume = "runs/1".parse()?;
/// # let _ = (auto, path);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Debug)]
pub struct Resume(pub(crate) From);

/// Where it comes from.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // one per run
pub(crate) enum From {
    /// The folder of the run's own checkpoints.
    Auto,
    /// A folder or a manifest.
    Path(PathBuf),
    /// Weights and optimisers alone.
    Weights(ByPolicy<Checkpoint>),
}

impl Resume {
    /// The newest whole checkpoint in the folder of the run's own
    /// [`checkpoints`](crate::TrainerBuilder::checkpoints), or a new run if there is none. Damaged ones are named
    /// in a warning and passed over.
    pub fn auto() -> Self {
        Self(From::Auto)
    }

    /// Whether it names a run, and not weights alone.
    pub(crate) fn is_of_a_run(&self) -> bool {
        !matches!(self.0, From::Weights(_))
    }

    /// The run that was saved in the folder `path`, as [`auto`](Self::auto), or in one of its manifests; of a
    /// folder with checkpoints in a folder `checkpoints`, such as a run's, these. If there is none, that is
    /// an error. If it holds weights alone, the run begins with these.
    pub fn from(path: impl AsRef<Path>) -> Self {
        Self(From::Path(path.as_ref().to_owned()))
    }
}

impl FromStr for Resume {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "auto" { Self::auto() } else { Self::from(text) })
    }
}

/// The weights and optimiser of the only policy.
impl std::convert::From<&Checkpoint> for Resume {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self(From::Weights([(default_policy(), checkpoint.clone())].into()))
    }
}

/// The weights and optimisers of policies, as [`Checkpoint::load_all`] returns them.
impl std::convert::From<ByPolicy<Checkpoint>> for Resume {
    fn from(checkpoints: ByPolicy<Checkpoint>) -> Self {
        Self(From::Weights(checkpoints))
    }
}
