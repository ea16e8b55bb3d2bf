//! What handing a batch from a worker to the learner costs.
//!
//! `cargo bench -p pronk-buffer --bench handoff`. A batch is taken from the pool, gets a ticket of the step
//! ledger, goes through the inqueue, `Assemble` and `MinibatchBuffer`, is settled and dropped, which sends
//! its storage home. Beside it, in the same rounds, the same batch lives the same life with a bare crossbeam
//! channel in the middle, and with nothing in the middle. The figures are medians over rounds that take
//! turns, so that a noisy machine disturbs all alike; only their ratios should be compared between machines.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use pronk_buffer::{
    ActionKind, Assemble, BatchShape, Gate, InqueueReceiver, InqueueSender, MinibatchBuffer, MultiAgentBatch, ObsKind,
    Pool, ShutdownGuard, Tag, inqueue, shutdown,
};
use pronk_metrics::StepLedger;

const LONG: Duration = Duration::from_secs(60);
const QUEUE_SIZE: usize = 16;
/// As many as may be on their way at once: a full queue, one at each end, and the parts of a joined batch.
const MAX_IDLE: usize = QUEUE_SIZE + 12;
const SHAPE: BatchShape = BatchShape {
    steps: 32,
    columns: 8,
    obs_len: 4,
    obs_kind: ObsKind::F32,
    act_len: 1,
    act_kind: ActionKind::U32,
    dist_len: 2,
    state_len: 0,
};

fn main() {
    // Rounds of about a millisecond: on a busy machine most of them run undisturbed, and the median is one of
    // those. Under `cargo test --benches` once through is enough to see that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (rounds, batches) = if is_bench { (301, 1_000) } else { (1, 100) };

    let mut ways = ways();
    let mut nanos: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for ((_, way), nanos) in ways.iter_mut().zip(&mut nanos) {
            nanos.push(way(batches).as_nanos() as f64 / batches as f64);
        }
    }
    let medians: Vec<f64> = nanos.into_iter().map(median).collect();

    println!("batch: T=32 B=8 obs 4; medians of {rounds} rounds of {batches} batches\n");
    println!("{:<58} {:>8} {:>8}", "per batch", "ns", "/ bare");
    for (threads, part, bare) in [("one thread", 0..4, 1), ("two threads", 4..6, 4)] {
        println!("{threads}");
        for ((name, _), nanos) in ways[part.clone()].iter().zip(&medians[part]) {
            println!("  {name:<56} {nanos:>8.0} {:>8.2}", nanos / medians[bare]);
        }
    }
}

/// Takes a number of batches to pass and says how long it took.
type Way = Box<dyn FnMut(usize) -> Duration>;

fn ways() -> Vec<(&'static str, Way)> {
    vec![
        ("made and dropped, no queue", Box::new(no_queue)),
        ("bare channel", Box::new(bare_in_one_thread)),
        ("inqueue + Assemble + MinibatchBuffer", Box::new(|batches| whole_path_in_one_thread(batches, 1))),
        ("the same, every 4 joined (per fragment)", Box::new(|batches| whole_path_in_one_thread(batches, 4))),
        ("bare channel", Box::new(bare_in_two_threads)),
        ("inqueue + Assemble + MinibatchBuffer", Box::new(whole_path_in_two_threads)),
    ]
}

/// Where batches come from and where they are counted.
#[derive(Clone)]
struct Worker {
    pool: Pool,
    ledger: StepLedger,
}

impl Worker {
    fn new() -> Self {
        Self { pool: Pool::new(MAX_IDLE), ledger: StepLedger::new() }
    }

    fn make(&self) -> MultiAgentBatch {
        let batch = MultiAgentBatch::single(self.pool.take(SHAPE, Tag::default()));
        let ticket = self.ledger.sampled(batch.steps());
        batch.with_ticket(ticket)
    }
}

fn settle(mut batch: MultiAgentBatch) {
    if let Some(ticket) = batch.take_ticket() {
        ticket.trained();
    }
    black_box(batch);
}

fn no_queue(batches: usize) -> Duration {
    let worker = Worker::new();
    timed(|| (0..batches).for_each(|_| settle(black_box(worker.make()))))
}

fn bare_in_one_thread(batches: usize) -> Duration {
    let worker = Worker::new();
    let (sender, receiver) = crossbeam_channel::bounded(QUEUE_SIZE);
    timed(|| {
        for _ in 0..batches {
            sender.send(worker.make()).unwrap();
            settle(receiver.recv_timeout(LONG).unwrap());
        }
    })
}

fn whole_path_in_one_thread(batches: usize, joined: usize) -> Duration {
    let worker = Worker::new();
    let (sender, mut buffer, _guard) = whole_path(&worker, joined);
    timed(|| {
        for _ in 0..batches / joined {
            for _ in 0..joined {
                sender.push(worker.make()).unwrap();
            }
            settle(last_pass(&mut buffer));
        }
    })
}

fn bare_in_two_threads(batches: usize) -> Duration {
    let worker = Worker::new();
    let (sender, receiver) = crossbeam_channel::bounded(QUEUE_SIZE);
    let work = || (0..batches).for_each(|_| sender.send(worker.make()).unwrap());
    in_two_threads(work, || (0..batches).for_each(|_| settle(receiver.recv_timeout(LONG).unwrap())))
}

fn whole_path_in_two_threads(batches: usize) -> Duration {
    let worker = Worker::new();
    let (sender, mut buffer, _guard) = whole_path(&worker, 1);
    let work = || (0..batches).for_each(|_| drop(sender.push(worker.make())));
    in_two_threads(work, || (0..batches).for_each(|_| settle(last_pass(&mut buffer))))
}

type Buffer = MinibatchBuffer<Assemble<InqueueReceiver<MultiAgentBatch>>>;

fn whole_path(worker: &Worker, joined: usize) -> (InqueueSender<MultiAgentBatch>, Buffer, ShutdownGuard) {
    let (shutdown, token) = shutdown();
    let (sender, receiver) = inqueue(QUEUE_SIZE, Gate::Bounded, &token).unwrap();
    let train_batch_size = SHAPE.agent_steps() * joined as u64;
    let batches = Assemble::new(receiver, train_batch_size, worker.pool.clone());
    (sender, MinibatchBuffer::new(batches, NonZeroUsize::MIN, 1, 1), shutdown)
}

fn last_pass(buffer: &mut Buffer) -> MultiAgentBatch {
    match buffer.next(LONG).unwrap().pass {
        pronk_buffer::Pass::Last(batch) => batch,
        pronk_buffer::Pass::Again(_) => unreachable!("one pass is the last"),
    }
}

/// Runs both to their end, from when both are ready.
fn in_two_threads(work: impl FnOnce() + Send, learn: impl FnOnce()) -> Duration {
    let ready = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            work();
        });
        ready.wait();
        timed(learn)
    })
}

fn timed(run: impl FnOnce()) -> Duration {
    let began = Instant::now();
    run();
    began.elapsed()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
