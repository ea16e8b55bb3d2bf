use crate::env::Frame;

/// The last frame of the episode that ended last of one environment of a vector, where a video is recorded.
#[derive(Debug, Default)]
pub(super) struct LastFrame {
    /// The environment; `None` where no video is recorded.
    of: Option<usize>,
    frame: Option<Frame>,
}

impl LastFrame {
    /// Keeps those of environment `index` from now on.
    pub(super) fn keep(&mut self, index: usize) {
        self.of = Some(index);
    }

    /// Calls `draw` as an episode of environment `index` ends, if those frames are kept.
    pub(super) fn ended<E>(&mut self, index: usize, draw: impl FnOnce() -> Result<Option<Frame>, E>) -> Result<(), E> {
        if self.of == Some(index) {
            self.frame = draw()?;
        }
        Ok(())
    }

    pub(super) fn take(&mut self) -> Option<Frame> {
        self.frame.take()
    }
}
