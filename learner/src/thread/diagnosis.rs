//! The diagnosis of a starved learner.

use std::fmt;
use std::time::Duration;

use pronk_metrics::ThreadTime;

/// Name of the learner's thread, in the operating system, in the time ledger and in errors.
pub(crate) const THREAD_NAME: &str = "learner";

/// How many threads a diagnosis names: those longest in their state, which are the ones to look at.
const THREADS_NAMED: usize = 8;

/// Why a step had nothing to learn from: how long it waited, what is on its way, and what every thread does.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// How long this step waited.
    pub waited: Duration,
    /// How long the learner has waited since its last batch, over all time-outs in a row.
    pub waited_in_a_row: Duration,
    /// Time-outs since its last batch, this one included.
    pub time_outs_in_a_row: u32,
    /// Batches or fragments that wait in front of the learner without making a train batch.
    pub backlog: usize,
    /// Passes completed before.
    pub passes: u64,
    /// Every thread of the run, with the state it is in and since when.
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
