use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pronk_metrics::{StepLedger, StepTicket, Steps, TimeLedger};
use pronk_model::time::FOREVER;
use pronk_model::{check, thread};

use super::SCHEDULES;
use crate::{
    Gate, InqueueReceiver, InqueueSender, Loader, LoaderConfig, LoaderParts, LoaderStacks, MinibatchBuffer, NextError,
    Pool, SavedSource, ShutdownGuard, Source, inqueue, shutdown,
};

type Item = (u32, Option<StepTicket>);
type Stacks = LoaderStacks<InqueueReceiver<Item>, Option<Item>>;

/// Puts items into stacks, or fails with one of this number.
struct Put(Option<u32>);

impl Loader<Item> for Put {
    type Stack = Option<Item>;

    fn load(&mut self, item: Item, stack: &mut Option<Item>) -> Result<(), Box<dyn Error + Send + Sync>> {
        if Some(item.0) == self.0 {
            return Err("it cannot be loaded".into());
        }
        *stack = Some(item);
        Ok(())
    }
}

/// Two loaders with two stacks, behind an inqueue for one item.
fn loaders(fails_with: Option<u32>) -> (InqueueSender<Item>, Stacks, ShutdownGuard) {
    let (guard, token) = shutdown();
    let (sender, source) = inqueue(1, Gate::Bounded, &token).unwrap();
    let config = LoaderConfig { num_data_load_threads: NonZeroUsize::new(2).unwrap(), join_within: FOREVER };
    let parts = LoaderParts { source, stacks: vec![None, None], time: TimeLedger::new(), token };
    let stacks = LoaderStacks::start(config, parts, move |_| Ok(Put(fails_with))).unwrap();
    (sender, stacks, guard)
}

/// Every item is loaded once, and then the stacks are closed.
#[test]
fn every_item_is_loaded_once() {
    check("loader stacks", SCHEDULES, || {
        let (sender, mut stacks, _guard) = loaders(None);
        let feeding = thread::spawn(move || (0..3).for_each(|n| assert!(sender.push((n, None)).is_ok())));
        let mut numbers = Vec::new();
        loop {
            match stacks.next(FOREVER) {
                Ok(mut stack) => numbers.extend(stack.take().map(|item| item.0)),
                Err(NextError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);
        stacks.join().unwrap();
        feeding.join().unwrap();
    });
}

/// The run may end at any time: all threads end, and every step is trained or dropped.
#[test]
fn the_end_of_a_run_ends_all_loaders() {
    check("loader stacks, the end of the run", SCHEDULES, || {
        let ledger = StepLedger::new();
        let (sender, mut stacks, guard) = loaders(None);
        let feeding = thread::spawn({
            let ledger = ledger.clone();
            move || (0..3).take_while(|n| sender.push((*n, Some(ledger.sampled(STEP)))).is_ok()).count()
        });
        let ending = thread::spawn(move || drop(guard));
        if let Ok(mut stack) = stacks.next(FOREVER) {
            let (_, ticket) = stack.take().unwrap();
            ticket.unwrap().trained();
        }
        drop(stacks.drain());
        stacks.join().unwrap();
        feeding.join().unwrap();
        ending.join().unwrap();
        assert!(ledger.snapshot().is_closed());
    });
}

const STEP: Steps = Steps { env: 1, agent: 1 };

/// A loader that fails is told of once, the other one ends, and whoever feeds them is not left waiting.
#[test]
fn a_loader_that_fails_ends_them_all() {
    check("loader stacks, a failure", SCHEDULES, || {
        let (sender, mut stacks, _guard) = loaders(Some(1));
        let feeding = thread::spawn(move || (0..3).take_while(|n| sender.push((*n, None)).is_ok()).count());
        let mut failures = 0;
        loop {
            match stacks.next(FOREVER) {
                Ok(stack) => drop(stack),
                Err(NextError::Closed) => break,
                Err(NextError::Failed(_)) => failures += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(failures, 1);
        stacks.join().unwrap();
        feeding.join().unwrap();
    });
}

/// What is saved while loaders work is what comes next: no item is on its way between two threads meanwhile.
#[test]
fn a_save_finds_every_item() {
    check("loader stacks, saved", SCHEDULES, || {
        let (sender, mut stacks, _guard) = loaders(None);
        (0..2).for_each(|n| assert!(sender.push((n, None)).is_ok()));
        let (mut saved, mut ahead) = (SavedSource::new(1, Pool::new(0)), Vec::new());
        stacks.save(&mut saved, &mut |stack| ahead.extend(stack.as_ref().map(|item| item.0))).unwrap();
        assert!(ahead.len() + sender.len() <= 2);
        let mut came = Vec::new();
        for _ in 0..2 {
            came.extend(stacks.next(FOREVER).unwrap().take().map(|item| item.0));
        }
        assert_eq!(came[..ahead.len()], ahead);
        came.sort_unstable();
        assert_eq!(came, [0, 1]);
    });
}

/// The ring of minibatches shows each loaded batch as often as it should, and its stack is loaded again only then.
#[test]
fn the_ring_shows_each_batch_as_often_as_it_should() {
    check("ring over loader stacks", SCHEDULES, || {
        let (sender, stacks, _guard) = loaders(None);
        let feeding = thread::spawn(move || (0..3).for_each(|n| assert!(sender.push((n, None)).is_ok())));
        let mut ring = MinibatchBuffer::new(stacks, NonZeroUsize::MIN, 2, 2);
        let mut shown = Vec::new();
        loop {
            match ring.next(FOREVER) {
                Ok(next) => shown.extend(next.pass.item().as_ref().map(|item| item.0)),
                Err(NextError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(shown.chunks(2).all(|passes| passes[0] == passes[1]), "{shown:?}");
        shown.sort_unstable();
        assert_eq!(shown, [0, 0, 1, 1, 2, 2]);
        feeding.join().unwrap();
    });
}

/// A wait that times out loses nothing.
#[test]
fn a_time_out_loses_no_stack() {
    check("loader stacks, time-outs", SCHEDULES, || {
        let (sender, mut stacks, _guard) = loaders(None);
        let item = Arc::new(());
        let feeding = thread::spawn(move || (0..2).for_each(|n| assert!(sender.push((n, None)).is_ok())));
        let mut came = Vec::new();
        while came.len() < 2 {
            match stacks.next(Duration::from_millis(1)) {
                Ok(mut stack) => came.extend(stack.take().map(|item| item.0)),
                Err(NextError::TimedOut) => {}
                Err(error) => panic!("{error}"),
            }
        }
        came.sort_unstable();
        assert_eq!((came, Arc::strong_count(&item)), (vec![0, 1], 1));
        feeding.join().unwrap();
    });
}
