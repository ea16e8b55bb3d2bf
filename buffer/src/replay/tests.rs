use std::collections::{BTreeMap, HashSet, VecDeque};

use pronk_metrics::{DEFAULT_POLICY, PolicyId, StepLedger, Steps};
use proptest::prelude::*;

use super::*;
use crate::batch::tests::{moments, shape};
use crate::source_contract::{Rig, check_all};
use crate::{
    ActionKind, ActionViewMut, Assemble, BatchShape, End, Gate, InqueueReceiver, InqueueSender, ObsKind, ObsViewMut,
    ShutdownGuard, Tag, inqueue, shutdown,
};

/// Uniform numbers by SplitMix64, the same ones for the same seed.
fn seeded(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn config(replay_buffer_num_slots: usize, replay_proportion: f64) -> MixInConfig {
    MixInConfig { replay_buffer_num_slots, replay_proportion }
}

type Fragments<D> = MixInReplay<InqueueReceiver<MultiAgentBatch>, D>;

/// Pushes fragments that carry tickets of one ledger.
struct Workers {
    sender: InqueueSender<MultiAgentBatch>,
    ledger: StepLedger,
    pool: Pool,
    sequence: u64,
    shutdown: ShutdownGuard,
}

fn set_up(config: MixInConfig) -> (Workers, Fragments<impl FnMut() -> f64>) {
    let (shutdown, token) = shutdown();
    let (sender, receiver) = inqueue(64, Gate::Bounded, &token).unwrap();
    let pool = Pool::new(256);
    let workers = Workers { sender, ledger: StepLedger::new(), pool: pool.clone(), sequence: 0, shutdown };
    (workers, MixInReplay::new(receiver, config, pool, seeded(7)).unwrap())
}

impl Workers {
    /// A fragment of `steps` steps of one environment, all its numbers 0.
    fn push(&mut self, steps: usize) {
        self.push_with(steps, 0.0);
    }

    fn push_with(&mut self, steps: usize, number: f32) {
        let tag = Tag { slot: self.sequence, ..Tag::default() };
        self.sequence += 1;
        let mut batch = self.pool.take(shape(steps, 1), tag);
        fill(&mut batch, |_| number);
        let batch = MultiAgentBatch::single(batch);
        let ticket = self.ledger.sampled(batch.steps());
        self.sender.push(batch.with_ticket(ticket)).unwrap();
    }
}

/// Writes every float column, element `i` being `number(i)`.
fn fill(batch: &mut SampleBatch, number: impl Fn(usize) -> f32) {
    let write = |column: &mut [f32]| column.iter_mut().enumerate().for_each(|(i, value)| *value = number(i));
    match batch.obs_mut() {
        ObsViewMut::F32(obs) => write(obs),
        ObsViewMut::U8(obs) => obs.iter_mut().enumerate().for_each(|(i, value)| *value = i as u8),
    }
    match batch.actions_mut() {
        ActionViewMut::F32(actions) => write(actions),
        ActionViewMut::U32(actions) => actions.iter_mut().enumerate().for_each(|(i, value)| *value = i as u32),
    }
    write(batch.rewards_mut());
    write(batch.behaviour_logp_mut());
    write(batch.behaviour_inputs_mut());
    write(batch.behaviour_values_mut());
    write(batch.state_in_mut());
}

fn sequence(batch: &MultiAgentBatch) -> u64 {
    batch.get(DEFAULT_POLICY).unwrap().tags()[0].slot
}

/// Everything that comes now: the fragment's number, and whether it is fresh.
fn all<D: RandomSource>(fragments: &mut Fragments<D>) -> Vec<(u64, bool)> {
    let next = || fragments.next(Duration::ZERO).ok();
    std::iter::from_fn(next).map(|batch| (sequence(&batch), batch.ticket_steps().is_some())).collect()
}

#[test]
fn replays_follow_their_fresh_fragment_and_only_that_one_has_a_ticket() {
    let (mut workers, mut fragments) = set_up(config(4, 2.0));
    (0..5).for_each(|_| workers.push(1));
    let given = all(&mut fragments);
    assert_eq!(given.len(), 5 * 3, "2 replays a fragment exactly, for nothing is left of 2 after two");
    for (n, three) in (0..).zip(given.chunks_exact(3)) {
        assert_eq!(three[0], (n, true));
        for (replayed, fresh) in &three[1..] {
            assert!(!fresh && (n.saturating_sub(3)..=n).contains(replayed), "{three:?}");
        }
    }
    assert_eq!(fragments.stored(), 4);
}

#[test]
fn the_proportion_is_what_is_replayed_in_expectation() {
    for p in [0.0, 0.25, 1.0, 2.3] {
        let mut mix_in = MixIn::new(config(10, p)).unwrap();
        let mut draw = seeded(1);
        let n_fresh = if cfg!(miri) { 400 } else { 20_000 };
        let mut replayed = 0;
        for fresh in 0..n_fresh {
            mix_in.store(fresh);
            while mix_in.replay(&mut draw).is_some() {
                replayed += 1;
            }
        }
        // Only the fraction of p is random, so this is the most that its standard error can be.
        let error = 0.5 / f64::from(n_fresh).sqrt();
        let mean = f64::from(replayed) / f64::from(n_fresh);
        assert!((mean - p).abs() < 5.0 * error, "p = {p}, got {mean}");
    }
}

#[test]
fn every_stored_item_is_replayed_as_often_as_the_others() {
    let mut mix_in = MixIn::new(config(8, 30.0)).unwrap();
    let mut draw = seeded(3);
    (0..8).for_each(|n| mix_in.store(n));
    let mut counts = [0_i32; 8];
    for n in 0..1000 {
        mix_in.store(n % 8); // in its own place
        while let Some(n) = mix_in.replay(&mut draw) {
            counts[*n] += 1;
        }
    }
    // 30000 draws: 3750 each, with a standard deviation of 57.
    assert!(counts.iter().all(|count| (count - 3750).abs() < 5 * 57), "{counts:?}");
}

#[test]
fn a_draw_stays_below_n_whatever_the_number_is() {
    for uniform in [0.0, 1.0 - f64::EPSILON / 2.0, 1.0, 7.0, -1.0, f64::NAN] {
        assert!((|| uniform).index(3) < 3, "{uniform}");
    }
    assert_eq!((|| 0.5).index(0), 0);
}

#[test]
fn a_proportion_without_slots_is_refused_naming_both_settings() {
    let (shutdown, token) = shutdown();
    let (_sender, receiver) = inqueue::<MultiAgentBatch>(1, Gate::Bounded, &token).unwrap();
    let error = MixInReplay::new(receiver, config(0, 0.5), Pool::new(1), || 0.0).unwrap_err();
    assert_eq!(error, MixInError::NoSlots { replay_proportion: 0.5 });
    let text = error.to_string();
    assert!(text.contains("`replay_proportion` is 0.5") && text.contains("`replay_buffer_num_slots` is 0"), "{text}");
    for proportion in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(matches!(config(1, proportion).check(), Err(MixInError::NoProportion { .. })), "{proportion}");
    }
    drop(shutdown);
}

#[test]
fn a_proportion_of_0_stores_nothing_and_moves_fragments_through() {
    let (mut workers, mut fragments) = set_up(config(4, 0.0));
    (0..3).for_each(|_| workers.push(1));
    assert_eq!(all(&mut fragments), [(0, true), (1, true), (2, true)]);
    assert_eq!((fragments.stored(), workers.pool.idle()), (0, 3));
}

/// Two policies, one with bytes and continuous actions and memory, with final observations and several tags.
fn rich() -> MultiAgentBatch {
    let plain = shape(3, 2);
    let other = BatchShape { obs_kind: ObsKind::U8, act_kind: ActionKind::F32, act_len: 2, state_len: 4, ..plain };
    let batches = [plain, other].map(|shape| {
        let mut batch = SampleBatch::blank(shape, Tag { worker: 1, ..Tag::default() });
        batch.tags_mut().push(Tag { worker: 2, ..Tag::default() });
        fill(&mut batch, |i| 1.0 + i as f32);
        batch.ends_mut()[1] = End::Terminated;
        batch.ends_mut()[4] = End::Truncated;
        batch.versions_mut().copy_from_slice(&[5, 6, 5, 6, 7, 6]);
        match shape.obs_kind {
            ObsKind::F32 => batch.final_obs_mut().push(2, 0, &[7.0_f32, 8.0, 9.0][..]).unwrap(),
            ObsKind::U8 => batch.final_obs_mut().push(2, 0, &[7_u8, 8, 9][..]).unwrap(),
        }
        batch.check_ends().unwrap();
        batch
    });
    let policies = ["plain", "other"].map(PolicyId::from).into_iter().zip(batches).collect::<BTreeMap<_, _>>();
    MultiAgentBatch::new(policies, 9).unwrap()
}

#[test]
fn a_copy_has_every_column_of_every_policy_and_storage_of_its_own() {
    let ledger = StepLedger::new();
    let original = rich();
    let ticket = ledger.sampled(original.steps());
    let original = original.with_ticket(ticket);
    let copy = copy_without_ticket(&original, &Pool::new(2)).unwrap();
    assert_eq!((copy.steps(), copy.ticket_steps()), (original.steps(), None));
    for (policy, from) in original.policies() {
        let to = copy.get(policy).unwrap();
        assert_eq!((to.shape(), to.tags()), (from.shape(), from.tags()));
        assert_eq!((to.obs(), to.actions(), to.rewards()), (from.obs(), from.actions(), from.rewards()));
        assert_eq!((to.ends(), to.final_obs()), (from.ends(), from.final_obs()));
        assert_eq!(to.behaviour_logp(), from.behaviour_logp());
        assert_eq!(to.behaviour_inputs(), from.behaviour_inputs());
        assert_eq!(to.behaviour_values(), from.behaviour_values());
        assert_eq!((to.state_in(), to.versions()), (from.state_in(), from.versions()));
        assert_ne!(to.rewards().as_ptr(), from.rewards().as_ptr());
    }
}

#[test]
fn a_steady_run_allocates_no_storage() {
    let (mut workers, mut fragments) = set_up(config(4, 1.5));
    let mut seen = HashSet::new();
    for round in 0..60 {
        workers.push(2);
        let mut held = Vec::new();
        while let Ok(batch) = fragments.next(Duration::ZERO) {
            held.push(batch);
        }
        let address = |batch: &MultiAgentBatch| batch.get(DEFAULT_POLICY).unwrap().rewards().as_ptr() as usize;
        let new = held.iter().map(address).filter(|address| seen.insert(*address)).count();
        // At most four are stored and three in hand: a fresh one and two replays.
        assert!(new == 0 || round < 20, "round {round}: {new} new");
    }
    assert!(seen.len() <= 7, "{}", seen.len());
}

#[test]
fn a_fragment_that_is_not_finite_is_passed_on_but_not_kept() {
    let (mut workers, mut fragments) = set_up(config(4, 1.0));
    workers.push_with(1, f32::NAN);
    workers.push(1);
    workers.push_with(1, f32::INFINITY);
    workers.push(1);
    let given = all(&mut fragments);
    let fresh: Vec<u64> = given.iter().filter(|(_, fresh)| *fresh).map(|(n, _)| *n).collect();
    assert_eq!(fresh, [0, 1, 2, 3]);
    let replayed: Vec<u64> = given.iter().filter(|(_, fresh)| !fresh).map(|(n, _)| *n).collect();
    assert_eq!(replayed.len(), 2, "one for each finite one");
    assert!(replayed.iter().all(|n| [1, 3].contains(n)), "{replayed:?}");
    assert_eq!(fragments.stored(), 2);
}

#[test]
fn the_same_numbers_give_the_same_replays() {
    let run = || {
        let (mut workers, mut fragments) = set_up(config(3, 0.8));
        (0..40).for_each(|_| workers.push(1));
        all(&mut fragments)
    };
    assert_eq!(run(), run());
}

#[test]
fn drain_gives_what_waits_once_and_sends_the_stored_copies_home() {
    let (mut workers, mut fragments) = set_up(config(4, 3.0));
    (0..3).for_each(|_| workers.push(1));
    drop(fragments.next(Duration::ZERO).unwrap());
    drop(fragments.next(Duration::ZERO).unwrap());
    drop(workers.shutdown);
    assert_eq!(fragments.stored(), 1);
    let left = fragments.drain();
    assert_eq!(left.iter().map(sequence).collect::<Vec<_>>(), [1, 2]);
    assert!(left.iter().all(|batch| batch.ticket_steps().is_some()));
    assert_eq!(fragments.stored(), 0);
    assert!(fragments.drain().is_empty());
    assert!(matches!(fragments.next(Duration::ZERO), Err(NextError::Closed)), "no replay is due any more");
    drop(left);
    assert_eq!(workers.pool.idle(), 4, "three fragments and the most copies there were: one stored or given");
    let totals = workers.ledger.snapshot();
    assert!(totals.is_closed());
    assert_eq!((totals.in_flight, totals.dropped["discarded"].env), (Steps::default(), 3));
}

#[test]
fn without_replays_it_keeps_the_promises_of_a_source() {
    for slots in [0, 4] {
        check_all(|| {
            let (workers, source) = set_up(config(slots, 0.0));
            let Workers { sender, shutdown, pool, .. } = workers;
            let feed = move |n| {
                let mut fragment = pool.take(shape(1, 1), Tag::default());
                fill(&mut fragment, |_| 0.0);
                fragment.versions_mut().fill(n);
                sender.push(MultiAgentBatch::single(fragment)).map(drop).unwrap();
            };
            Rig { source, feed, number: |batch| batch.oldest_version().unwrap(), shutdown }
        });
    }
}

/// The fresh items alone, as a source that has to keep the promises too.
#[derive(Debug)]
struct FreshOnly<S>(S);

impl<S: Source<Item = MultiAgentBatch>> Source for FreshOnly<S> {
    type Item = MultiAgentBatch;

    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        loop {
            let batch = self.0.next(timeout)?;
            if batch.ticket_steps().is_some() {
                return Ok(batch);
            }
        }
    }

    fn backlog(&self) -> usize {
        self.0.backlog()
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        self.0.drain()
    }
}

#[test]
fn with_replays_the_fresh_fragments_keep_the_promises_of_a_source() {
    check_all(|| {
        let (workers, source) = set_up(config(3, 2.5));
        let Workers { sender, shutdown, pool, ledger, .. } = workers;
        let feed = move |n| {
            let mut fragment = pool.take(shape(1, 1), Tag::default());
            fill(&mut fragment, |_| 0.0);
            fragment.versions_mut().fill(n);
            let batch = MultiAgentBatch::single(fragment);
            let ticket = ledger.sampled(batch.steps());
            sender.push(batch.with_ticket(ticket)).map(drop).unwrap();
        };
        Rig { source: FreshOnly(source), feed, number: |batch| batch.oldest_version().unwrap(), shutdown }
    });
}

/// The original's procedure written out with its own plain state, as the oracle: everything one fresh item
/// gives.
fn original(stored: &mut VecDeque<u32>, config: MixInConfig, fresh: u32, draw: &mut impl RandomSource) -> Vec<u32> {
    stored.push_back(fresh);
    if stored.len() > config.replay_buffer_num_slots {
        stored.pop_front();
    }
    let mut given = Vec::new();
    let mut left = config.replay_proportion;
    while draw.uniform() < left {
        left -= 1.0;
        given.push(stored[draw.index(stored.len())]);
    }
    given
}

#[derive(Clone, Debug)]
enum Act {
    Push(usize),
    Train,
    Discard,
    Quarantine,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..20_usize).prop_map(Act::Push),
        4 => Just(Act::Train),
        1 => Just(Act::Discard),
        1 => Just(Act::Quarantine),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn it_draws_as_often_as_the_original_and_only_what_is_stored(
        slots in 1..6_usize,
        p in 0.0..4.0_f64,
        seed in any::<u64>(),
        n_fresh in 0..60_u32,
    ) {
        let config = config(slots, p);
        let mut mix_in = MixIn::new(config).unwrap();
        let mut oracle = VecDeque::new();
        let (mut draw, mut oracle_draw) = (seeded(seed), seeded(seed));
        for fresh in 0..n_fresh {
            mix_in.store(fresh);
            let given: Vec<u32> = std::iter::from_fn(|| mix_in.replay(&mut draw).copied()).collect();
            // The places differ from the oracle's order by a rotation, so an item is another one of the same
            // ring.
            let want = original(&mut oracle, config, fresh, &mut oracle_draw);
            prop_assert_eq!(given.len(), want.len());
            let rotation = if fresh as usize >= slots { (fresh as usize + 1) % slots } else { 0 };
            let place = |n: &u32| oracle.iter().position(|stored| stored == n);
            for (given, want) in given.iter().zip(&want) {
                let want = place(want).unwrap();
                // Place `i` of the ring holds what stands `rotation` places earlier in the oracle's order.
                prop_assert_eq!(place(given), Some((want + oracle.len() - rotation) % oracle.len()));
            }
        }
    }

    /// Replays add to the passes and to nothing else, whatever becomes of them and of the fresh fragments.
    #[test]
    fn the_ledger_closes_and_counts_fresh_steps_once(acts in prop::collection::vec(act(), 0..60), p in 0.0..3.0_f64) {
        let (mut workers, fragments) = set_up(config(3, p));
        let pool = workers.pool.clone();
        let mut batches = Assemble::new(fragments, 25, pool);
        let mut fresh = Steps::default();
        for act in acts {
            match act {
                Act::Push(steps) => workers.push(steps),
                Act::Train => if let Ok(mut batch) = batches.next(Duration::ZERO) {
                    fresh += batch.ticket_steps().unwrap_or_default();
                    workers.ledger.trained_pass(batch.steps());
                    if let Some(ticket) = batch.take_ticket() {
                        ticket.trained();
                    }
                },
                Act::Discard => drop(batches.next(Duration::ZERO)),
                Act::Quarantine => if let Ok(mut batch) = batches.next(Duration::ZERO)
                    && let Some(ticket) = batch.take_ticket() {
                        ticket.dropped("non_finite_loss");
                },
            }
            let totals = workers.ledger.snapshot();
            prop_assert!(totals.is_closed());
            prop_assert_eq!(totals.trained_once, fresh);
            prop_assert!(totals.trained_once.env <= totals.trained_passes.env);
        }
        drop(batches);
        let totals = workers.ledger.snapshot();
        prop_assert!(totals.is_closed());
        prop_assert_eq!(totals.in_flight, Steps::default());
    }
}

#[test]
fn moments_go_with_the_fresh_fragment_and_never_with_its_replays() {
    let (mut workers, mut fragments) = set_up(config(4, 1.0));
    let of_one = moments(1.0);
    let mut batch = workers.pool.take(shape(2, 1), Tag::default());
    fill(&mut batch, |_| 0.0);
    workers.sender.push(MultiAgentBatch::single(batch).with_moments(of_one.clone())).unwrap();
    workers.push(2);
    let mut seen = Vec::new();
    while let Ok(mut fragment) = fragments.next(Duration::ZERO) {
        seen.extend(fragment.take_moments());
    }
    assert!(fragments.stored() == 2 && seen == [of_one], "{seen:?}");
}
