/// The states of a thread, made by [`thread_states!`](crate::thread_states). Time under an index without a
/// name belongs to no state, so the ledger does not close.
pub trait ThreadState: Copy + 'static {
    /// The names of the states in the result dict.
    const NAMES: &'static [&'static str];

    /// The index of this state's name in [`NAMES`](ThreadState::NAMES).
    fn index(self) -> usize;
}

/// Defines an enum of thread states with their names in the result dict.
///
/// ```
/// use pronk_metrics::{ThreadState, thread_states};
///
/// thread_states! {
///     /// States of the learner thread.
///     pub enum LearnerState {
///         /// Waiting for data.
///         Starved = "starved",
///         /// Computing an update.
///         Learning = "learning",
///     }
/// }
///
/// assert_eq!(LearnerState::NAMES, ["starved", "learning"]);
/// assert_eq!(LearnerState::Learning.index(), 1);
/// ```
#[macro_export]
macro_rules! thread_states {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$state_meta:meta])* $state:ident = $text:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[$state_meta])* $state),+
        }

        impl $crate::ThreadState for $name {
            const NAMES: &'static [&'static str] = &[$($text),+];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
