use crate::env::SavedEpisodes;

/// What is kept of a running episode so that it can be continued elsewhere.
#[derive(Debug, Default)]
pub(crate) enum Keeps<A> {
    /// Nothing: the run saves no checkpoints.
    #[default]
    Nothing,
    /// To be decided by the first reset.
    Undecided,
    /// Nothing, because the environment saves its own state.
    Snapshots,
    /// Its actions so far.
    Actions(A),
}

impl<A> Keeps<A> {
    /// An episode begins; `saves_itself` says whether the environment has a state to save.
    pub(crate) fn begin(&mut self, saves_itself: impl FnOnce() -> bool, none: impl FnOnce() -> A) {
        match self {
            Self::Nothing | Self::Snapshots => {}
            Self::Undecided if saves_itself() => *self = Self::Snapshots,
            Self::Undecided | Self::Actions(_) => *self = Self::Actions(none()),
        }
    }

    /// The actions, where the next one of an episode of `len` steps is to be kept.
    #[inline]
    pub(crate) fn actions(&mut self, len: u32) -> Option<&mut A> {
        match self {
            Self::Actions(actions) if len < SavedEpisodes::LONGEST_REPLAY => Some(actions),
            Self::Nothing | Self::Undecided | Self::Snapshots | Self::Actions(_) => None,
        }
    }

    /// All actions of an episode of `len` steps, if they were kept.
    pub(crate) fn all_actions(&self, len: u32) -> Option<&A> {
        match self {
            Self::Actions(actions) if len <= SavedEpisodes::LONGEST_REPLAY => Some(actions),
            Self::Nothing | Self::Undecided | Self::Snapshots | Self::Actions(_) => None,
        }
    }
}
