use pronk_buffer::{ObsView, WeightPublisher, shutdown, weight_cell};
use pronk_metrics::{ByPolicy, TimeLedger};
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};
use pronk_policy::{Outputs, Params};

use super::SCHEDULES;
use crate::act::{Inference, InferenceClient, InferencePort, InferenceThread, PolicyFault};
use crate::testing::{OneWeight, of_default, params};

/// What `client` gets for one observation whose numbers add up to `n`: the version, and the value.
fn ask(client: &mut Inference, n: f32) -> Result<(u64, f32), PolicyFault> {
    let mut out = Outputs::default();
    let obs = [n, 0.0, 0.0];
    let version = client.forward((&params(0.0), 0), (ObsView::F32(&obs), 1), None, &mut out)?;
    Ok((version, out.values[0]))
}

fn start(first: f32) -> (WeightPublisher<ByPolicy<Params>>, InferenceThread, InferencePort, impl Sized) {
    let (publisher, weights) = weight_cell(of_default(params(first)));
    let (guard, token) = shutdown();
    let (thread, port) =
        InferenceThread::start(Box::new(OneWeight::new()), weights, &token, &TimeLedger::new()).unwrap();
    (publisher, thread, port, guard)
}

fn clients(port: &InferencePort) -> [Inference; 2] {
    [port.client(), port.client()].map(InferenceClient::into)
}

/// Every client gets the answer to its own question, by the weights that the answer names.
#[test]
fn every_client_gets_its_own_answer() {
    check("inference", SCHEDULES, || {
        let (mut publisher, inference, port, _guard) = start(0.0);
        let asking: Vec<_> = (1..)
            .zip(clients(&port))
            .map(|(n, mut client)| {
                thread::spawn(move || {
                    for n in [10.0 * n as f32, 10.0 * n as f32 + 1.0] {
                        let (version, value) = ask(&mut client, n).unwrap();
                        assert_eq!(value, version as f32 * 100.0 + n);
                        sometimes("an answer by the first weights", version == 0);
                        sometimes("an answer by the newer weights", version == 1);
                    }
                })
            })
            .collect();
        publisher.publish(of_default(params(100.0)));
        asking.into_iter().for_each(|client| client.join().unwrap());
        drop(port);
        inference.join(FOREVER).unwrap();
    });
}

/// The end of the run ends every question, also one that is being answered, and the thread.
#[test]
fn the_end_of_the_run_ends_every_question() {
    check("inference, the end of the run", SCHEDULES, || {
        let (_publisher, inference, port, guard) = start(0.0);
        let asking = clients(&port).map(|mut client| {
            thread::spawn(move || {
                let answers = (0..2).map(|_| ask(&mut client, 1.0));
                answers.for_each(|answer| {
                    sometimes("an answer", answer.is_ok());
                    sometimes("no answer any more", answer.is_err());
                    match answer {
                        Ok(answer) => assert_eq!(answer, (0, 1.0)),
                        Err(fault) => assert!(matches!(fault, PolicyFault::InferenceEnded), "{fault}"),
                    }
                });
            })
        });
        drop(guard);
        asking.into_iter().for_each(|client| client.join().unwrap());
        inference.join(FOREVER).unwrap();
    });
}

/// A panic is the answer to every question of its pass, and the questions of later passes have their own.
#[test]
fn a_panic_is_the_answer_to_the_questions_of_its_pass() {
    check("inference, a panic", SCHEDULES, || {
        let (mut publisher, inference, port, _guard) = start(OneWeight::PANIC);
        let asking = clients(&port).map(|mut client| {
            thread::spawn(move || {
                for n in [1.0, 2.0] {
                    let answer = ask(&mut client, n);
                    sometimes("an answer of a later pass", answer.is_ok());
                    sometimes("a panic as the answer", answer.is_err());
                    match answer {
                        Ok(answer) => assert_eq!(answer, (1, n)),
                        Err(fault) => assert!(matches!(fault, PolicyFault::Shared { .. }), "{fault}"),
                    }
                }
            })
        });
        publisher.publish(of_default(params(0.0)));
        let mut later: Inference = port.client().into();
        assert_eq!(ask(&mut later, 3.0).unwrap(), (1, 3.0));
        asking.into_iter().for_each(|client| client.join().unwrap());
        drop((port, later));
        inference.join(FOREVER).unwrap();
    });
}
