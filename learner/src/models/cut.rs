use std::num::NonZeroUsize;

use pronk_buffer::{Ask, Assemble, Granted, Pool, TurnConfig, Turns, WorkerEnds, rounds, shutdown, turns};
use pronk_metrics::{ByPolicy, DEFAULT_POLICY, StepLedger, Steps};
use pronk_model::channel::{Receiver, Sender, bounded};
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};
use pronk_policy::Params;

use super::{Around, SCHEDULES, STEP, Second, fragment, sample, start, updates};
use crate::{CutStorage, LearnerCut, LearnerThread};

/// Passes over a batch under free admission.
const PASSES: u64 = 2;

/// Checks that the ledger and the counts of a cut are those of one moment.
fn assert_agrees(cut: &LearnerCut, passes_of_a_batch: u64, steps_of_a_batch: u64) {
    let LearnerCut { learners, learner_loop, steps, published, .. } = cut;
    let (passes, trained) = (learner_loop.passes, steps.trained_once.env);
    assert!(steps.is_closed() && steps.dropped.is_empty() && steps.lost.is_empty(), "{steps:?}");
    assert_eq!((updates(learners), learner_loop.updates, published.version), (passes, passes, passes));
    assert_eq!(passes.div_ceil(passes_of_a_batch) * steps_of_a_batch, trained);
    assert_eq!((steps.trained_passes.env, learners[DEFAULT_POLICY].global_step), (passes * steps_of_a_batch, trained));
    let (resumed, kept) = StepLedger::resume(steps.clone(), Steps::default(), "resume");
    let resumed = resumed.snapshot();
    assert!(resumed.is_closed() && kept.steps() == Steps::default() && resumed.in_flight == Steps::default());
}

/// Under free admission the ledger of a cut agrees with the learner's own counts, and the batch in between
/// two of its passes is in it, however many fragments are under way; and every pass of it is reported.
#[test]
fn the_ledger_of_a_cut_agrees_with_the_learner() {
    check("a cut, free admission", SCHEDULES, || {
        let (run, learner) = start(Second::Succeeds, PASSES as u32);
        let sampling = [0, 1].map(|worker| {
            let (fragments, steps) = (run.fragments.clone(), run.steps.clone());
            thread::spawn(move || sample(worker, 2, &fragments, &steps))
        });
        let mut reported = 0;
        for number in 1..=2 {
            let cut = learner.cut(number, CutStorage::none(), FOREVER, || {}).unwrap();
            assert_agrees(&cut, PASSES, 1);
            let passes = cut.learner_loop.passes;
            sometimes("a cut between two passes of a batch", passes % PASSES == 1);
            sometimes("a cut with fragments under way", cut.steps.in_flight.env > 0);
            assert_eq!(cut.batches.len() as u64, passes % PASSES);
            assert!(cut.batches.iter().all(|saved| saved.in_flight.is_none()));
            reported += learner.outqueue().drain().into_iter().map(|report| report.passes).sum::<u64>();
            assert!(reported >= passes);
        }
        drop(run.fragments);
        sampling.into_iter().for_each(|sampling| sampling.join().unwrap());
        assert_eq!(learner.join(FOREVER).learner.map(|learner| updates(&learner.save(ByPolicy::new()))), Some(8));
        let totals = run.steps.snapshot();
        assert_eq!((totals.trained_once.env, totals.sampled.env), (4, 4));
    });
}

/// A worker's place when it meets a mark: its number, the mark, and how many fragments it has made.
type Seat = (u32, u64, u64);

/// Samples whenever it has a turn, and posts its seat at a mark.
fn work(worker: u32, ends: &WorkerEnds<ByPolicy<Params>>, steps: &StepLedger, seats: &Sender<Seat>) {
    let mut made = 0;
    while let Ok(granted) = ends.weights.wait(&mut ()) {
        match granted {
            Granted::Mark(number) => seats.send((worker, number, made)).unwrap(),
            Granted::Turn(turn) => {
                thread::yield_now();
                let sampled = fragment(worker, made, turn.weights.version).with_ticket(steps.sampled(STEP));
                ends.weights.done();
                made += 1;
                if ends.fragments.push(sampled, &mut ()).is_err() {
                    break;
                }
            }
        }
    }
}

/// Fragments of a batch, one of each worker.
const FRAGMENTS: u64 = 2;

/// Batches that the workers are ahead: a first permit is for more fragments than a round waits for.
const LAG: u64 = 2;

/// Takes the cut of this number at the end of the round of this number, as a trainer does: marks, then seats,
/// then the learner.
fn cut(
    number: u64,
    turns: &Turns<ByPolicy<Params>>,
    seats: &Receiver<Seat>,
    learner: &LearnerThread,
    wake: impl Fn(),
) -> LearnerCut {
    let marked = turns.mark(number);
    let mut seats: Vec<_> = marked.iter().map(|_| seats.recv().unwrap()).collect();
    seats.sort_unstable();
    assert_eq!(seats, [0, 1].map(|worker| (worker, number, number + LAG)));
    learner.cut(number, CutStorage::none(), FOREVER, wake).unwrap()
}

/// Under deterministic admission a cut behind the seats of all workers holds every fragment that they had
/// made and the learner had not taken, in the order of turns, and the run goes on as if there had been none.
#[test]
fn a_cut_behind_all_seats_holds_every_fragment() {
    check("a cut, deterministic admission", SCHEDULES, || {
        let (guard, token) = shutdown();
        let around = Around::new(token.clone());
        let (steps, notifier) = (around.steps.clone(), around.notifier.clone());
        let workers = NonZeroUsize::new(FRAGMENTS as usize).unwrap();
        let config =
            TurnConfig { workers, fragments_of_a_batch: workers, lag: LAG as usize, env_steps_of_a_fragment: 1 };
        let (turns, ends, fragments) = turns(config, &around.publisher.cell(), &token);
        let (mut rounds, gate) = rounds(1, &notifier, &token);
        let batches = Assemble::counting(fragments, FRAGMENTS, Pool::new(2));
        let learner = around.learn(Ask::new(batches, Some(turns.clone()), gate), Second::Succeeds, 1);
        let (post, seats) = bounded(ends.len());
        let working: Vec<_> = (0..)
            .zip(ends)
            .map(|(worker, ends)| {
                let (steps, post) = (steps.clone(), post.clone());
                thread::spawn(move || work(worker, &ends, &steps, &post))
            })
            .collect();
        turns.begin(None);
        for round in 1..=2 {
            rounds.begin();
            while !rounds.is_over() {
                assert!(notifier.wait(FOREVER));
            }
            let cut = cut(round, &turns, &seats, &learner, || rounds.wake());
            assert_agrees(&cut, 1, FRAGMENTS);
            assert_eq!(cut.learner_loop.passes, round);
            let tags =
                cut.source.queued.iter().flat_map(|saved| saved.batch.policies().flat_map(|(_, part)| part.tags()));
            let ahead: Vec<_> = tags.map(|tag| (tag.worker, tag.slot, tag.version)).collect();
            let of_batch = |batch: u64| [0, 1].map(|worker| (worker, batch, batch.saturating_sub(LAG)));
            assert_eq!(ahead, [of_batch(round), of_batch(round + 1)].concat());
            assert_eq!((cut.source.in_flight(), cut.steps.in_flight.env), (cut.steps.in_flight, LAG * FRAGMENTS));
            assert!(cut.batches.is_empty() && cut.source.partial.is_empty());
        }
        drop(guard);
        let learner = learner.join(FOREVER).learner.unwrap();
        assert_eq!(updates(&learner.save(ByPolicy::new())), 2);
        working.into_iter().for_each(|worker| worker.join().unwrap());
        let totals = steps.snapshot();
        assert!(totals.is_closed() && totals.in_flight == Steps::default(), "{totals:?}");
    });
}
