//! Images with their channels last, which a convolutional network would read as something else.

use pronk::config::Vision;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::rollout::EvaluateError;
use pronk::{ActionSelection, Space, TrainError, evaluate};

use crate::fixtures::{iterations, only, small, with};

/// An environment that shows images with their channels last.
struct Camera(Vec<usize>);

impl Env for Camera {
    fn spec(&self) -> EnvSpec {
        EnvSpec { observation: Space::bytes(self.0.clone()).unwrap(), ..CartPole::new().spec() }
    }

    fn reset(&mut self, _: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.u8().map(|row| row.fill(0))
    }

    fn step(&mut self, _: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        obs.u8()?.fill(1);
        Ok(Step { reward: 0.0, end: End::Terminated })
    }
}

#[test]
fn images_with_their_channels_last_are_refused_by_the_names_of_their_axes() {
    for vision in [Vision::NatureCnn, Vision::ImpalaCnn] {
        let config = with(small(0), |config| config.model.vision = vision);
        let error = Trainer::new(config, |_: &EnvContext| Camera(vec![96, 90, 3])).map(drop).unwrap_err();
        let TrainError::Config(error) = error else { panic!("{error}") };
        let said = &error.reason;
        for words in ["height × width × channels", "96 channels of 90 × 3", "transpose them to [3, 96, 90]"] {
            assert!(said.contains(words), "`{words}` is missing in: {said}");
        }
        assert!(!said.contains("ImpalaCnn"), "{said}");
    }
    // Where the order of the axes plays no part, and where the first one may be the channels.
    let flat = with(small(0), |config| config.model.vision = Vision::Flat);
    assert!(Trainer::new(flat, |_: &EnvContext| Camera(vec![6, 5, 3])).is_ok());
    let boards = with(small(0), |config| config.model.vision = Vision::ImpalaCnn);
    for shape in [[16, 4, 4], [3, 6, 4], [2, 6, 7]] {
        assert!(Trainer::new(boards.clone(), move |_: &EnvContext| Camera(shape.to_vec())).is_ok(), "{shape:?}");
    }
}

#[test]
fn a_policy_does_not_act_on_images_with_other_axes() {
    let flat = with(small(0), |config| config.model.vision = Vision::Flat);
    let trainer = Trainer::new(flat, |_: &EnvContext| Camera(vec![6, 5, 3])).unwrap();
    let run = trainer.run(iterations(2)).unwrap();
    let mut policy = only(&run).policy().unwrap();
    let played = evaluate(&mut policy, &mut ActionSelection::Mode, &|_: &EnvContext| Camera(vec![3, 6, 5]), 1, 0);
    let Err(EvaluateError::Policy { source, .. }) = played else { panic!("it was played") };
    assert!(source.to_string().contains("are the channels first?"), "{source}");
}
