use pronk_metrics::{StepLedger, Steps};

use super::*;
use crate::batch::tests::shape;
use crate::source_contract::{Rig, check_all};
use crate::{
    Assemble, Gate, InqueueReceiver, InqueueSender, MixInConfig, MixInReplay, Pool, SampleBatch, ShutdownGuard, Tag,
    WeightPublisher, inqueue, shutdown, weight_cell,
};

struct Workers {
    sender: InqueueSender<MultiAgentBatch>,
    ledger: StepLedger,
    publisher: WeightPublisher<()>,
    shutdown: ShutdownGuard,
}

fn set_up(max_lag: u64) -> (Workers, MaxLag<InqueueReceiver<MultiAgentBatch>>) {
    let (shutdown, token) = shutdown();
    let (publisher, cell) = weight_cell(());
    let (sender, receiver) = inqueue(64, Gate::Bounded, &token).unwrap();
    let workers = Workers { sender, ledger: StepLedger::new(), publisher, shutdown };
    (workers, MaxLag::new(receiver, max_lag, cell.version_reader()))
}

fn fragment(version: u64) -> MultiAgentBatch {
    let mut batch = SampleBatch::blank(shape(1, 4), Tag::default());
    batch.versions_mut().fill(version);
    MultiAgentBatch::single(batch)
}

impl Workers {
    /// Pushes a fragment of four steps.
    fn push(&self, version: u64) {
        let fragment = fragment(version);
        let ticket = self.ledger.sampled(fragment.steps());
        self.sender.push(fragment.with_ticket(ticket)).unwrap();
    }

    fn publish(&mut self, times: u64) {
        for _ in 0..times {
            self.publisher.publish(());
        }
    }
}

#[test]
fn it_keeps_the_promises_of_a_source() {
    check_all(|| {
        let (Workers { sender, shutdown, .. }, source) = set_up(1);
        let feed = move |n| sender.push(fragment(n)).map(drop).unwrap();
        Rig { source, feed, number: |batch| batch.oldest_version().unwrap(), shutdown }
    });
}

#[test]
fn a_fragment_that_lags_too_far_is_dropped_and_counted() {
    let (mut workers, mut fragments) = set_up(2);
    workers.publish(5);
    workers.push(2); // lag 3
    workers.push(3); // lag 2
    workers.push(9); // a version from the future lags by nothing
    assert_eq!(fragments.next(Duration::ZERO).unwrap().oldest_version(), Some(3));
    assert_eq!(fragments.next(Duration::ZERO).unwrap().oldest_version(), Some(9));
    assert!(matches!(fragments.next(Duration::ZERO), Err(NextError::TimedOut)));
    let totals = workers.ledger.snapshot();
    assert_eq!((totals.dropped["too_old"], totals.is_closed()), (Steps { env: 4, agent: 4 }, true));
}

#[test]
fn what_is_replayed_is_not_too_old_and_what_is_too_old_is_not_replayed() {
    let (mut workers, fragments) = set_up(1);
    let config = MixInConfig { replay_buffer_num_slots: 8, replay_proportion: 1.0 };
    let mut draws = [0.1, 0.9, 0.4, 0.6].into_iter().cycle();
    let replay = MixInReplay::new(fragments, config, Pool::new(32), move || draws.next().unwrap()).unwrap();
    let mut batches = Assemble::new(replay, 8, Pool::new(4));
    let (mut trained, mut replayed) = (0, 0);
    for version in 0..50 {
        // The second of them is too old once there are versions to be older than.
        workers.push(version);
        workers.push(version.saturating_sub(2));
        while let Ok(mut batch) = batches.next(Duration::ZERO) {
            let fresh = batch.ticket_steps().unwrap_or_default().env;
            (trained, replayed) = (trained + fresh, replayed + batch.env_steps() - fresh);
            if let Some(ticket) = batch.take_ticket() {
                ticket.trained();
            }
        }
        workers.publish(1);
    }
    let totals = workers.ledger.snapshot();
    assert!(totals.is_closed() && totals.dropped["too_old"].env >= 4 * 47, "{totals:?}");
    // As many as were asked for, one for each fresh one that was used.
    assert!((trained as f64 / replayed as f64 - 1.0).abs() < 0.1, "{trained} fresh, {replayed} replayed");
}
