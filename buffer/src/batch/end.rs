use serde::{Deserialize, Serialize};

/// Whether and how a step ended its episode.
///
/// Value estimates need the difference: nothing can be earned after `Terminated`, while a `Truncated` episode
/// would have continued, so its value is bootstrapped from its final observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum End {
    /// The episode continues.
    #[default]
    No = 0,
    /// The environment reached a terminal state.
    Terminated = 1,
    /// The episode was cut off, for example by a step limit.
    Truncated = 2,
}
