//! What a learner answers to a host that joins and fetches its first weights.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pronk::buffer::shutdown;
use pronk::hosts::{Actor, Bytes, CallError, Dial, Entered, Layouts, Link, LinkError, Member, Op, Welcome};
use pronk::policy::ParamLayout;
use xxhash_rust::xxh3::xxh3_64;

use super::wire::{RUN, Records, facts, framed, varint};
use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "answers",
    promise: "Answers one after the other, each with the right checksum or without. A host takes a place only if it \
              can have it, and weights only if they are those of its networks.",
    run,
};

/// How many workers the host has.
const WORKERS: u32 = 2;

fn run(bytes: &[u8]) -> bool {
    let learner = Arc::new(Learner(Mutex::new(answers(bytes).into_iter())));
    let (guard, token) = shutdown();
    let mut actor = Actor::new(Box::new(Way(learner)), WORKERS, Duration::ZERO, token);
    let welcome = actor.hello().unwrap_or_else(|error| {
        drop(error.to_string());
        Welcome { run: RUN, life: 0, config: String::new() }
    });
    match actor.join(&welcome, facts()) {
        Ok(Entered::In(member)) => {
            assert!(member.first_worker().checked_add(WORKERS).is_some(), "worker {}", member.first_worker());
            // It does not ask again.
            drop(guard);
            let Some(values) = fetch(&member) else { return false };
            // The first two answers are others. Values stand last in what the pieces are of.
            let all_are_pieces = Records(bytes).skip(2).all(|(kind, _)| is_piece(kind));
            assert!(!all_are_pieces || weights(bytes).ends_with(&values), "other weights than sent: {values:?}");
            true
        }
        Ok(Entered::Changed(_)) => false,
        Err(error) => refused(error),
    }
}

/// Fetches weights and panics if they are of other networks; their bytes.
fn fetch(member: &Member) -> Option<Vec<u8>> {
    let layout = |n| Arc::new(ParamLayout::new([("weight", vec![n, 2])]));
    let layouts = Layouts::from([("a".into(), layout(3)), ("b".into(), layout(1))]);
    let fetched = member.first_weights(&layouts).ok()?;
    assert!(fetched.weights.keys().eq(layouts.keys()), "{:?}", fetched.weights.keys());
    for (params, layout) in fetched.weights.values().zip(layouts.values()) {
        assert_eq!((params.values().len(), params.layout()), (layout.len(), layout));
    }
    for moments in [&fetched.moments.observations, &fetched.moments.returns].into_iter().flatten() {
        assert!(moments.is_of(moments.mean().len()), "{moments:?}");
    }
    Some(fetched.weights.values().flat_map(|params| params.values()).flat_map(|value| value.to_le_bytes()).collect())
}

fn is_piece(kind: u8) -> bool {
    kind % 4 == 3
}

fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    Records(bytes).filter(|(kind, _)| is_piece(*kind)).map(|(_, piece)| piece)
}

/// The weights that the pieces are of.
fn weights(bytes: &[u8]) -> Vec<u8> {
    pieces(bytes).collect::<Vec<_>>().concat()
}

/// The answers of an input, each of a kind: any bytes, a header, one with a body, or a piece of weights.
fn answers(bytes: &[u8]) -> Vec<Bytes> {
    let weights = weights(bytes);
    // An answer that is a piece, and then: version, pieces, length and digest.
    let numbers = [0, 1, pieces(bytes).count() as u64, weights.len() as u64, xxh3_64(&weights)];
    let head: Vec<u8> = numbers.into_iter().flat_map(varint).collect();
    let answer = |(kind, payload): (u8, &[u8])| match kind % 4 {
        0 => payload.to_owned(),
        1 => framed(payload, &[]),
        2 => {
            let (len, rest) = payload.split_first().unwrap_or((&0, &[][..]));
            let (header, body) = rest.split_at(rest.len().min((*len).into()));
            framed(header, body)
        }
        _ => framed(&head, payload),
    };
    Records(bytes).map(|record| answer(record).into()).collect()
}

/// A learner that gives these answers, whatever it is asked, and then none.
struct Learner(Mutex<std::vec::IntoIter<Bytes>>);

impl Link for Learner {
    fn call(&self, _: Op, _: Bytes, _: Duration) -> Result<Bytes, CallError> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        answer.ok_or_else(|| CallError::Lost("the input has no more answers".to_owned()))
    }
}

struct Way(Arc<Learner>);

impl Dial for Way {
    fn dial(&self) -> Result<Arc<dyn Link>, LinkError> {
        Ok(Arc::clone(&self.0) as Arc<dyn Link>)
    }

    fn address(&self) -> String {
        "here".to_owned()
    }

    fn name(&self) -> String {
        "a".to_owned()
    }
}
