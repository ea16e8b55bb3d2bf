use std::ops::ControlFlow;

use crate::env::Frame;

/// Looks at a frame, and says whether it wants more.
pub type OnFrame<'a> = dyn FnMut(Frame) -> ControlFlow<()> + 'a;

/// Looks at the first episode of environment 0.
pub(super) struct Spectator<'a, 'b> {
    /// `None` without one, and once it has seen enough.
    on_frame: Option<&'a mut OnFrame<'b>>,
}

impl<'a, 'b> Spectator<'a, 'b> {
    pub(super) fn new(on_frame: Option<&'a mut OnFrame<'b>>) -> Self {
        Self { on_frame }
    }

    /// Whether it wants a frame.
    pub(super) fn looks(&self) -> bool {
        self.on_frame.is_some()
    }

    /// Shows it what a reset or step led to, if that could be drawn, and whether it was the last of the
    /// episode.
    pub(super) fn see(&mut self, frame: Option<Frame>, is_last: bool) {
        let Some(on_frame) = &mut self.on_frame else { return };
        let sees_enough = frame.is_none_or(|frame| on_frame(frame).is_break());
        if sees_enough || is_last {
            self.on_frame = None;
        }
    }
}
