//! The diagnosis of a starved learner.

use std::fmt;
use std::time::Duration;

use pronk_metrics::ThreadTime;

/// The name of the learner's thread.
pub(crate) const THREAD_NAME: &str = "learner";

/// The number of threads that a diagnosis names: those longest in their state.
const THREADS_NAMED: usize = 8;

/// Why the learner starves: how long it has waited, what is queued, and the state of every thread.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// How long this step waited.
    pub waited: Duration,
    /// How long the learner has waited since its last batch.
    pub waited_in_a_row: Duration,
    /// Timeouts since its last batch, including this one.
    pub time_outs_in_a_row: u32,
    /// Batches or fragments queued, too few for a train batch.
    pub backlog: usize,
    /// Completed passes.
    pub passes: u64,
    /// Every thread of the run, with its state and since when.
    pub threads: Vec<ThreadTime>,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no train batch came within {:.1} s (time-out {} in a row, {:.1} s in all); {} waiting in front of the \
             learner, {} passes done",
            self.waited.as_secs_f64(),
            self.time_outs_in_a_row,
            self.waited_in_a_row.as_secs_f64(),
            self.backlog,
            self.passes,
        )?;
        let mut others: Vec<_> = self.threads.iter().filter(|time| time.thread != THREAD_NAME).collect();
        others.sort_by(|a, b| b.since_secs.total_cmp(&a.since_secs));
        for (index, time) in others.iter().take(THREADS_NAMED).enumerate() {
            f.write_str(if index == 0 { "; threads: " } else { ", " })?;
            match time.current {
                Some(state) => write!(f, "{} `{state}` for {:.1} s", time.thread, time.since_secs)?,
                None => write!(f, "{} ended", time.thread)?,
            }
        }
        if others.len() > THREADS_NAMED {
            write!(f, " and {} more", others.len() - THREADS_NAMED)?;
        }
        f.write_str(
            "; an environment that hangs or crawls keeps its thread in one state: look at the first one named, or \
             raise `learner_queue_timeout`",
        )
    }
}
