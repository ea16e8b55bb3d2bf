use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pronk_metrics::{StepLedger, StepTicket, Steps, TimeLedger};
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};

use super::SCHEDULES;
use crate::{
    CannotSave, Gate, InqueueReceiver, InqueueSender, Loader, LoaderConfig, LoaderParts, LoaderStacks, MinibatchBuffer,
    NextError, Pool, SavedSource, ShutdownGuard, Source, inqueue, shutdown,
};

type Item = (u32, Option<StepTicket>);
type Stacks = LoaderStacks<Counted, Option<Item>>;

/// A queue that says how many items were in it when it was saved.
struct Counted {
    queue: InqueueReceiver<Item>,
    saved: Arc<AtomicUsize>,
}

impl Source for Counted {
    type Item = Item;

    fn next(&mut self, timeout: Duration) -> Result<Item, NextError> {
        self.queue.next(timeout)
    }

    fn backlog(&self) -> usize {
        self.queue.backlog()
    }

    fn drain(&mut self) -> Vec<Item> {
        Source::drain(&mut self.queue)
    }

    fn save(&mut self, _: &mut SavedSource, _: &mut dyn FnMut(&Item)) -> Result<(), CannotSave> {
        self.saved.store(self.backlog(), Ordering::Relaxed);
        Ok(())
    }
}

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

/// Two loaders with so many stacks, behind an inqueue for one item.
fn loaders(n_stacks: usize, fails_with: Option<u32>) -> (InqueueSender<Item>, Stacks, ShutdownGuard) {
    loaders_of(n_stacks, fails_with, &Arc::default())
}

fn loaders_of(
    n_stacks: usize,
    fails_with: Option<u32>,
    saved: &Arc<AtomicUsize>,
) -> (InqueueSender<Item>, Stacks, ShutdownGuard) {
    let (guard, token) = shutdown();
    let (sender, queue) = inqueue(1, Gate::Bounded, &token).unwrap();
    let source = Counted { queue, saved: Arc::clone(saved) };
    let config = LoaderConfig { num_data_load_threads: NonZeroUsize::new(2).unwrap(), join_within: FOREVER };
    let parts = LoaderParts { source, stacks: (0..n_stacks).map(|_| None).collect(), time: TimeLedger::new(), token };
    let stacks = LoaderStacks::start(config, parts, move |_| Ok(Put(fails_with))).unwrap();
    (sender, stacks, guard)
}

/// Every item is loaded once, and then the stacks are closed, also for a loader that waits for the only one.
#[test]
fn every_item_is_loaded_once() {
    check("loader stacks", SCHEDULES, || {
        let (sender, mut stacks, _guard) = loaders(1, None);
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
        let (sender, mut stacks, guard) = loaders(2, None);
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
        let totals = ledger.snapshot();
        assert!(totals.is_closed() && totals.in_flight == Steps::default(), "{totals:?}");
        sometimes("a step is trained", totals.trained_once.env > 0);
        sometimes("a step is dropped", !totals.dropped.is_empty());
    });
}

const STEP: Steps = Steps { env: 1, agent: 1 };

/// A loader that fails is reported once, the other one ends, and the feeding thread does not hang.
#[test]
fn a_loader_that_fails_ends_them_all() {
    check("loader stacks, a failure", SCHEDULES, || {
        let (sender, mut stacks, _guard) = loaders(2, Some(1));
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
        sometimes("the queue closes before it has taken all", feeding.join().unwrap() < 3);
    });
}

/// A save while loaders work finds every item, loaded or in the queue, and what is loaded is what comes next.
#[test]
fn a_save_finds_every_item() {
    check("loader stacks, saved", SCHEDULES, || {
        let queued = Arc::default();
        let (sender, mut stacks, _guard) = loaders_of(2, None, &queued);
        (0..2).for_each(|n| assert!(sender.push((n, None)).is_ok()));
        let (mut saved, mut ahead) = (SavedSource::new(1, Pool::new(0)), Vec::new());
        stacks.save(&mut saved, &mut |stack| ahead.extend(stack.as_ref().map(|item| item.0))).unwrap();
        assert_eq!(ahead.len() + queued.load(Ordering::Relaxed), 2);
        sometimes("both are loaded", ahead.len() == 2);
        sometimes("one is not loaded", ahead.len() == 1);
        let mut came = Vec::new();
        for _ in 0..2 {
            came.extend(stacks.next(FOREVER).unwrap().take().map(|item| item.0));
        }
        assert_eq!(came[..ahead.len()], ahead);
        came.sort_unstable();
        assert_eq!(came, [0, 1]);
    });
}

/// The ring of minibatches shows each loaded batch as often as it should, and its stack is loaded again only
/// then.
#[test]
fn the_ring_shows_each_batch_as_often_as_it_should() {
    check("ring over loader stacks", SCHEDULES, || {
        let (sender, stacks, _guard) = loaders(2, None);
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
        let (sender, mut stacks, _guard) = loaders(2, None);
        let feeding = thread::spawn(move || (0..2).for_each(|n| assert!(sender.push((n, None)).is_ok())));
        let mut came = Vec::new();
        while came.len() < 2 {
            let next = stacks.next(Duration::from_millis(1));
            sometimes("a wait times out", next.is_err());
            match next {
                Ok(mut stack) => came.extend(stack.take().map(|item| item.0)),
                Err(NextError::TimedOut) => {}
                Err(error) => panic!("{error}"),
            }
        }
        came.sort_unstable();
        assert_eq!(came, [0, 1]);
        feeding.join().unwrap();
    });
}
