//! Processor time of a run.

use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use pronk_metrics::ThreadTime;

use crate::bottleneck::Processors;

/// A reading of the processor time of this process and its environments' processes.
#[derive(Clone, Copy)]
pub(super) struct ProcessorTime {
    at: Instant,
    /// In seconds; `None` if the system does not report it.
    spent: Option<f64>,
}

impl ProcessorTime {
    /// `threads` is the time ledger, which has the other processes.
    pub(super) fn now(threads: &[ThreadTime]) -> Self {
        let elsewhere: f64 = threads.iter().filter_map(|thread| thread.processor_secs).sum();
        Self { at: Instant::now(), spent: processor_time().map(|own| own.as_secs_f64() + elsewhere) }
    }

    /// Processors used since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Option<Processors> {
        let spent = (self.spent? - earlier.spent?).max(0.0);
        let wall = self.at.duration_since(earlier.at).as_secs_f64();
        let available = (*AVAILABLE)?;
        (wall > 0.0).then(|| Processors { busy: spent / wall, available })
    }
}

/// Cached, because the lookup reads files.
static AVAILABLE: LazyLock<Option<usize>> = LazyLock::new(|| Some(available_parallelism().ok()?.get()));

/// Processor time of this process.
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
        let before = ProcessorTime::now(&[]);
        while ProcessorTime::now(&[]).spent.zip(before.spent).is_some_and(|(now, then)| now - then < 0.02) {}
        let used = ProcessorTime::now(&[]).since(before);
        assert!(cfg!(not(unix)) || used.is_some_and(|used| used.busy > 0.0 && used.available > 0), "{used:?}");
    }
}
