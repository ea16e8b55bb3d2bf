use pronk_metrics::panic_text;
use pronk_model::sync::Arc;
use pronk_model::sync::atomic::{AtomicUsize, Ordering};
use pronk_model::{check, sometimes, thread};
use pronk_policy::PolicyError;

use super::SCHEDULES;
use crate::sync;
use sharing::{Job, Next, Offering, Returns, Taker};

/// How policy shares a batch. It is here once more, as policy's own tests take minutes to compile.
#[allow(dead_code, clippy::module_inception, reason = "a model offers and takes; the file keeps its name")]
#[path = "../../../policy/src/cpu_network/sharing.rs"]
mod sharing;

/// Counts how often it runs.
struct Share {
    number: usize,
    offered_by: thread::ThreadId,
    runs: Arc<[AtomicUsize; 3]>,
}

/// The number of a share that panics.
const PANICS: usize = 1;

impl Job for Share {
    fn run(&mut self) {
        let before = self.runs[self.number].fetch_add(1, Ordering::SeqCst);
        assert_eq!(before, 0);
        sometimes("another thread computes a share", thread::current().id() != self.offered_by);
    }
}

/// A share whose run panics, quietly.
struct Failing(Share);

impl Job for Failing {
    fn run(&mut self) {
        self.0.run();
        if self.0.number == PANICS {
            sometimes("another thread panics", thread::current().id() != self.0.offered_by);
            std::panic::resume_unwind(Box::new("the share of a model"));
        }
    }
}

fn shares() -> (Arc<[AtomicUsize; 3]>, Vec<Share>) {
    let runs = Arc::new([0; 3].map(AtomicUsize::new));
    let offered_by = thread::current().id();
    (Arc::clone(&runs), (0..3).map(|number| Share { number, offered_by, runs: Arc::clone(&runs) }).collect())
}

fn were_run_once(runs: &[AtomicUsize; 3]) -> bool {
    runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 1)
}

/// Runs shares of others at every wake, for at most so many wakes.
fn help<J: Job>(taker: Taker<J>, wakes: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for () in taker.wakes().iter().take(wakes) {
            taker.run_all();
        }
    })
}

/// Each share of an update is computed once and comes back in its place, whichever threads help, and all
/// threads end with the network.
#[test]
fn each_share_is_computed_once() {
    check("shares", SCHEDULES, || {
        let offering = Offering::new(2, 1).unwrap();
        let helper = help(offering.taker().unwrap(), usize::MAX);
        let mut returns = Returns::new(3);
        for next in [Next::Soon, Next::Later] {
            let (runs, mut shares) = shares();
            offering.run(&mut shares, next, &mut returns).unwrap();
            assert!(were_run_once(&runs));
            assert!(shares.iter().map(|share| share.number).eq(0..3));
        }
        drop(offering);
        helper.join().unwrap();
    });
}

/// Helpers that leave, before they help or between two updates, leave no share undone.
#[test]
fn a_helper_may_leave() {
    check("shares, a helper leaves", SCHEDULES, || {
        let offering = Offering::new(2, 0).unwrap();
        let helpers = [0, 1].map(|wakes| help(offering.taker().unwrap(), wakes));
        let mut returns = Returns::new(3);
        for _ in 0..2 {
            let (runs, mut shares) = shares();
            offering.run(&mut shares, Next::Later, &mut returns).unwrap();
            assert!(were_run_once(&runs));
        }
        drop(offering);
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
    });
}

/// A share that panics is an error of its update and of no other, whichever thread computes it.
#[test]
fn a_share_that_panics_ends_its_update_alone() {
    check("shares, a panic", SCHEDULES, || {
        let offering = Offering::new(1, 1).unwrap();
        let mut returns = Returns::new(3);
        for is_whole in [false, true] {
            let (runs, shares) = shares();
            let most = if is_whole { PANICS } else { 3 };
            let mut shares = shares.into_iter().take(most).map(Failing).collect();
            assert_eq!(offering.run(&mut shares, Next::Later, &mut returns).is_ok(), is_whole);
            assert!(runs[..most].iter().all(|runs| runs.load(Ordering::SeqCst) == 1));
        }
    });
}

/// Two networks that share their helpers get their own shares back.
#[test]
fn two_networks_get_their_own_shares_back() {
    check("shares of two networks", SCHEDULES, || {
        let offering = Arc::new(Offering::new(1, 1).unwrap());
        let learning = [(); 2].map(|()| {
            let offering = Arc::clone(&offering);
            thread::spawn(move || {
                let (runs, mut shares) = shares();
                offering.run(&mut shares, Next::Later, &mut Returns::new(3)).unwrap();
                assert!(were_run_once(&runs));
                assert!(shares.iter().all(|share| Arc::ptr_eq(&share.runs, &runs)));
            })
        });
        learning.into_iter().for_each(|learning| learning.join().unwrap());
    });
}
