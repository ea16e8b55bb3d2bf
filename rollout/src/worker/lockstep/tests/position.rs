//! Workers that go on where saved ones were.

use pronk_buffer::ObsView;

use super::*;
use crate::env::{EnvFailureCause, SavedEnvs};

/// Counters whose vector fails on the way back to a saved position.
#[derive(Clone, Copy)]
enum NoWayBack {
    Errs,
    Panics,
}

struct Stuck(Box<dyn VectorEnv>, NoWayBack);

impl VectorEnv for Stuck {
    fn spec(&self) -> &EnvSpec {
        self.0.spec()
    }

    fn n_envs(&self) -> usize {
        self.0.n_envs()
    }

    fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        self.0.reset_all(obs)
    }

    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
        self.0.step(actions, out)
    }

    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        self.0.drain_episodes(into);
    }

    fn save(&mut self, obs: ObsView<'_>) -> Result<Option<SavedEnvs>, EnvFailure> {
        self.0.save(obs)
    }

    fn load(&mut self, _: &SavedEnvs, _: ObsMut<'_>) -> Result<Vec<Restarted>, EnvFailure> {
        let context = VectorContext { worker: 1, ..VectorContext::default() };
        match self.1 {
            NoWayBack::Errs => Err(context.failure_to_make(EnvFailureCause::Error(EnvError::new("no way back")))),
            NoWayBack::Panics => panic!("no way back"),
        }
    }
}

impl EnvFactory for NoWayBack {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let make = |_: &EnvContext| Counter::of_three();
        Ok(Box::new(Stuck(make.make_vector(context, n_envs, monitor)?, *self)))
    }
}

#[test]
fn environments_whose_vector_fails_on_the_way_back_are_replaced() {
    for kind in [NoWayBack::Errs, NoWayBack::Panics] {
        let (links, _steps, _guard) = links();
        let mut saved = worker(kind, config(1, 0), links.clone());
        trace(&mut saved, 2);
        let seat = saved.save().unwrap();
        let mut other = worker(kind, config(1, 0), links);
        other.load(&seat).unwrap();
        trace(&mut other, 1);
        // Those of the same incarnation would repeat its episodes.
        assert_eq!(other.incarnation(), 1);
        let restarted = other.take_collected().restarted;
        assert!(restarted.len() == 2 && restarted.iter().all(|why| why.contains("no way back")), "{restarted:?}");
    }
}

#[test]
fn a_worker_that_has_made_nothing_yet_begins_as_it_would_have() {
    let factory = |_: &EnvContext| Counter::of_three();
    let fresh = |links: &WorkerLinks| {
        let links = WorkerLinks { slots: Arc::default(), ..links.clone() };
        worker(factory, config(1, 7), links)
    };
    let (links, _steps, _guard) = links();
    let whole = trace(&mut fresh(&links), 2);
    let seat = fresh(&links).save().unwrap();
    let mut other = fresh(&links);
    other.load(&seat).unwrap();
    assert_eq!(trace(&mut other, 2), whole);
    assert_eq!((other.incarnation(), other.take_collected().restarted.len()), (0, 0));
}
