use std::sync::Arc;
use std::sync::atomic::AtomicUsize as StdUsize;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::{sync, thread};
use pronk_metrics::Steps;

use crate::exhaust;
use cell::Calls;

/// What a worker says of its calls, with the atomics of loom.
#[allow(dead_code, unreachable_pub, reason = "a model needs a part of it, and has it for itself")]
#[path = "../../../rollout/src/env/call_monitor/calls.rs"]
mod cell;

/// As that of `pronk-rollout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailurePlace {
    Make,
    Unknown,
    Reset { episode_seed: u64 },
    Step { episode_seed: u64, step: u32 },
    Mask { episode_seed: u64, step: u32 },
    Render { episode_seed: u64, step: u32 },
}

/// The place of a call that follows so many steps.
fn after(steps: u64) -> FailurePlace {
    FailurePlace::Step { episode_seed: steps, step: steps as u32 }
}

/// What is taken over in a call are the steps that were made before it, neither more nor fewer, and its
/// parts are of this call or of one that follows.
#[test]
fn the_steps_of_a_call_are_those_before_it() {
    // Of the standard library: how often a call was seen, and how often its steps.
    static SEEN: [StdUsize; 2] = [StdUsize::new(0), StdUsize::new(0)];
    exhaust("calls of environments", || {
        let calls = Arc::new((Calls::default(), AtomicUsize::new(0)));
        let working = Arc::clone(&calls);
        let worker = thread::spawn(move || {
            let (calls, looks) = &*working;
            for made in 0..2 {
                calls.at(made as u32, after(made));
                calls.enter(made as u32);
                others_may_go_first(looks);
                calls.leave();
                calls.set_unbooked(Steps { env: made + 1, agent: made + 1 }, made + 1);
            }
        });
        let (calls, looks) = &*calls;
        others_may_go_first(looks);
        if let Some(call) = calls.current() {
            let made = call.passage / 2;
            SEEN[0].fetch_add(1, Ordering::Relaxed);
            assert!(u64::from(call.index) >= made && u64::from(call.incarnation) >= made);
            others_may_go_first(looks);
            if let Some(unbooked) = calls.unbooked_in(&call) {
                assert_eq!(unbooked, (Steps { env: made, agent: made }, made));
                SEEN[1].fetch_add(1, Ordering::Relaxed);
            }
        }
        worker.join().unwrap();
    });
    assert!(SEEN.iter().all(|seen| seen.load(Ordering::Relaxed) > 0), "no execution looked into a call: {SEEN:?}");
}

/// loom compares an access with the last one only, so a thread that loads what it stores hides the loads of
/// others before. This is an access that has others on both sides, and orders nothing.
fn others_may_go_first(looks: &AtomicUsize) {
    looks.fetch_add(1, Ordering::Relaxed);
}
