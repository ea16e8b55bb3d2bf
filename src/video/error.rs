use std::io;
use std::path::PathBuf;

use pronk_rollout::EvaluateError;

/// Why there is no video.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VideoError {
    /// An invalid option.
    #[error("{reason}")]
    Options {
        /// Which option, and what to do.
        reason: String,
    },
    /// The episode could not be played.
    #[error(transparent)]
    Play(Box<EvaluateError>),
    /// A frame of another size than the first.
    #[error(
        "frame {frame} has {}×{} pixels and the first has {}×{}: all frames of an environment need one size",
        size.0, size.1, first.0, first.1
    )]
    Size {
        /// The frame, from 1.
        frame: u32,
        /// Its width and height.
        size: (u32, u32),
        /// Width and height of the first.
        first: (u32, u32),
    },
    /// A frame could not be compressed.
    #[error("cannot encode a frame: {0}")]
    Encode(#[from] png::EncodingError),
    /// The file could not be written.
    #[error("cannot write the video to {}: {source}", path.display())]
    Save {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
