use std::time::Duration;

use pronk_buffer::{MultiAgentBatch, SampleBatch, Tag};
use pronk_metrics::Steps;
use pronk_model::thread::JoinHandle;
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};
use pronk_rollout::WorkerReport;

use super::SCHEDULES;
use super::stay::{HOST, Learner, STEP, shape};
use crate::ask::{AskError, ask};
use crate::frame::{Encoder, Pixels};
use crate::link::{CallError, Dial, Link, Op};
use crate::sync::Arc;
use crate::wire::{Answer, Beat, Door, Facts, Hello, Join, Joined, Knock, Shipment, Statement, seal};
use crate::{MemoryNetwork, Over};

/// A host whose messages a model writes by hand, over a network that carries everything: each waits for its
/// answer for ever.
#[derive(Clone)]
struct Host {
    link: Arc<dyn Link>,
    joined: Joined,
    /// Whether it ships again where the learner has no answer, as it may once the inqueue has closed.
    ships_again: bool,
}

impl Host {
    fn join(network: &MemoryNetwork, ships_again: bool) -> Self {
        let link = network.dial(HOST).dial().unwrap();
        let knock = |knock: Knock| ask::<Door>(&*link, Op::Join, seal(&knock, &[]), FOREVER).unwrap().0;
        let hello = Hello { version: env!("CARGO_PKG_VERSION").to_owned(), workers: 1 };
        let Door::Welcome(welcome) = knock(Knock::Hello(hello.clone())) else { panic!("not let in") };
        let join = Join { hello, run: welcome.run, facts: Facts::new(), attempt: 1, before: None };
        let Door::Joined(joined) = knock(Knock::Join(join)) else { panic!("not let in") };
        Self { link, joined, ships_again }
    }

    /// Ships a fragment and asks for it until the learner has it or takes none. `slot` is the number of the
    /// fragment at its worker, and the host has made all up to it.
    fn ship(&self, courier: u32, number: u64, slot: u64) -> Answer {
        let tag = Tag { worker: self.joined.first_worker, slot, ..Tag::default() };
        let mut frame = Vec::new();
        Encoder::default().encode(&MultiAgentBatch::single(SampleBatch::blank(shape(), tag)), Pixels::Raw, &mut frame);
        let statement = made(slot + 1);
        let checksum = crc32c::crc32c(&frame);
        let shipment = Shipment { session: self.joined.session, courier, number, statement, checksum };
        let mut question = seal(&shipment, &frame);
        loop {
            match ask(&*self.link, Op::Ship, question, FOREVER) {
                Ok((Answer::Waits(_), _)) => question = seal(&shipment, &[]),
                Err(AskError::Call(CallError::Lost(_))) if self.ships_again => {
                    thread::yield_now();
                    question = seal(&shipment, &frame);
                }
                answer => return answer.unwrap().0,
            }
        }
    }

    /// Sends the first beat until it is answered by more than that the learner is there.
    fn beat(&self) -> Answer {
        loop {
            match self.send(Statement::default(), None) {
                Answer::Taken(_) => {}
                answer => return answer,
            }
        }
    }

    fn leave(&self, statement: Statement) {
        assert!(matches!(self.send(statement, Some("it was told to end".to_owned())), Answer::Taken(_)));
    }

    fn send(&self, statement: Statement, leaves: Option<String>) -> Answer {
        let beat = Beat {
            session: self.joined.session,
            number: 1,
            statement,
            report: WorkerReport::default(),
            gave_up: Vec::new(),
            times: Vec::new(),
            drains: false,
            leaves,
        };
        ask(&*self.link, Op::Beat, seal(&beat, &[]), FOREVER).unwrap().0
    }

    fn spawn(&self, ask: impl FnOnce(&Self) -> Answer + Send + 'static) -> JoinHandle<Answer> {
        let host = self.clone();
        thread::spawn(move || ask(&host))
    }
}

fn made(fragments: u64) -> Statement {
    Statement { sampled: [STEP; 4].into_iter().take(fragments as usize).sum(), ..Statement::default() }
}

/// A session that ends answers its couriers and its beat, whether they came before or come after it, however
/// long the inqueue has no room.
#[test]
fn a_session_that_ends_answers_all_that_wait() {
    check("waiting, a session ends", SCHEDULES, || {
        let network = MemoryNetwork::new();
        let mut learner = Learner::listen(&network, FOREVER, 1);
        let host = Host::join(&network, false);
        // Fills the inqueue.
        let first = host.ship(0, 1, 0);
        assert!(matches!(first, Answer::Taken(_)), "{first:?}");
        let waiting =
            [host.spawn(|host| host.ship(0, 2, 1)), host.spawn(|host| host.ship(1, 1, 2)), host.spawn(Host::beat)];
        host.leave(made(3));
        for waiting in waiting {
            let answer = waiting.join().unwrap();
            assert!(matches!(answer, Answer::Gone), "{answer:?}");
        }
        while learner.train(Duration::from_millis(20)) {}
        let (trained, run) = learner.end();
        assert!(trained.starts_with(&[0]) && run.sampled.env == 3, "{trained:?} {run:?}");
    });
}

/// At the end of the run every shipment is taken or answered that the run is over, and so is every beat, and
/// no step is lost; and where the inqueue has not closed before, no answer is.
#[test]
fn the_end_of_a_run_answers_all_that_wait() {
    for closes_first in [false, true] {
        let name = if closes_first { "waiting, the end of the run" } else { "waiting, the end of the hosts" };
        check(name, SCHEDULES / 2, move || end_of_the_run(closes_first));
    }
}

fn end_of_the_run(closes_first: bool) {
    let network = MemoryNetwork::new();
    let Learner { hosts, guard, fragments, steps, .. } = Learner::listen(&network, FOREVER, 2);
    let host = Host::join(&network, closes_first);
    let staying = thread::spawn(move || {
        let shipping = [host.spawn(|host| host.ship(0, 1, 0)), host.spawn(|host| host.ship(1, 1, 1))];
        let answer = host.beat();
        assert!(matches!(answer, Answer::Over(Over::Finished)), "{answer:?}");
        let mut taken = 0;
        for shipping in shipping {
            match shipping.join().unwrap() {
                Answer::Taken(_) => taken += 1,
                Answer::Over(Over::Finished) => {}
                answer => panic!("{answer:?}"),
            }
        }
        let dropped = made(2 - taken).sampled;
        host.leave(Statement { dropped: vec![("shutdown".to_owned(), dropped)], ..made(2) });
        taken
    });
    let kept = (!closes_first).then_some(guard);
    // Until its only session has ended.
    hosts.end(Over::Finished, FOREVER);
    let taken = staying.join().unwrap();
    for mut fragment in fragments.drain() {
        fragment.take_ticket().unwrap().trained();
    }
    let run = steps.snapshot();
    assert!(run.is_closed() && run.lost.is_empty() && run.in_flight == Steps::default(), "{run:?}");
    assert_eq!(run.sampled.env, 2);
    sometimes("a shipment is taken", taken > 0);
    sometimes("a shipment is refused", taken < 2);
    assert!(run.trained_once.env == taken || kept.is_none(), "{run:?}");
}
