use std::sync::Arc;
use std::time::Duration;

use pronk_model::time::{FOREVER, Instant};
use pronk_model::{check, sometimes, thread};

use super::{SCHEDULES, Second, sample, start, updates};
use crate::StateError;

/// Two askers both get the learner's state of between two passes, again and again and never an older one,
/// whether batches come meanwhile or not.
#[test]
fn two_askers_both_get_the_state_of_between_two_passes() {
    check("requests", SCHEDULES, || {
        let (run, learner) = start(Second::Succeeds, 1);
        let learner = Arc::new(learner);
        let askers = [(); 2].map(|()| {
            let learner = Arc::clone(&learner);
            thread::spawn(move || {
                let states = [(); 2].map(|()| updates(&learner.state(FOREVER).unwrap()));
                assert!(states[0] <= states[1]);
                sometimes("an update between two questions", states[0] < states[1]);
            })
        });
        sample(0, 2, &run.fragments, &run.steps);
        askers.into_iter().for_each(|asker| asker.join().unwrap());
        // What was reported before the question is in the answer.
        assert!(learner.outqueue().take(FOREVER).is_ok() && learner.outqueue().take(FOREVER).is_ok());
        assert_eq!(updates(&learner.state(FOREVER).unwrap()), 2);
        drop(run.fragments);
        let learner = Arc::into_inner(learner).unwrap().join(FOREVER).learner.unwrap();
        assert_eq!(updates(&learner.save(Default::default())), 2);
    });
}

/// An asker whose time is over is told so at its deadline and not before, and its question stands in nobody's
/// way.
#[test]
fn a_question_that_times_out_stands_in_no_other_questions_way() {
    check("requests, a deadline", SCHEDULES, || {
        let (run, learner) = start(Second::Succeeds, 1);
        let learner = Arc::new(learner);
        let deadline = Duration::from_millis(20);
        let hasty = thread::spawn({
            let learner = Arc::clone(&learner);
            move || {
                for _ in 0..2 {
                    let began = Instant::now();
                    let state = learner.state(deadline);
                    sometimes("a question is answered", state.is_ok());
                    sometimes("a question times out", state.is_err());
                    match state {
                        Ok(states) => assert!(updates(&states) <= 1),
                        Err(StateError::TimedOut { waited }) => {
                            assert!(waited == deadline && began.elapsed() >= deadline);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
        sample(0, 1, &run.fragments, &run.steps);
        updates(&learner.state(FOREVER).unwrap());
        hasty.join().unwrap();
        assert!(learner.is_running());
        updates(&learner.state(FOREVER).unwrap());
    });
}
