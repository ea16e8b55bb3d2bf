/// The open spans of one thread.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) open: Vec<OpenSpan>,
    last_ns: u64,
}

#[derive(Debug)]
pub(super) struct OpenSpan {
    pub(super) span: u64,
    pub(super) name: &'static str,
    /// Further entries of the span while the file was full.
    left_out: u64,
}

impl Lane {
    pub(super) fn push(&mut self, span: u64, name: &'static str) {
        self.open.push(OpenSpan { span, name, left_out: 0 });
    }

    /// Counts an unwritten begin of the open `span`, to which its next end belongs.
    pub(super) fn leave_out(&mut self, span: u64) {
        if let Some(open) = self.open.iter_mut().rfind(|open| open.span == span) {
            open.left_out += 1;
        }
    }

    /// The index of the innermost open entry of `span`, unless an unwritten one ends now.
    pub(super) fn ends(&mut self, span: u64) -> Option<usize> {
        let at = self.open.iter().rposition(|open| open.span == span)?;
        if self.open[at].left_out > 0 {
            self.open[at].left_out -= 1;
            return None;
        }
        Some(at)
    }

    /// `now_ns`, or the time of the lane's last event if that is later.
    pub(super) fn at(&mut self, now_ns: u64) -> u64 {
        self.last_ns = self.last_ns.max(now_ns);
        self.last_ns
    }
}
