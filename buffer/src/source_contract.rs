//! The contract of every [`Source`], as functions for the tests of implementers; [`check_all`] runs all of
//! them.
//!
//! ```
//! use pronk_buffer::source_contract::{Rig, check_all};
//! use pronk_buffer::{Gate, inqueue, shutdown};
//!
//! check_all(|| {
//!     let (shutdown, token) = shutdown();
//!     let (sender, source) = inqueue(8, Gate::Bounded, &token).unwrap();
//!     Rig { source, feed: move |n| drop(sender.push(n)), number: |n| *n, shutdown }
//! });
//! ```

use std::fmt::Debug;
use std::time::Duration;

use crate::shutdown::ShutdownGuard;
use crate::source::{NextError, Source};

/// Longer than any wait that ends as it should.
const LONG: Duration = Duration::from_secs(60);

/// A source under test, and its controls.
#[derive(Debug)]
pub struct Rig<S: Source, F> {
    /// The source, with nothing in it and room for at least four items.
    pub source: S,
    /// Sends the item of this number; dropping it drops the only sender.
    pub feed: F,
    /// The number of an item.
    pub number: fn(&S::Item) -> u64,
    /// Ends the run of the source.
    pub shutdown: ShutdownGuard,
}

/// Calls every function of this module.
pub fn check_all<S: Source<Item: Debug>, F: FnMut(u64)>(make: impl Fn() -> Rig<S, F>) {
    items_come_in_the_order_sent(make());
    a_time_out_loses_nothing(make());
    what_was_sent_comes_before_closed(make());
    ending_the_run_ends_a_wait(make());
    drain_gives_what_is_left_when_the_run_ended(make());
    an_empty_source_has_no_backlog(make());
}

/// First in, first out.
pub fn items_come_in_the_order_sent<S: Source<Item: Debug>, F: FnMut(u64)>(mut rig: Rig<S, F>) {
    for n in 1..=4 {
        (rig.feed)(n);
    }
    for n in 1..=4 {
        rig.expect(n);
    }
}

/// A timeout is reported, and the next item still arrives.
pub fn a_time_out_loses_nothing<S: Source<Item: Debug>, F: FnMut(u64)>(mut rig: Rig<S, F>) {
    for n in 1..=2 {
        let empty = rig.source.next(Duration::ZERO);
        assert!(matches!(empty, Err(NextError::TimedOut)), "nothing was sent, got {empty:?}");
        (rig.feed)(n);
        rig.expect(n);
    }
}

/// When the senders are gone, their items come first, and then `Closed`.
pub fn what_was_sent_comes_before_closed<S: Source<Item: Debug>, F: FnMut(u64)>(mut rig: Rig<S, F>) {
    (rig.feed)(1);
    (rig.feed)(2);
    let Rig { mut source, feed, number, shutdown } = rig;
    drop(feed);
    for n in 1..=2 {
        expect(&mut source, number, n);
    }
    expect_closed(&mut source);
    expect_closed(&mut source);
    drop(shutdown);
}

/// A waiting source gives up as soon as the shutdown guard is dropped.
pub fn ending_the_run_ends_a_wait<S: Source<Item: Debug>, F: FnMut(u64)>(rig: Rig<S, F>) {
    let Rig { mut source, feed, shutdown, .. } = rig;
    std::thread::scope(|scope| {
        scope.spawn(move || drop(shutdown));
        expect_closed(&mut source);
    });
    drop(feed); // alive until here, so it was not the missing sender that closed the source
}

/// Draining returns all items of a run that has ended.
pub fn drain_gives_what_is_left_when_the_run_ended<S: Source<Item: Debug>, F: FnMut(u64)>(mut rig: Rig<S, F>) {
    for n in 1..=3 {
        (rig.feed)(n);
    }
    rig.expect(1);
    let Rig { mut source, feed, number, shutdown } = rig;
    drop(shutdown);
    expect_closed(&mut source);
    let left: Vec<u64> = source.drain().iter().map(number).collect();
    assert_eq!(left, [2, 3], "drain gives what is left, in order");
    assert!(source.drain().is_empty(), "a second drain gives nothing");
    drop(feed);
}

/// The backlog counts waiting items; that of an empty source is 0.
pub fn an_empty_source_has_no_backlog<S: Source<Item: Debug>, F: FnMut(u64)>(mut rig: Rig<S, F>) {
    assert_eq!(rig.source.backlog(), 0);
    (rig.feed)(1);
    rig.expect(1);
    assert_eq!(rig.source.backlog(), 0);
}

impl<S: Source<Item: Debug>, F> Rig<S, F> {
    fn expect(&mut self, n: u64) {
        expect(&mut self.source, self.number, n);
    }
}

fn expect<S: Source<Item: Debug>>(source: &mut S, number: fn(&S::Item) -> u64, n: u64) {
    let next = source.next(LONG);
    assert!(matches!(&next, Ok(item) if number(item) == n), "item {n} is next, got {next:?}");
}

fn expect_closed<S: Source<Item: Debug>>(source: &mut S) {
    let next = source.next(LONG);
    assert!(matches!(next, Err(NextError::Closed)), "the source is closed, got {next:?}");
}
