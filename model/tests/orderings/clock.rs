use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::{lazy_static, thread};
use pronk_metrics::{ProcessorClock, ThreadTime};

use crate::exhaust;
use sequence::Shared;

/// The lock-free part of a clock, with the atomics of loom.
#[allow(dead_code, unreachable_pub, reason = "a model needs a part of it, and has it for itself")]
#[path = "../../../metrics/src/clock/sequence.rs"]
mod sequence;

/// What it takes from its room.
mod sync {
    pub(super) use super::Instant;
    pub(super) use loom::{hint, sync::atomic, thread};
    pub(super) use std::sync::Arc;
}

lazy_static! {
    /// Of loom, so that other threads may go on before a thread looks at the time.
    static ref LOOKS: AtomicU64 = AtomicU64::new(0);
}

/// A time that goes on by a second at each look.
#[derive(Clone, Copy, Debug)]
struct Instant(u64);

impl Instant {
    fn now() -> Self {
        Self(LOOKS.fetch_add(1, Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(Self::now().0 - self.0)
    }
}

const NAMES: &[&str] = &["a", "b"];

/// A thread that goes from one state to the other and ends.
fn start() -> (thread::JoinHandle<()>, Arc<Shared>) {
    let clock = Arc::new(Shared::new(String::new(), NAMES, 0, None));
    let writing = Arc::clone(&clock);
    let thread = thread::spawn(move || {
        writing.switch(0, 1);
        writing.end(1);
    });
    (thread, clock)
}

/// What a reader sees belongs together: the states sum to the time of the thread, and the state, the switches
/// and the end are those of one instant.
#[test]
fn what_a_reader_sees_belongs_together() {
    exhaust("clock", || {
        let (thread, clock) = start();
        let time = clock.read();
        assert!(time.is_closed(), "{time:?}");
        match time.current {
            Some("a") => assert!(time.n_switches == 0 && time.states[1].1 == 0.0, "{time:?}"),
            Some(_) => assert!(time.n_switches == 1, "{time:?}"),
            None => assert!(time.n_switches == 1 && time.since_secs == 0.0, "{time:?}"),
        }
        thread.join().unwrap();
    });
}

/// A thread that looks after another one sees no state with less time, and none that was left with more.
#[test]
fn no_state_has_less_time_than_before() {
    exhaust("clock, read twice", || {
        let (thread, clock) = start();
        let earlier = clock.read();
        let later = clock.read();
        assert!(later.n_switches >= earlier.n_switches && later.wall_secs >= earlier.wall_secs);
        for ((_, before), (_, after)) in earlier.states.iter().zip(&later.states) {
            assert!(after >= before, "{earlier:?} {later:?}");
        }
        thread.join().unwrap();
    });
}
