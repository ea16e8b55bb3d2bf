/// Whether and how an episode ended with a step.
///
/// The two ways stay apart because they mean different things to a value estimate: after `Terminated` nothing
/// more can be earned; after `Truncated` the episode would have gone on, so its final observation is kept and
/// bootstrapped from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
