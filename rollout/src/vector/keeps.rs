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

    /// The actions, where they are kept.
    #[inline]
    pub(crate) fn actions(&mut self) -> Option<&mut A> {
        match self {
            Self::Actions(actions) => Some(actions),
            Self::Nothing | Self::Undecided | Self::Snapshots => None,
        }
    }
}
