//! What a run uses of the machine.

use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::bottleneck::Processors;

/// A reading of the processor time of this process.
#[derive(Clone, Copy)]
pub(super) struct ProcessorTime {
    at: Instant,
    /// `None` where the system does not say.
    spent: Option<Duration>,
}

impl ProcessorTime {
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), spent: processor_time() }
    }

    /// What was used since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Option<Processors> {
        let spent = self.spent?.checked_sub(earlier.spent?)?.as_secs_f64();
        let wall = self.at.duration_since(earlier.at).as_secs_f64();
        let available = (*AVAILABLE)?;
        (wall > 0.0).then(|| Processors { busy: spent / wall, available })
    }
}

/// Asked for once, because the system looks it up in files.
static AVAILABLE: LazyLock<Option<usize>> = LazyLock::new(|| Some(available_parallelism().ok()?.get()));

/// Of all threads of this process together.
#[cfg(unix)]
fn processor_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).ok()
}

#[cfg(not(unix))]
fn processor_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_keeps_a_processor_busy_and_one_that_sleeps_does_not() {
        let before = ProcessorTime::now();
        while ProcessorTime::now()
            .spent
            .zip(before.spent)
            .is_some_and(|(now, then)| now - then < Duration::from_millis(20))
        {}
        let used = ProcessorTime::now().since(before);
        assert!(cfg!(not(unix)) || used.is_some_and(|used| used.busy > 0.0 && used.available > 0), "{used:?}");
    }
}
