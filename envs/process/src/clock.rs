//! The clock and the processor time of a child.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pronk_metrics::{ProcessorClock, thread_states};

thread_states! {
    /// What a child does, as its parent sees it.
    pub(crate) enum ChildState {
        /// Starting and making its environments.
        Starting = "starting",
        /// Executing an order, until the answer is read.
        Stepping = "stepping",
        /// Waiting for an order.
        Waiting = "waiting",
        /// Closing its environments, until its end.
        Closing = "closing",
    }
}

/// `USER_HZ`, the unit of processor times in `/proc`: a constant of the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// The processor time of a child, readable while it runs and afterwards.
#[derive(Debug)]
pub(crate) struct ChildProcessorTime(Mutex<Reading>);

#[derive(Debug)]
struct Reading {
    /// `None` once reaped: then the id may be another process's.
    pid: Option<u32>,
    newest: Option<Duration>,
}

impl ChildProcessorTime {
    pub(crate) fn new(pid: u32) -> Self {
        Self(Mutex::new(Reading { pid: Some(pid), newest: None }))
    }

    /// Takes a last reading, then reaps the child with `reap`.
    pub(crate) fn before<T>(&self, reap: impl FnOnce() -> T) -> T {
        let mut reading = self.lock();
        reading.update();
        reading.pid = None;
        // Under the lock, so that no reader uses an id that is no longer the child's.
        reap()
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        // A reading is consistent at every instant, so poisoning does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessorClock for ChildProcessorTime {
    fn processor_time(&self) -> Option<Duration> {
        let mut reading = self.lock();
        reading.update();
        reading.newest
    }
}

impl Reading {
    fn update(&mut self) {
        let now =
            self.pid.and_then(|pid| fs::read(format!("/proc/{pid}/stat")).ok()).as_deref().and_then(processor_time);
        // User and system time are rounded separately, so the sum may step back.
        self.newest = self.newest.max(now);
    }
}

/// The processor time in `/proc/<pid>/stat`: of all threads of a process, and of the children it has reaped.
fn processor_time(stat: &[u8]) -> Option<Duration> {
    // The name, in parentheses, may contain anything. The state and ten other fields follow.
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(&stat[after_name + 1..]).ok()?.split_ascii_whitespace().skip(11).take(4);
    // utime, stime, cutime, cstime
    let ticks: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    (ticks.len() == 4).then(|| Duration::from_secs_f64(ticks.iter().sum::<u64>() as f64 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_threads_and_of_children_waited_for() {
        let stat = b"7 (a) (b) S 1 7 7 0 -1 4194304 119 5 0 0 30 20 40 10 20 0 1 0 318503 3133440 381";
        assert_eq!(processor_time(stat), Some(Duration::from_secs(1)));
        assert_eq!(processor_time(b"7 (a) S 1 7"), None);
        assert_eq!(processor_time(b""), None);
    }

    #[test]
    fn the_last_reading_outlives_the_process() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let time = ChildProcessorTime::new(child.id());
        // It ends after its one line.
        let mut line = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let status = time.before(|| child.wait()).unwrap();
        assert!(status.success());
        let used = time.processor_time().unwrap();
        assert!(used > Duration::ZERO);
        assert_eq!(time.processor_time(), Some(used));
    }
}
