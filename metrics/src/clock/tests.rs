#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ResultDict;

crate::thread_states! {
    /// States for these tests.
    enum S {
        A = "a",
        B = "b",
        C = "c",
    }
}

/// Keeps the thread busy until the clock of the machine has moved on by `duration`.
fn work(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn time_goes_to_the_state_it_was_spent_in() {
    let mut clock = StateClock::new("t", S::A);
    let reader = clock.reader();
    work(Duration::from_millis(2));
    clock.enter(S::B);
    let left_a = reader.read().states[0].1;
    assert!(left_a >= 0.002);
    work(Duration::from_millis(1));
    let time = reader.read();
    assert_eq!(time.states[0], ("a", left_a), "a state that was left gets no more time");
    assert!(time.states[1].1 >= 0.001, "the current state's time is visible before it is left");
    assert_eq!((time.states[2], time.current), (("c", 0.0), Some("b")));
    assert_eq!(time.since_secs, time.states[1].1);
    assert_eq!(clock.state(), S::B);
    assert!(time.is_closed());
}

#[test]
fn entering_the_current_state_goes_on_with_it() {
    let mut clock = StateClock::new("t", S::A);
    work(Duration::from_micros(100));
    clock.enter(S::A);
    let time = clock.reader().read();
    assert!(time.since_secs >= 1e-4);
    assert!(time.is_closed());
}

#[test]
fn time_stops_when_the_clock_is_dropped_by_a_panic_as_well() {
    let clock = StateClock::new("t", S::A);
    let reader = clock.reader();
    let ended = thread::spawn(move || {
        let mut clock = clock;
        clock.enter(S::C);
        std::panic::resume_unwind(Box::new("the thread's own failure"));
    });
    assert!(ended.join().is_err());
    let time = reader.read();
    assert_eq!((time.current, time.since_secs), (None, 0.0));
    assert!(time.is_closed());
    work(Duration::from_micros(100));
    assert_eq!(reader.read(), time);
}

#[test]
fn time_without_a_state_keeps_the_ledger_open() {
    #[derive(Clone, Copy)]
    struct Nameless;
    impl ThreadState for Nameless {
        const NAMES: &'static [&'static str] = &["a"];
        fn index(self) -> usize {
            1
        }
    }
    let clock = StateClock::new("t", Nameless);
    work(Duration::from_micros(100));
    let time = clock.reader().read();
    assert!(!time.is_closed());
    assert_eq!((time.current, time.states), (None, vec![("a", 0.0)]));
}

#[test]
fn closing_means_a_thousandth_and_a_microsecond() {
    let time = |wall_secs, spent| ThreadTime {
        thread: "t".into(),
        wall_secs,
        states: vec![("a", spent)],
        current: None,
        since_secs: 0.0,
        n_threads: 1,
        n_switches: 0,
        processor_secs: None,
    };
    assert!(time(1.0, 1.001).is_closed());
    assert!(!time(1.0, 1.0011).is_closed());
    assert!(!time(1.0, 0.9989).is_closed());
    assert!(time(0.0, 1e-6).is_closed());
    assert!(!time(0.0, 2e-6).is_closed());
    assert!(!time(f64::NAN, 1.0).is_closed());
}

#[test]
fn live_readers_never_see_half_a_switch() {
    const READINGS: usize = 50_000;
    const SWITCHES_SEEN: usize = 50;
    let mut clock = StateClock::new("t", S::A);
    let reader = clock.reader();
    let watchers_done = AtomicUsize::new(0);
    let watch = || {
        // Counted on a failed assertion too, so that the writer ends and the failure is shown.
        let _done = CountOnDrop(&watchers_done);
        let mut earlier = reader.read();
        let (mut n_readings, mut n_seen) = (0, 0);
        while n_readings < READINGS || n_seen < SWITCHES_SEEN {
            let time = reader.read();
            // Exact but for the conversion to f64: a torn read is off by a whole stay in a state.
            assert!((time.sum_secs() - time.wall_secs).abs() < 1e-12 + 1e-12 * time.wall_secs, "{time:?}");
            assert!(time.wall_secs >= earlier.wall_secs);
            assert!(time.states.iter().zip(&earlier.states).all(|(now, before)| now.1 >= before.1));
            n_readings += 1;
            n_seen += usize::from(time.current != earlier.current);
            earlier = time;
        }
    };
    thread::scope(|scope| {
        let watchers = [scope.spawn(watch), scope.spawn(watch)];
        while watchers_done.load(Ordering::Relaxed) < watchers.len() {
            for state in [S::B, S::C, S::A] {
                clock.enter(state);
                work(Duration::from_nanos(200));
            }
        }
    });
}

struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn threads_of_one_name_have_one_account_whatever_became_of_them() {
    let ledger = TimeLedger::new();
    let learner = StateClock::new("learner", S::A);
    ledger.add(learner.reader());
    let mut wall_secs = 0.0;
    for n in 1..=100 {
        let clock = StateClock::new("rollout-1", S::C);
        ledger.add(clock.reader());
        let reader = clock.reader();
        drop(clock);
        wall_secs += reader.read().wall_secs;
        // Whenever it is looked at, no time is lost and none counts twice.
        let rollout = &ledger.read()[1];
        assert!(rollout.is_closed() && rollout.n_threads == n, "{rollout:?}");
        assert!((rollout.states[2].1 - wall_secs).abs() < 1e-9, "{rollout:?}");
    }
    let times = ledger.read();
    assert_eq!(times.iter().map(|time| &*time.thread).collect::<Vec<_>>(), ["learner", "rollout-1"]);
    assert_eq!((times[1].n_switches, times[1].current), (0, None));
    assert_eq!(ledger.n_running(), 1, "clocks that have ended are not kept");

    drop(learner);
    let mut dict = ResultDict::new();
    ledger.write_into(&mut dict, "ledger.time");
    let learner = &dict.get("ledger.time.learner").unwrap();
    assert_eq!((&learner["current"], &learner["threads"]), (&json!(null), &json!(1)));
    assert_eq!(learner["states"]["a"], learner["wall_secs"]);
    assert_eq!(learner["states"]["c"], json!(0.0));
}

#[test]
fn a_thread_whose_place_is_taken_while_it_runs_has_an_account_of_its_own_from_then_on() {
    let ledger = TimeLedger::new();
    let began = Instant::now();
    // Between a clock's start and its addition, its time and that of the one before both count.
    let mut overlap = Duration::ZERO;
    let mut start = |state| {
        let starting = Instant::now();
        let clock = StateClock::new("rollout-1", state);
        ledger.add(clock.reader());
        overlap += starting.elapsed();
        work(Duration::from_millis(2));
        clock
    };
    let hangs = [start(S::B), start(S::B)];
    let clock = start(S::A);
    let times = ledger.read();
    let passed = (began.elapsed() + overlap).as_secs_f64();
    assert_eq!(times.iter().map(|time| &*time.thread).collect::<Vec<_>>(), ["rollout-1", "rollout-1 (abandoned)"]);
    let [seat, abandoned] = &times[..] else { panic!("{times:?}") };
    assert_eq!((seat.current, seat.n_threads, abandoned.current, abandoned.n_threads), (Some("a"), 3, Some("b"), 2));
    assert!(seat.wall_secs <= passed && abandoned.wall_secs >= 0.004, "{times:?} in {passed}");
    // Read later, the clocks have no less: what counted twice would be more.
    let later: f64 = hangs.iter().chain([&clock]).map(|clock| clock.reader().read().wall_secs).sum();
    assert!(seat.wall_secs + abandoned.wall_secs <= later, "{times:?}, {later} later");
    assert!(ledger.is_closed());

    let before = abandoned.wall_secs;
    drop(hangs);
    let ended = ledger.read().remove(1);
    assert!(ended.wall_secs >= before && ended.current.is_none() && ended.is_closed(), "{ended:?}");
    assert_eq!((ledger.n_running(), ledger.read()[1].wall_secs), (1, ended.wall_secs), "it does not go on");
}

/// A process that has used so many milliseconds.
#[derive(Debug)]
struct Used(AtomicUsize);

impl ProcessorClock for Used {
    fn processor_time(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.0.load(Ordering::Relaxed) as u64))
    }
}

#[test]
fn processes_are_numbered_and_what_they_used_outlives_them() {
    let ledger = TimeLedger::new();
    let [first, second, third] = [100, 20, 3].map(|millis| Arc::new(Used(AtomicUsize::new(millis))));
    let start = |used: &Arc<Used>| ledger.start_process("env-process", S::A, used.clone());
    let (one, two) = (start(&first), start(&second));
    let used = || ledger.read().iter().map(|time| (time.thread.clone(), time.processor_secs)).collect::<Vec<_>>();
    let expected = |one, two| vec![("env-process-1".to_owned(), Some(one)), ("env-process-2".to_owned(), Some(two))];
    assert_eq!(used(), expected(0.1, 0.02));

    first.0.store(200, Ordering::Relaxed);
    drop(one);
    assert_eq!(used(), expected(0.2, 0.02));
    // Its number is free, and its account goes on.
    let _three = start(&third);
    let (seconds, expected_seconds) = (used(), expected(0.203, 0.02));
    for ((thread, secs), (expected, expected_secs)) in seconds.iter().zip(&expected_seconds) {
        assert_eq!(thread, expected);
        assert!((secs.unwrap() - expected_secs.unwrap()).abs() < 1e-9, "{seconds:?}");
    }
    assert!(ledger.is_closed() && two.state() == S::A);

    ledger.add(StateClock::new("learner", S::A).reader());
    let mut dict = ResultDict::new();
    ledger.write_into(&mut dict, "ledger.time");
    assert_eq!(dict.number("ledger.time.env-process-2.processor_secs"), Some(0.02));
    assert_eq!(dict.get("ledger.time.learner.processor_secs"), None, "a thread of this process has none of its own");
}

#[test]
fn a_process_starts_without_a_reading_of_those_that_run() {
    /// Counts its readings.
    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);
    impl ProcessorClock for Counted {
        fn processor_time(&self) -> Option<Duration> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
    let (ledger, readings) = (TimeLedger::new(), Arc::new(Counted::default()));
    let start = || ledger.start_process("env-process", S::A, readings.clone());
    let (_one, two, _three) = (start(), start(), start());
    assert_eq!(readings.0.load(Ordering::Relaxed), 0);
    drop(two);
    assert_eq!(start().reader().thread(), "env-process-2", "the number of one that has ended is free");
}

#[test]
fn switches_are_counted_and_the_end_of_a_thread_is_none() {
    let mut clock = StateClock::new("t", S::A);
    for state in [S::A, S::B, S::B, S::C, S::A] {
        clock.enter(state);
    }
    let reader = clock.reader();
    assert_eq!(reader.read().n_switches, 3);
    drop(clock);
    assert_eq!(reader.read().n_switches, 3);
}

fn reading(thread: &str, a: f64, b: f64) -> ThreadTime {
    ThreadTime {
        thread: thread.into(),
        wall_secs: a + b,
        states: vec![("a", a), ("b", b)],
        current: Some("a"),
        since_secs: 0.0,
        n_threads: 1,
        n_switches: 0,
        processor_secs: None,
    }
}

#[test]
fn shares_are_of_the_time_since_the_earlier_reading() {
    let before = [reading("x", 1.0, 1.0), reading("still", 1.0, 2.0)];
    let now = [reading("x", 2.0, 4.0), reading("still", 1.0, 2.0), reading("new", 1.0, 3.0)];
    let mut dict = ResultDict::new();
    write_shares(&now, &before, &mut dict, "shares");
    assert_eq!(
        dict.get("shares"),
        Some(&json!({
            "x": {"a": 0.25, "b": 0.75},
            "still": {"a": 0.0, "b": 0.0},
            "new": {"a": 0.25, "b": 0.75},
        }))
    );
}

#[test]
fn shares_stay_between_0_and_1_in_spite_of_rounding() {
    let (mut now, before) = (reading("x", 0.3, 0.1), reading("x", 0.1, 0.1));
    now.wall_secs = 0.39;
    let mut dict = ResultDict::new();
    write_shares(&[now], &[before], &mut dict, "shares");
    assert_eq!(dict.number("shares.x.a"), Some(1.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_states_sum_to_the_wall_time_whatever_is_entered(
        moves in prop::collection::vec((0usize..3, 0u64..20), 0..40),
        end in any::<bool>(),
    ) {
        let mut clock = StateClock::new("t", S::A);
        let reader = clock.reader();
        for (state, micros) in moves {
            work(Duration::from_micros(micros));
            clock.enter([S::A, S::B, S::C][state]);
            prop_assert!(reader.read().is_closed());
        }
        if end {
            drop(clock);
        }
        let time = reader.read();
        prop_assert!((time.sum_secs() - time.wall_secs).abs() < 1e-12, "{time:?}");
    }
}
