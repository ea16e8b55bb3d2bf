use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

use pronk_metrics::{StepLedger, StepTicket, Steps};

use super::*;
use crate::source_contract::{Rig, check_all};
use crate::{Gate, InqueueReceiver, InqueueSender, MinibatchBuffer, inqueue};

mod endings;
mod ring;

/// Longer than any wait that ends as promised.
const LONG: Duration = Duration::from_secs(60);

type LoadResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A place for one number, with the ticket that came with it.
#[derive(Debug)]
struct Place {
    stack: usize,
    number: u64,
    loads: usize,
    ticket: Option<StepTicket>,
}

/// A number with the ticket of one step.
#[derive(Debug)]
struct Numbered {
    number: u64,
    ticket: Option<StepTicket>,
}

impl From<u64> for Numbered {
    fn from(number: u64) -> Self {
        Self { number, ticket: None }
    }
}

fn places(n: usize) -> Vec<Place> {
    (0..n).map(|stack| Place { stack, number: 0, loads: 0, ticket: None }).collect()
}

/// Puts numbers into places, and calls a function before it does.
struct Put<F>(F);

impl<F: FnMut(u64) -> LoadResult> Loader<Numbered> for Put<F> {
    type Stack = Place;

    fn load(&mut self, batch: Numbered, stack: &mut Place) -> LoadResult {
        (self.0)(batch.number)?;
        stack.number = batch.number;
        stack.ticket = batch.ticket;
        stack.loads += 1;
        Ok(())
    }
}

/// Everything that governs the loaders of a test.
struct Bench {
    sender: InqueueSender<Numbered>,
    time: TimeLedger,
    shutdown: ShutdownGuard,
}

type Stacks = LoaderStacks<InqueueReceiver<Numbered>, Place>;

fn config(n_loaders: usize) -> LoaderConfig {
    let num_data_load_threads = NonZeroUsize::new(n_loaders).unwrap();
    LoaderConfig { num_data_load_threads, join_within: LONG }
}

/// Loaders that call `before_load` with each number, behind an inqueue for `capacity` of them.
fn set_up<F>(n_loaders: usize, n_stacks: usize, capacity: usize, before_load: F) -> (Bench, Stacks)
where
    F: Fn(u64) -> LoadResult + Clone + Send + Sync + 'static,
{
    let (shutdown, token) = shutdown();
    let (sender, source) = inqueue(capacity, Gate::Bounded, &token).unwrap();
    let time = TimeLedger::new();
    let parts = LoaderParts { source, stacks: places(n_stacks), time: time.clone(), token };
    let stacks = LoaderStacks::start(config(n_loaders), parts, move |_| Ok(Put(before_load.clone()))).unwrap();
    (Bench { sender, time, shutdown }, stacks)
}

fn at_once(_: u64) -> LoadResult {
    Ok(())
}

/// Waits for what other threads will do anyway.
fn until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LONG, "it never came");
        std::thread::yield_now();
    }
}

#[test]
fn every_batch_comes_once_whatever_the_number_of_loaders_and_stacks() {
    const N: u64 = if cfg!(miri) { 20 } else { 200 };
    for n_loaders in [1, 2, 4] {
        for n_stacks in [1, 2, 4] {
            let (bench, mut stacks) = set_up(n_loaders, n_stacks, 3, at_once);
            let Bench { sender, time, shutdown } = bench;
            let feeder = std::thread::spawn(move || (0..N).for_each(|n| sender.push(n.into()).map(drop).unwrap()));
            let mut numbers = Vec::new();
            let mut used = BTreeSet::new();
            let closed = loop {
                assert!(stacks.backlog() <= n_stacks + 3, "no batch waits where it is not seen");
                match stacks.next(LONG) {
                    Ok(place) => {
                        numbers.push(place.number);
                        used.insert(place.stack);
                    }
                    Err(error) => break error,
                }
            };
            assert!(matches!(closed, NextError::Closed), "{closed}");
            if n_loaders == 1 {
                assert!(numbers.is_sorted(), "one loader keeps the order");
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..N).collect::<Vec<_>>(), "{n_loaders} loaders, {n_stacks} stacks");
            assert_eq!(used.len(), n_stacks, "{n_loaders} loaders, {n_stacks} stacks");
            let metrics = stacks.metrics().clone();
            assert_eq!(metrics.load().count(), N, "the loads of all loaders");
            stacks.join().unwrap();
            assert!(metrics.running().is_empty());
            let threads = time.read();
            let names: Vec<_> = threads.iter().map(|thread| thread.thread.as_str()).collect();
            assert_eq!(names, ["loader-1", "loader-2", "loader-3", "loader-4"][..n_loaders]);
            assert!(threads.iter().all(|thread| thread.is_closed() && thread.current.is_none()));
            feeder.join().unwrap();
            drop(shutdown);
        }
    }
}

#[test]
fn a_stack_goes_home_when_dropped_and_is_loaded_again() {
    let (bench, mut stacks) = set_up(1, 1, 4, at_once);
    for n in 1..=3 {
        bench.sender.push(n.into()).unwrap();
    }
    for n in 1..=3 {
        let place = stacks.next(LONG).unwrap();
        assert_eq!((place.stack, place.number, place.loads), (0, n, n as usize));
    }
}

#[test]
fn no_batch_is_taken_while_there_is_no_stack_for_it() {
    let (bench, mut stacks) = set_up(4, 2, 8, at_once);
    for n in 0..5 {
        bench.sender.push(n.into()).unwrap();
    }
    let held = [stacks.next(LONG).unwrap(), stacks.next(LONG).unwrap()];
    for _ in 0..100 {
        assert!(matches!(stacks.next(Duration::ZERO), Err(NextError::TimedOut)));
        assert_eq!((bench.sender.len(), stacks.backlog()), (3, 3), "the others wait where they are seen");
    }
    drop(held);
    let rest: BTreeSet<u64> = (0..3).map(|_| stacks.next(LONG).unwrap().number).collect();
    assert_eq!(rest.len(), 3);
}

#[test]
fn a_stack_can_be_written_through_its_guard() {
    let (bench, mut stacks) = set_up(1, 1, 1, at_once);
    bench.sender.push(1.into()).unwrap();
    let mut place = stacks.next(LONG).unwrap();
    place.loads = 100;
    assert_eq!(format!("{place:?}"), "Loaded(Place { stack: 0, number: 1, loads: 100, ticket: None })");
    drop(place);
    bench.sender.push(2.into()).unwrap();
    assert_eq!(stacks.next(LONG).unwrap().loads, 101);
}

#[test]
fn the_time_ledger_tells_the_wait_for_a_stack_from_the_wait_for_data() {
    let (bench, mut stacks) = set_up(1, 1, 2, at_once);
    let current = || bench.time.read()[0].current;
    until(|| current() == Some("waiting_for_data"));
    bench.sender.push(1.into()).unwrap();
    let held = stacks.next(LONG).unwrap();
    until(|| current() == Some("waiting_for_stack"));
    drop(held);
    until(|| current() == Some("waiting_for_data"));
    drop(stacks);
    let thread = &bench.time.read()[0];
    assert!(thread.is_closed() && thread.states.iter().all(|(_, secs)| *secs > 0.0), "{thread:?}");
}

#[test]
fn loaders_without_stacks_are_refused() {
    let (_guard, token) = shutdown();
    let (_sender, source) = inqueue::<Numbered>(1, Gate::Bounded, &token).unwrap();
    let parts = LoaderParts { source, stacks: Vec::new(), time: TimeLedger::new(), token };
    let error = LoaderStacks::start(config(1), parts, |_| Ok(Put(at_once))).unwrap_err();
    assert!(error.to_string().contains("num_multi_gpu_tower_stacks"), "{error}");
}

#[test]
fn each_thread_makes_its_own_loader() {
    let (shutdown, token) = shutdown();
    let (sender, source) = inqueue(1, Gate::Bounded, &token).unwrap();
    let parts = LoaderParts { source, stacks: places(3), time: TimeLedger::new(), token };
    let (made, numbers) = mpsc::sync_channel(3);
    let stacks = LoaderStacks::start(config(3), parts, move |number| {
        made.send((number, std::thread::current().name().map(str::to_owned)))?;
        Ok(Put(at_once))
    });
    let numbers: BTreeMap<_, _> = numbers.iter().take(3).collect();
    let names = (1..=3).map(|number| (number, Some(format!("loader-{number}")))).collect();
    assert_eq!(numbers, names);
    drop((stacks, sender, shutdown));
}

/// The contract's rig feeds an item and then waits until it was loaded: what is not loaded when the run ends
/// is dropped and counted, because it cannot be given as a stack.
#[test]
fn it_keeps_the_promises_of_a_source() {
    check_all(|| {
        let (loaded, was_loaded): (SyncSender<u64>, Receiver<u64>) = mpsc::sync_channel(8);
        let (bench, source) = set_up(1, 4, 8, move |n| Ok(loaded.send(n)?));
        let Bench { sender, shutdown, .. } = bench;
        let feed = move |n: u64| {
            sender.push(n.into()).unwrap();
            assert_eq!(was_loaded.recv_timeout(LONG), Ok(n));
        };
        Rig { source, feed, number: |place| place.number, shutdown }
    });
}
