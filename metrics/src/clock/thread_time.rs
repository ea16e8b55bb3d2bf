use std::fmt;
use std::time::Duration;

/// Reads the processor time of a process that works for the run: see
/// [`TimeLedger::start_process`](crate::TimeLedger::start_process).
///
/// ```
/// use std::time::Duration;
///
/// use pronk_metrics::ProcessorClock;
///
/// /// A process without a reading.
/// #[derive(Debug)]
/// struct Unknown;
///
/// impl ProcessorClock for Unknown {
///     fn processor_time(&self) -> Option<Duration> {
///         None
///     }
/// }
/// ```
pub trait ProcessorClock: fmt::Debug + Send + Sync {
    /// The processor time of all its threads until now, or until its end; `None` if unknown. Never decreases.
    fn processor_time(&self) -> Option<Duration>;
}

/// The time of a thread, or of several threads of one name together.
///
/// ```
/// # pronk_metrics::thread_states! { enum S { Idle = "idle", Busy = "busy" } }
/// let clock = pronk_metrics::StateClock::new("learner", S::Idle);
/// let time = clock.reader().read();
/// assert_eq!((time.states[0].0, time.states[1]), ("idle", ("busy", 0.0)));
/// assert_eq!(time.sum_secs(), time.states[0].1);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTime {
    /// The thread's name.
    pub thread: String,
    /// Seconds from the clock's start until now or until the thread's end, measured independently of the
    /// states.
    pub wall_secs: f64,
    /// Every state with its seconds.
    pub states: Vec<(&'static str, f64)>,
    /// The current state, of the newest thread; `None` once all have ended.
    pub current: Option<&'static str>,
    /// Seconds in the current state so far; 0 once the thread has ended.
    pub since_secs: f64,
    /// The number of threads.
    pub n_threads: u64,
    /// The number of switches.
    pub n_switches: u64,
    /// Processor time of a process outside of this one; `None` for threads, whose processor time the system
    /// counts together.
    pub processor_secs: Option<f64>,
}

impl ThreadTime {
    /// The sum of all states.
    pub fn sum_secs(&self) -> f64 {
        self.states.iter().map(|(_, secs)| secs).sum()
    }

    /// Whether the states account for the wall time, to 0.1 % and a microsecond.
    pub fn is_closed(&self) -> bool {
        (self.sum_secs() - self.wall_secs).abs() <= 1e-3 * self.wall_secs + 1e-6
    }

    /// Subtracts the time `before` of the same threads, whose number stays.
    pub fn subtract(&mut self, before: &ThreadTime) {
        for (state, secs) in &mut self.states {
            let earlier = before.states.iter().find(|(known, _)| known == state).map_or(0.0, |(_, secs)| *secs);
            *secs = (*secs - earlier).max(0.0);
        }
        self.wall_secs = (self.wall_secs - before.wall_secs).max(0.0);
        self.n_switches -= before.n_switches.min(self.n_switches);
        let earlier = before.processor_secs.unwrap_or(0.0);
        self.processor_secs = self.processor_secs.map(|secs| (secs - earlier).max(0.0));
    }

    /// Adds the time of `later`, a newer thread of the same name.
    pub fn add(&mut self, later: &ThreadTime) {
        for &(state, secs) in &later.states {
            match self.states.iter_mut().find(|(known, _)| *known == state) {
                Some((_, sum)) => *sum += secs,
                None => self.states.push((state, secs)),
            }
        }
        self.wall_secs += later.wall_secs;
        self.n_threads += later.n_threads;
        self.n_switches += later.n_switches;
        if let Some(secs) = later.processor_secs {
            *self.processor_secs.get_or_insert_default() += secs;
        }
        if later.current.is_some() {
            (self.current, self.since_secs) = (later.current, later.since_secs);
        }
    }
}
