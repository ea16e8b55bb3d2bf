#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ResultDict;

fn steps(env: u64, agent: u64) -> Steps {
    Steps { env, agent }
}

#[test]
fn every_fate_is_booked_under_its_name() {
    let ledger = StepLedger::new();
    ledger.sampled(steps(1, 2)).trained();
    ledger.sampled(steps(3, 6)).dropped("too_old");
    ledger.sampled(steps(5, 5)).lost(String::from("env_error"));
    drop(ledger.sampled(steps(7, 7)));
    let in_flight = ledger.sampled(steps(9, 18));
    ledger.trained_pass(steps(1, 2));
    ledger.trained_pass(steps(1, 2));

    let totals = ledger.snapshot();
    assert_eq!(totals.sampled, steps(25, 38));
    assert_eq!((totals.trained_once, totals.trained_passes), (steps(1, 2), steps(2, 4)));
    assert_eq!(totals.in_flight, in_flight.steps());
    assert_eq!(totals.dropped, [("discarded".into(), steps(7, 7)), ("too_old".into(), steps(3, 6))].into());
    assert_eq!(totals.lost, [("env_error".into(), steps(5, 5))].into());
    assert!(totals.is_closed());
}

#[test]
fn counts_beyond_what_floats_can_tell_apart_stay_exact() {
    let ledger = StepLedger::new();
    let (small, large) = (1 << 31, (1 << 53) + 1);
    ledger.sampled(steps(large, 2 * large)).trained();
    ledger.sampled(steps(small, small)).lost("env_error");
    drop(ledger.sampled(steps(1, 1)));
    let totals = ledger.snapshot();
    assert!(totals.is_closed());
    assert_eq!(totals.sampled, steps(large + small + 1, 2 * large + small + 1));
    let mut dict = ResultDict::new();
    totals.write_into(&mut dict, "steps");
    assert_eq!(dict.get("steps.trained_once.agent"), Some(&json!(18_014_398_509_481_986_u64)));
    assert!(dict.to_json_line().contains("9007201402224642"));
}

#[test]
fn sums_beyond_what_can_be_counted_stay_at_the_maximum() {
    let most = steps(u64::MAX, u64::MAX - 1);
    assert_eq!([most, steps(1, 1)].into_iter().sum::<Steps>(), steps(u64::MAX, u64::MAX));
    let totals = StepTotals { trained_once: most, in_flight: most, ..StepTotals::default() };
    assert!(!totals.is_closed());
}

#[test]
fn what_is_forgotten_after_the_end_is_booked_as_shutdown_in_every_clone() {
    let ledger = StepLedger::new();
    let (before, after) = (ledger.sampled(steps(1, 1)), ledger.sampled(steps(2, 2)));
    drop(before);
    ledger.clone().shut_down();
    drop(after);
    drop(ledger.sampled(steps(4, 4)));
    ledger.sampled(steps(8, 8)).lost("env_error");

    let totals = ledger.snapshot();
    assert_eq!(totals.dropped, [("discarded".into(), steps(1, 1)), ("shutdown".into(), steps(6, 6))].into());
    assert_eq!(totals.lost["env_error"], steps(8, 8));
    assert!(totals.is_closed());
}

#[test]
fn a_joined_ticket_shares_the_fate_of_the_other() {
    let ledger = StepLedger::new();
    let mut batch = ledger.sampled(steps(2, 2));
    batch.join(ledger.clone().sampled(steps(3, 4)));
    assert_eq!(batch.steps(), steps(5, 6));
    assert_eq!(ledger.snapshot().in_flight, steps(5, 6));
    batch.trained();
    assert_eq!(ledger.snapshot().trained_once, steps(5, 6));
    assert!(ledger.snapshot().dropped.is_empty());
}

#[test]
fn a_ticket_of_another_ledger_is_settled_in_its_own_books() {
    let (here, there) = (StepLedger::new(), StepLedger::new());
    let mut batch = here.sampled(steps(1, 1));
    let mut other = there.sampled(steps(10, 20));
    other.join(here.sampled(steps(100, 100)));
    let mut last = here.sampled(steps(1000, 1000));
    last.join(there.sampled(steps(20, 20)));
    batch.join(other);
    batch.join(last);
    assert_eq!(batch.steps(), steps(1131, 1141));
    batch.lost("link");
    assert_eq!(here.snapshot().lost["link"], steps(1101, 1101));
    assert_eq!(there.snapshot().lost["link"], steps(30, 40));
    for totals in [here.snapshot(), there.snapshot()] {
        assert!(totals.is_closed() && totals.dropped.is_empty());
        assert_eq!(totals.in_flight, Steps::default());
    }
}

#[test]
fn agent_steps_must_close_on_their_own() {
    let mut totals = StepTotals { sampled: steps(4, 8), trained_once: steps(4, 8), ..StepTotals::default() };
    assert!(totals.is_closed());
    totals.trained_once.agent = 7;
    assert!(!totals.is_closed());
}

#[test]
fn the_result_dict_has_every_figure() {
    let ledger = StepLedger::new();
    ledger.sampled(steps(3, 6)).dropped("too_old");
    let mut dict = ResultDict::new();
    ledger.snapshot().write_into(&mut dict, "ledger.steps");
    let none = json!({"env": 0, "agent": 0});
    assert_eq!(
        dict.get("ledger.steps").unwrap(),
        &json!({
            "sampled": {"env": 3, "agent": 6},
            "trained_once": none,
            "trained_passes": none,
            "in_flight": none,
            "dropped": {"too_old": {"env": 3, "agent": 6}},
            "lost": {},
        })
    );
}

#[test]
fn snapshots_close_while_threads_book() {
    let ledger = StepLedger::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let bookers: Vec<_> = (0..3)
            .map(|_| {
                let ledger = ledger.clone();
                scope.spawn(move || {
                    for n in 0..3_000 {
                        let mut ticket = ledger.sampled(steps(n, 2 * n));
                        ticket.join(ledger.sampled(steps(1, 1)));
                        match n % 4 {
                            0 => ticket.trained(),
                            1 => ticket.dropped("too_old"),
                            2 => ticket.lost("env_error"),
                            _ => drop(ticket),
                        }
                    }
                })
            })
            .collect();
        let watcher = scope.spawn(|| {
            let mut n_snapshots = 0;
            while !stop.load(Ordering::Relaxed) || n_snapshots == 0 {
                let totals = ledger.snapshot();
                assert!(totals.is_closed(), "{totals:?}");
                n_snapshots += 1;
            }
        });
        let outcomes: Vec<_> = bookers.into_iter().map(|booker| booker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
        watcher.join().unwrap();
    });
    let totals = ledger.snapshot();
    assert_eq!(totals.in_flight, Steps::default());
    assert_eq!(totals.sampled.env, 3 * (0..3_000).map(|n| n + 1).sum::<u64>());
}

#[derive(Clone, Debug)]
enum Op {
    Sample(u64, u64),
    Join(usize, usize),
    Settle(usize, u8),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0u64..1000, 0u64..1000).prop_map(|(env, agent)| Op::Sample(env, agent)),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(to, from)| Op::Join(to, from)),
        2 => (any::<usize>(), 0u8..4).prop_map(|(at, fate)| Op::Settle(at, fate)),
        1 => (0u64..1000).prop_map(Op::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_closes_whatever_happens(ops in prop::collection::vec((op(), any::<bool>()), 0..60)) {
        let ledgers = [StepLedger::new(), StepLedger::new()];
        let mut tickets: Vec<StepTicket> = Vec::new();
        for (op, first) in ops {
            let n = tickets.len();
            match op {
                Op::Sample(env, agent) => tickets.push(ledgers[usize::from(first)].sampled(steps(env, agent))),
                Op::Join(to, from) if n > 1 => {
                    let taken = tickets.swap_remove(from % n);
                    tickets[to % (n - 1)].join(taken);
                }
                Op::Settle(at, fate) if n > 0 => {
                    let ticket = tickets.swap_remove(at % n);
                    match fate {
                        0 => ticket.trained(),
                        1 => ticket.dropped("too_old"),
                        2 => ticket.lost("env_error"),
                        _ => drop(ticket),
                    }
                }
                Op::Pass(env) => ledgers[usize::from(first)].trained_pass(steps(env, env)),
                Op::Join(..) | Op::Settle(..) => {}
            }
            let held: Steps = tickets.iter().map(StepTicket::steps).sum();
            let totals = ledgers.each_ref().map(StepLedger::snapshot);
            prop_assert!(totals.iter().all(StepTotals::is_closed));
            prop_assert_eq!(totals[0].in_flight + totals[1].in_flight, held);
        }
        drop(tickets);
        for ledger in &ledgers {
            prop_assert_eq!(ledger.snapshot().in_flight, Steps::default());
            prop_assert!(ledger.snapshot().is_closed());
        }
    }
}
