//! Videos of evaluations.

use std::fs;

use pronk::EnvFactory;
use pronk::rollout::{CallMonitor, EnvFailure, EnvFailureCause, FailurePlace, Frame, VectorContext, VectorEnv};
use pronk::wrappers::{Chaos, ChaosConfig};

use super::*;

/// CartPole whose second picture fails, or that does not draw itself.
struct Shy {
    env: CartPole,
    drawn: u32,
    fails: bool,
}

impl Env for Shy {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.env.step(action, obs)
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        self.drawn += 1;
        match (self.fails, self.drawn) {
            (false, _) => Ok(None),
            (true, 1) => self.env.render(),
            (true, _) => Err(EnvError::new("there is no screen")),
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_evaluation_has_a_video_and_the_newest_are_kept() {
    without_hanging("a run with videos", || {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("videos");
        fs::create_dir(&dir).unwrap();
        for n in 0..10 {
            // Of a process that was killed further on, and something else.
            fs::write(dir.join(format!("evaluation-99999999999{n}.png")), "old").unwrap();
        }
        fs::write(dir.join("mine.png"), "mine").unwrap();
        let cart_pole = |_: &EnvContext| CartPole::new();
        let mut trainer = Trainer::builder(evaluated(small(1), 2)).env(cart_pole).videos(&dir).build().unwrap();
        let first = until(&mut trainer, |dict| count(dict, "made") >= 1);
        let name = format!("evaluation-{:012}.png", count(&first, "at_env_steps"));
        assert_eq!(first.get("evaluation.video"), Some(&Value::from(name.clone())));
        assert!(fs::read(dir.join(&name)).unwrap().starts_with(b"\x89PNG"));
        let last = until(&mut trainer, |dict| count(dict, "made") >= 12);
        trainer.finish().unwrap();
        let names = names(&dir);
        assert_eq!(names.len(), 11, "{names:?}");
        assert!(names.contains(&"mine.png".to_owned()) && !names[0].starts_with("evaluation-9999"), "{names:?}");
        assert!(!names.contains(&name), "the oldest goes first");
        assert!(names.iter().any(|name| last.get("evaluation.video") == Some(&Value::from(name.as_str()))));
        assert_eq!(last.get("evaluation.video_failed"), Some(&Value::Null));
    });
}

#[test]
fn environments_that_cannot_be_drawn_are_evaluated_all_the_same() {
    for (fails, why) in [(false, None), (true, Some("there is no screen"))] {
        without_hanging("a run without videos", move || {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("videos");
            let shy = move |_: &EnvContext| Shy { env: CartPole::new(), drawn: 0, fails };
            let mut trainer = Trainer::builder(evaluated(small(1), 2)).env(shy).videos(&dir).build().unwrap();
            let dict = until(&mut trainer, |dict| count(dict, "made") >= 2);
            let run = trainer.finish().unwrap();
            assert_eq!((count(&dict, "failed"), dict.get("evaluation.video")), (0, Some(&Value::Null)), "{dict:?}");
            let reason = dict.get("evaluation.video_failed").and_then(Value::as_str);
            assert_eq!(reason.is_some(), why.is_some(), "{reason:?}");
            assert!(why.is_none_or(|why| reason.unwrap().contains(why)), "{reason:?}");
            assert!(run.ledger_closed() && names(&dir).is_empty());
        });
    }
}

/// How environments that are made for drawing go wrong.
#[derive(Clone, Copy, PartialEq)]
enum NoScreen {
    Make,
    Panic,
    Reset,
}

/// Makes CartPole, unless it is to be drawn.
struct Screenless(NoScreen);

impl EnvFactory for Screenless {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        (|_: &EnvContext| CartPole::new()).make_vector(context, n_envs, monitor)
    }

    fn make_vector_to_render(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let error = || EnvError::new("there is no screen");
        match self.0 {
            NoScreen::Make => Err(context.failure(None, 0, FailurePlace::Make, EnvFailureCause::Error(error()))),
            NoScreen::Panic => panic!("there is no screen"),
            NoScreen::Reset => {
                let fails = |_: &EnvContext| Faulty::new(Fault::Error, 0);
                fails.make_vector(context, n_envs, monitor)
            }
        }
    }
}

#[test]
fn environments_that_cannot_even_be_made_for_drawing_are_evaluated_without() {
    for how in [NoScreen::Make, NoScreen::Panic, NoScreen::Reset] {
        without_hanging("a run without a screen", move || {
            let (videos, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let builder = Trainer::builder(evaluated(small(1), 2)).env(Screenless(how));
            let mut trainer = builder.videos(videos.path()).checkpoints(folder.path()).build().unwrap();
            let first = until(&mut trainer, |dict| count(dict, "made") >= 1);
            let reason = first.get("evaluation.video_failed").and_then(Value::as_str).unwrap();
            assert!(reason.ends_with("; the run has no more videos"), "{reason}");
            assert!(how == NoScreen::Reset || reason.contains("there is no screen"), "{reason}");
            let dict = until(&mut trainer, |dict| count(dict, "made") >= 3);
            assert_eq!((count(&dict, "failed"), dict.get("evaluation.video")), (0, Some(&Value::Null)), "{dict:?}");
            let run = trainer.finish().unwrap();
            assert!(!run.best.is_empty() && names(videos.path()).is_empty());
        });
    }
}

/// Whether any are left, of which it takes one.
fn is_one_of(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[test]
fn an_evaluation_that_fails_without_a_picture_too_ends_no_videos() {
    without_hanging("a run with videos", || {
        let folder = tempfile::tempdir().unwrap();
        // The first evaluation fails drawn and not drawn.
        let failing = Arc::new(AtomicU64::new(2));
        let make = move |_: &EnvContext| {
            let fails = is_evaluator() && is_one_of(&failing);
            Faulty::new(Fault::Error, if fails { 1 } else { u64::MAX })
        };
        let mut trainer = Trainer::builder(evaluated(small(1), 1)).env(make).videos(folder.path()).build().unwrap();
        let dict = until(&mut trainer, |dict| count(dict, "made") >= 1);
        trainer.finish().unwrap();
        assert_eq!((count(&dict, "failed"), dict.get("evaluation.video_failed")), (1, Some(&Value::Null)), "{dict:?}");
    });
}

#[test]
fn a_drawn_evaluation_that_fails_by_chance_costs_its_own_video() {
    without_hanging("a run with videos", || {
        let folder = tempfile::tempdir().unwrap();
        let failing = Arc::new(AtomicU64::new(1));
        let left = Arc::clone(&failing);
        let make = move |_: &EnvContext| {
            let fails = is_evaluator() && is_one_of(&left);
            Chaos::new(CartPole::new(), ChaosConfig { error: fails.into(), ..ChaosConfig::default() })
        };
        let mut trainer = Trainer::builder(evaluated(small(1), 1)).env(make).videos(folder.path()).build().unwrap();
        let dict = until(&mut trainer, |dict| count(dict, "made") >= 2);
        trainer.finish().unwrap();
        assert_eq!(failing.load(Ordering::Relaxed), 0, "the first one drawn has not failed");
        assert_eq!((count(&dict, "failed"), dict.get("evaluation.video_failed")), (0, Some(&Value::Null)), "{dict:?}");
        assert!(dict.get("evaluation.video").is_some_and(Value::is_string), "{dict:?}");
    });
}

#[test]
fn a_video_that_cannot_be_saved_ends_no_run() {
    without_hanging("a run whose videos have no folder", || {
        let file = tempfile::NamedTempFile::new().unwrap();
        let dir = file.path().join("videos");
        let cart_pole = |_: &EnvContext| CartPole::new();
        let mut trainer = Trainer::builder(evaluated(small(1), 2)).env(cart_pole).videos(&dir).build().unwrap();
        let dict = until(&mut trainer, |dict| count(dict, "made") >= 2);
        trainer.finish().unwrap();
        let reason = dict.get("evaluation.video_failed").and_then(Value::as_str).unwrap();
        assert!(reason.contains("videos"), "{reason}");
        assert_eq!((count(&dict, "failed"), dict.get("evaluation.video")), (0, Some(&Value::Null)));
    });
}
