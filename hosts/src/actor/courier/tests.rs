use std::collections::VecDeque;

use pronk_buffer::{ActionKind, BatchShape, Gate, ObsKind, SampleBatch, Tag, inqueue, shutdown};
use pronk_metrics::{StepTotals, Steps};

use super::*;
use crate::link::{CallError, Link};
use crate::wire::{News, Over, open};

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(600);

/// A learner that says what it is told to. Of each shipment it notes whether a fragment came with it.
struct Script {
    answers: Mutex<VecDeque<Option<Answer>>>,
    with_fragment: Mutex<Vec<bool>>,
}

impl Link for Script {
    fn call(&self, op: Op, request: Bytes, _: Duration) -> Result<Bytes, CallError> {
        assert_eq!(op, Op::Ship);
        let (shipment, frame) = open::<Shipment>(&request).unwrap();
        assert_eq!((shipment.session, shipment.courier, shipment.number), (3, 1, 1));
        assert!(frame.is_empty() || crc32c::crc32c(&frame) == shipment.checksum);
        self.with_fragment.lock().unwrap().push(!frame.is_empty());
        let answer = self.answers.lock().unwrap().pop_front().flatten();
        answer.map(|answer| seal(&answer, &[])).ok_or_else(|| CallError::Lost("no answer".to_owned()))
    }
}

/// What became of a fragment of six steps.
struct Shipping {
    with_fragment: Vec<bool>,
    left: Option<Left>,
    totals: StepTotals,
    /// Whether the courier does not know whether it arrived.
    is_unknown: bool,
    contact: Arc<Contact>,
    /// How many fragments may be on their way next.
    most: u32,
}

/// Has a courier ship a fragment to a learner that gives these answers, and then none.
fn ship(lease: Duration, answers: impl IntoIterator<Item = Option<Answer>>) -> Shipping {
    let (_guard, token) = shutdown();
    ship_until(token, lease, answers)
}

fn ship_until(token: ShutdownToken, lease: Duration, answers: impl IntoIterator<Item = Option<Answer>>) -> Shipping {
    let answers = Mutex::new(answers.into_iter().collect());
    let script = Arc::new(Script { answers, with_fragment: Mutex::default() });
    let contact = Arc::new(Contact::new(Arc::clone(&script) as Arc<_>));
    let (_open, of_workers) = shutdown();
    let (sender, fragments) = inqueue(1, Gate::Bounded, &of_workers).unwrap();
    let (obs_kind, act_kind) = (ObsKind::F32, ActionKind::U32);
    let shape =
        BatchShape { steps: 2, columns: 3, obs_len: 4, obs_kind, act_len: 1, act_kind, dist_len: 2, state_len: 0 };
    let steps = StepLedger::new();
    let fragment = MultiAgentBatch::single(SampleBatch::blank(shape, Tag::default()));
    let fragment = fragment.with_ticket(steps.sampled(Steps { env: 6, agent: 6 }));
    sender.push(fragment).unwrap();
    drop(sender);
    let window = Arc::new(Window::new(2));
    let courier = Courier {
        number: 1,
        session: 3,
        contact: Arc::clone(&contact),
        fragments: Arc::new(Mutex::new(fragments)),
        window: Arc::clone(&window),
        steps: steps.clone(),
        lease,
        pixels: Pixels::Raw,
        token,
        clock: StateClock::new("courier-1", CourierState::Waiting),
    };
    let unknown = courier.run();
    let (totals, is_unknown) = (steps.snapshot(), unknown.is_some());
    assert!(totals.is_closed());
    assert!(script.answers.lock().unwrap().is_empty());
    let with_fragment = script.with_fragment.lock().unwrap().clone();
    Shipping { with_fragment, left: contact.left(), totals, is_unknown, contact, most: window.most() }
}

fn news(version: u64) -> News {
    News { version, ..News::default() }
}

#[test]
fn where_the_learner_has_no_room_the_courier_asks_again_without_the_fragment() {
    let waits = News { held_secs: 1.5, ..news(4) };
    let shipping = ship(LONG, [Answer::Waits(waits.clone()), Answer::Waits(waits), Answer::Taken(news(5))].map(Some));
    assert_eq!(shipping.with_fragment, [true, false, false]);
    assert_eq!((shipping.totals.trained_once.env, shipping.left), (6, None));
    assert_eq!((shipping.contact.newest(), shipping.contact.held_secs()), (5, 3.0));
}

#[test]
fn more_fragments_are_on_their_way_after_one_that_did_not_wait_for_room() {
    let blocked = |blocked_secs| Some(Answer::Taken(News { blocked_secs, held_secs: blocked_secs, ..news(1) }));
    // It cannot have travelled for as long as that.
    assert_eq!([0.0, 1e3].map(|secs| ship(LONG, [blocked(secs)]).most), [2, 1]);
}

#[test]
fn after_a_lost_answer_the_courier_asks_first_and_sends_again_what_is_missing() {
    let arrived = ship(LONG, [None, None, Some(Answer::Taken(news(1)))]);
    assert_eq!((arrived.with_fragment, arrived.totals.trained_once.env), (vec![true, false, false], 6));
    let lost = ship(LONG, [None, Some(Answer::Missing), Some(Answer::Taken(news(1)))]);
    assert_eq!((lost.with_fragment, lost.totals.trained_once.env), (vec![true, false, true], 6));
}

#[test]
fn a_damaged_fragment_is_sent_again() {
    let shipping = ship(LONG, [Answer::Corrupt, Answer::Taken(news(1))].map(Some));
    assert_eq!((shipping.with_fragment, shipping.totals.trained_once.env), (vec![true, true], 6));
}

#[test]
fn a_fragment_that_is_refused_is_dropped_and_says_why_the_stay_is_over() {
    let reasons = [
        (Answer::Over(Over::Finished), Left::Over(Over::Finished)),
        (Answer::Gone, Left::Gone),
        (Answer::Foreign("spaces".into()), Left::Foreign("spaces".into())),
    ];
    for (answer, left) in reasons {
        let shipping = ship(LONG, [Some(answer)]);
        assert_eq!((shipping.left, shipping.is_unknown), (Some(left), false));
        assert_eq!(shipping.totals.dropped["shutdown"].env, 6);
    }
}

#[test]
fn two_leases_without_an_answer_end_the_stay_and_nothing_is_stated_of_the_fragment() {
    let lease = Duration::from_millis(60);
    let shipping = ship(lease, []);
    assert_eq!((shipping.left, shipping.is_unknown), (Some(Left::Silent), true));
    assert_eq!((shipping.totals.dropped.len(), shipping.totals.in_flight.env), (0, 6));
    assert!(shipping.with_fragment.len() > 1);
}

#[test]
fn a_courier_that_is_told_to_end_asks_once_more_what_became_of_its_fragment() {
    let ended = || shutdown().1;
    let arrived = ship_until(ended(), LONG, [None, Some(Answer::Taken(news(1)))]);
    assert_eq!((arrived.with_fragment, arrived.totals.trained_once.env), (vec![true, false], 6));
    let refused = ship_until(ended(), LONG, [None, Some(Answer::Over(Over::Finished))]);
    assert_eq!(refused.totals.dropped["shutdown"].env, 6);
    let unknown = ship_until(ended(), LONG, [None, None]);
    assert_eq!((unknown.with_fragment, unknown.is_unknown, unknown.left), (vec![true, false], true, None));
}
