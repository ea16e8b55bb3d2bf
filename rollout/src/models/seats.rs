use std::num::NonZeroUsize;

use pronk_buffer::{MultiAgentBatch, Notifier, Pool, SavedSource, Source, TurnConfig, WorkerEnds, turns, weight_cell};
use pronk_metrics::{ByPolicy, StepLedger, TimeLedger};
use pronk_model::check;
use pronk_model::time::FOREVER;
use pronk_policy::Params;

use super::SCHEDULES;
use crate::env::EnvContext;
use crate::run::{PostedSeat, ResumedSeats, WorkerEdges, WorkerSet, WorkerSetConfig};
use crate::testing::{Counter, Fault, NO_PAUSE, links, make_workers, of_default, params};
use crate::worker::WorkerLinks;

/// Two workers, of which the second fails in the first fragment of its first environments.
fn start(
    links: &WorkerLinks,
    steps: &StepLedger,
    notifier: &Notifier,
    ends: Vec<WorkerEnds<ByPolicy<Params>>>,
) -> WorkerSet {
    let factory = |context: &EnvContext| {
        let fails = (context.worker, context.index, context.incarnation) == (2, 0, 0);
        Counter::of_three().with_fault(if fails { Fault::StepErr(2) } else { Fault::Nothing })
    };
    let edges = WorkerEdges {
        ends,
        notifier: notifier.clone(),
        time: TimeLedger::new(),
        steps: steps.clone(),
        helper: None,
        resumed: ResumedSeats::default(),
    };
    let config = WorkerSetConfig { restart: NO_PAUSE, env_hang_timeout: None, first_worker: 1 };
    WorkerSet::start(config, make_workers(factory, 0, links), links.token.clone(), edges).unwrap()
}

/// The worker of a fragment, and how many it had made before.
fn tag(fragment: &MultiAgentBatch) -> (u32, u64) {
    let tag = fragment.policies().next().unwrap().1.tags()[0];
    (tag.worker, tag.slot)
}

/// Waits for so many seats, as a trainer does.
fn seats(n: usize, set: &WorkerSet, notifier: &Notifier) -> Vec<PostedSeat> {
    let mut seats = Vec::new();
    notifier.wait_for(FOREVER, || {
        set.reports().drain().into_iter().for_each(|report| seats.extend(report.seats));
        (seats.len() >= n).then_some(())
    });
    seats.sort_by_key(|seat| seat.worker);
    seats
}

/// A worker posts its seat behind the last fragment of its turns, although its environments fail meanwhile:
/// once all seats are there, the learner's source holds every fragment ahead, in the order of turns, and the
/// next ones come as if there had been no mark.
#[test]
fn a_seat_is_posted_behind_the_last_fragment() {
    check("seats", SCHEDULES, || {
        let (links, steps, shutdown) = links();
        let (links, notifier) = (WorkerLinks { saves_envs: true, ..links }, Notifier::new());
        let (_, weights) = weight_cell(of_default(params(0.0)));
        let two = NonZeroUsize::new(2).unwrap();
        let config = TurnConfig { workers: two, fragments_of_a_batch: two, lag: 1, env_steps_of_a_fragment: 8 };
        let (turns, ends, mut source) = turns(config, &weights, &links.token);
        let set = start(&links, &steps, &notifier, ends);
        turns.begin(None);
        for round in 1..=2 {
            for worker in [1, 2] {
                let mut fragment = source.next(FOREVER).unwrap();
                assert_eq!(tag(&fragment), (worker, round - 1));
                fragment.take_ticket().unwrap().trained();
            }
            assert_eq!(turns.mark(round), [0, 1]);
            let seats = seats(2, &set, &notifier);
            let posted: Vec<_> = seats
                .into_iter()
                .map(|PostedSeat { worker, number, state }| (worker, number, state.map(|state| state.slots)))
                .collect();
            assert_eq!(posted, [1, 2].map(|worker| (worker, round, Ok(round + 1))));
            let mut ahead = Vec::new();
            source.save(&mut SavedSource::new(round, Pool::new(0)), &mut |fragment| ahead.push(tag(fragment))).unwrap();
            assert_eq!(ahead, [(1, round), (2, round)]);
            assert_eq!(steps.snapshot().in_flight.env, 16);
            turns.grant();
        }
        drop(shutdown);
        assert!(set.join(FOREVER).not_joined.is_empty());
        drop(source);
        let totals = steps.snapshot();
        assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
        assert!(totals.lost.contains_key("env_error"), "no environment has failed: {totals:?}");
    });
}
