use std::sync::Mutex;

use pronk_buffer::shutdown;

use super::*;
use crate::link::Link;
use crate::link::closures::{Answering, Way};
use crate::terms::Terms;
use crate::wire::open;

fn actor(dial: impl Dial + 'static, patience: Duration, token: ShutdownToken) -> Actor {
    Actor::new(Box::new(dial), 1, patience, token)
}

fn welcome() -> Welcome {
    Welcome::new(0, String::new())
}

#[test]
fn a_link_that_gives_no_answer_is_made_anew() {
    let links = Arc::new(Mutex::new(0));
    let made = Arc::clone(&links);
    // The first one leads nowhere.
    let way = Way(move || -> Arc<dyn Link> {
        let mut links = made.lock().unwrap();
        *links += 1;
        let is_first = *links == 1;
        Arc::new(Answering(move |_| (!is_first).then(|| seal(&Door::Welcome(welcome()), &[]))))
    });
    let (_guard, token) = shutdown();
    assert!(actor(way, Duration::from_secs(4), token).hello().is_ok());
    assert_eq!(*links.lock().unwrap(), 2);
}

#[test]
fn a_host_whose_session_ended_before_it_learned_of_it_joins_by_another_attempt() {
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&attempts);
    // The answer to the first question is lost, and the lease is over before the next.
    let link: Arc<dyn Link> = Arc::new(Answering(move |question| {
        let Ok((Knock::Join(join), _)) = open::<Knock>(&question) else { panic!("it joins") };
        let mut asked = asked.lock().unwrap();
        let before = asked.last().copied();
        asked.push(join.attempt);
        let door = match before? == join.attempt {
            true => Door::Refused(Refusal::Outdated),
            false => Door::Joined(Joined { session: 1, first_worker: 0, credits: 2, terms: Terms::default() }),
        };
        Some(seal(&door, &[]))
    }));
    let (_guard, token) = shutdown();
    let mut actor = actor(Way(move || Arc::clone(&link)), Duration::from_secs(10), token);
    assert!(matches!(actor.join(&welcome(), Facts::new()).unwrap(), Entered::In(_)));
    let asked = attempts.lock().unwrap();
    assert!(asked.len() == 3 && asked[0] == asked[1] && asked[1] != asked[2], "{asked:?}");
}

#[test]
fn a_place_that_no_learner_gives_is_not_taken() {
    let (given, long) = (Joined { session: 1, first_worker: 0, credits: 2, terms: Terms::default() }, Duration::MAX);
    let places = [
        (given.clone(), true),
        (Joined { credits: u32::MAX, ..given.clone() }, false),
        (Joined { credits: 0, ..given.clone() }, false),
        (Joined { first_worker: u32::MAX, ..given.clone() }, false),
        (Joined { terms: Terms { lease: Duration::ZERO, ..given.terms }, ..given.clone() }, false),
        (Joined { terms: Terms { lease: long, ..given.terms }, ..given.clone() }, false),
    ];
    for (place, is_taken) in places {
        let door = seal(&Door::Joined(place.clone()), &[]);
        let link: Arc<dyn Link> = Arc::new(Answering(move |_| Some(door.clone())));
        let (_guard, token) = shutdown();
        let joined = actor(Way(move || Arc::clone(&link)), Duration::ZERO, token).join(&welcome(), Facts::new());
        assert_eq!(joined.is_ok(), is_taken, "{place:?}");
    }
}
