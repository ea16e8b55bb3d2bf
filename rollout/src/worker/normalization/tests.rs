#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{FinalObs, ObsKind};
use pronk_policy::{Rng, Space};

use super::*;
use crate::env::{ActionRef, CallMonitor, EnvContext, EpisodeStat, ObsMut, VectorContext};
use crate::envs::{CartPole, Pendulum};
use crate::pool::{EnvFactory, Vectorised};
use crate::testing::{Counter, Hooked, OneWeight, config, links};
use crate::vector::{VectorEnv, VectorStep};
use crate::worker::{RolloutWorker, WorkerConfig};

const CONTEXT: VectorContext =
    VectorContext { worker: 1, incarnation: 0, first_env: 0, seed: 5, purpose: crate::env::EnvPurpose::Training };

const NOTHING: NormalizerConfig = NormalizerConfig { observations: false, return_gamma: None };
const OBSERVATIONS: NormalizerConfig = NormalizerConfig { observations: true, return_gamma: None };
const REWARDS: NormalizerConfig = NormalizerConfig { observations: false, return_gamma: Some(0.9) };
const BOTH: NormalizerConfig = NormalizerConfig { observations: true, return_gamma: Some(0.9) };

/// Mean and variance of each number by their definition.
fn in_two_passes(rows: &[f64], len: usize) -> (Vec<f64>, Vec<f64>) {
    let n = (rows.len() / len) as f64;
    let mean: Vec<f64> = (0..len).map(|i| rows.iter().skip(i).step_by(len).sum::<f64>() / n).collect();
    let squares = |i: usize| rows.iter().skip(i).step_by(len).map(|value| (value - mean[i]).powi(2)).sum::<f64>() / n;
    (mean.clone(), (0..len).map(squares).collect())
}

/// Environments with all that a worker makes of what they wrote, in fragments of `STEPS` steps.
struct Played {
    envs: Box<dyn VectorEnv>,
    normalization: Option<Normalization>,
    has_begun: bool,
    obs: Vec<f32>,
    obs_seen: Vec<f32>,
    rewards_seen: Vec<f32>,
    final_obs: FinalObs,
    episodes: Vec<EpisodeStat>,
    rng: Rng,
}

const STEPS: usize = 50;

impl Played {
    fn new(factory: &dyn EnvFactory, n_envs: usize, config: NormalizerConfig) -> Self {
        let envs = factory.make_vector(&CONTEXT, n_envs, &CallMonitor::new()).unwrap();
        let obs_len = envs.spec().observation.obs_len();
        Self {
            normalization: Normalization::new(config, n_envs, envs.spec()),
            has_begun: false,
            envs,
            obs: vec![0.0; n_envs * obs_len],
            obs_seen: Vec::new(),
            rewards_seen: Vec::new(),
            final_obs: FinalObs::new(ObsKind::F32, obs_len),
            episodes: Vec::new(),
            rng: Rng::seed_from(1),
        }
    }

    /// A fragment on the scale of `moments`, which it is then merged into.
    fn fragment(&mut self, moments: &mut Arc<NormalizerMoments>) {
        self.obs_seen.clear();
        self.rewards_seen.clear();
        self.final_obs.clear();
        let begins = !std::mem::replace(&mut self.has_begun, true);
        if begins {
            self.envs.reset_all(ObsMut::F32(&mut self.obs)).unwrap();
        }
        if let Some(normalization) = &mut self.normalization {
            normalization.scale_by(moments);
            let row = ObsViewMut::F32(&mut self.obs);
            if begins { normalization.begin(row).unwrap() } else { normalization.rescale(row).unwrap() }
        }
        self.obs_seen.extend(&self.obs);
        for t in 0..STEPS {
            self.step(t);
        }
        if let Some(normalization) = &mut self.normalization {
            normalization.scale(self.final_obs.rows_mut()).unwrap();
            Arc::make_mut(moments).merge(&normalization.take());
        }
        self.envs.drain_episodes(&mut self.episodes);
    }

    fn step(&mut self, t: usize) {
        let n_envs = self.envs.n_envs();
        let (mut rewards, mut ends) = (vec![0.0; n_envs], vec![End::No; n_envs]);
        let choices: Vec<u32> = (0..n_envs).map(|_| self.rng.below(2) as u32).collect();
        let numbers: Vec<f32> = choices.iter().map(|choice| 4.0 * *choice as f32 - 2.0).collect();
        let actions = match self.envs.spec().action {
            Space::Box { .. } => ActionRef::Continuous(&numbers),
            _ => ActionRef::Discrete(&choices),
        };
        let obs = ObsMut::F32(&mut self.obs);
        let out = VectorStep { t, obs, rewards: &mut rewards, ends: &mut ends, final_obs: &mut self.final_obs };
        self.envs.step(actions, out).unwrap();
        if let Some(normalization) = &mut self.normalization {
            normalization.observe(ObsViewMut::F32(&mut self.obs)).unwrap();
            normalization.reward(&mut rewards, &ends);
        }
        self.obs_seen.extend(&self.obs);
        self.rewards_seen.extend(&rewards);
    }
}

fn pendulums() -> Arc<dyn EnvFactory> {
    Arc::new(Vectorised::<Pendulum>::new())
}

#[test]
fn what_comes_out_has_mean_zero_and_variance_one() {
    let mut moments = Arc::default();
    let mut played = Played::new(pendulums().as_ref(), 16, BOTH);
    let mut seen = Vec::new();
    for fragment in 0..60 {
        played.fragment(&mut moments);
        if fragment >= 40 {
            seen.extend(played.obs_seen.iter().map(|value| f64::from(*value)));
        }
    }
    let (mean, variance) = in_two_passes(&seen, 3);
    for i in 0..3 {
        assert!(mean[i].abs() < 0.15 && (variance[i] - 1.0).abs() < 0.2, "{mean:?}, {variance:?}");
    }
}

#[test]
fn every_observation_of_a_fragment_is_on_the_scale_that_came_with_the_weights() {
    let mut moments = Arc::default();
    let mut raw = Played::new(pendulums().as_ref(), 4, NOTHING);
    let mut played = Played::new(pendulums().as_ref(), 4, OBSERVATIONS);
    for fragment in 0..6 {
        let scale = Arc::clone(&moments);
        raw.fragment(&mut Arc::default());
        played.fragment(&mut moments);
        let mut expected = raw.obs_seen.clone();
        if let Some(scale) = obs_normalizer(&scale) {
            scale.apply(&mut expected).unwrap();
        }
        assert_eq!(played.obs_seen, expected, "fragment {fragment}");
        assert_ne!(moments, scale);
    }
    let last = moments.observations.as_ref().unwrap();
    assert_eq!(last.count(), 4 * (1 + 6 * STEPS as u64));
}

#[test]
fn rewards_are_divided_and_episodes_keep_what_the_environment_paid() {
    let mut moments = Arc::new(REWARDS.no_moments());
    let mut raw = Played::new(pendulums().as_ref(), 4, NOTHING);
    let mut played = Played::new(pendulums().as_ref(), 4, REWARDS);
    for _ in 0..5 {
        let std = moments.returns.as_ref().unwrap().std()[0];
        raw.fragment(&mut Arc::default());
        played.fragment(&mut moments);
        for (raw, reward) in raw.rewards_seen.iter().zip(&played.rewards_seen) {
            assert_eq!(*reward, ((f64::from(*raw) / std) as f32).clamp(-10.0, 10.0));
        }
        assert_eq!(raw.obs_seen, played.obs_seen);
    }
    assert!(!raw.episodes.is_empty());
    assert_eq!(raw.episodes, played.episodes);
}

#[test]
fn a_discounted_return_begins_anew_with_its_episode() {
    let three = |_: &EnvContext| Counter::of_three();
    let mut moments = Arc::default();
    Played::new(&three, 1, NormalizerConfig { return_gamma: Some(0.5), ..NOTHING }).fragment(&mut moments);
    // Rewards 1, 2, 3: returns 1, 2.5, 4.25, over and over.
    let mut expected = RunningMoments::new(1);
    for returns in [1.0, 2.5, 4.25].iter().cycle().take(STEPS) {
        expected.add_rows(&[*returns]);
    }
    assert_eq!(moments.returns, Some(expected));
}

#[test]
fn final_observations_are_on_the_scale_of_the_others() {
    let limited = Vectorised::<CartPole>::new().with_time_limit(Some(7));
    let mut moments = Arc::default();
    let mut raw = Played::new(&limited, 3, NOTHING);
    let mut played = Played::new(&limited, 3, OBSERVATIONS);
    for _ in 0..2 {
        let scale = obs_normalizer(&moments);
        raw.fragment(&mut Arc::default());
        played.fragment(&mut moments);
        assert!(!raw.final_obs.is_empty());
        assert_eq!(raw.final_obs.index(), played.final_obs.index());
        let Some(scale) = scale else { continue };
        for ((_, _, raw), (_, _, row)) in raw.final_obs.iter().zip(played.final_obs.iter()) {
            let mut expected = raw.as_f32().unwrap().to_vec();
            scale.apply(&mut expected).unwrap();
            assert_eq!(row.as_f32().unwrap(), expected);
        }
    }
}

#[test]
fn a_worker_that_comes_late_begins_with_what_the_others_have_seen() {
    let mut moments = Arc::default();
    let [mut first, mut second] = [(); 2].map(|()| Played::new(pendulums().as_ref(), 4, OBSERVATIONS));
    first.fragment(&mut moments);
    second.fragment(&mut moments);
    assert_eq!(moments.observations.as_ref().unwrap().count(), 2 * 4 * (1 + STEPS as u64));
    let scale = obs_normalizer(&moments).unwrap();
    let (mut raw, mut late) =
        (Played::new(pendulums().as_ref(), 4, NOTHING), Played::new(pendulums().as_ref(), 4, OBSERVATIONS));
    raw.fragment(&mut Arc::default());
    late.fragment(&mut moments);
    let mut expected = raw.obs_seen;
    scale.apply(&mut expected).unwrap();
    assert_eq!(late.obs_seen, expected);
}

#[test]
fn discarded_moments_are_in_no_fragment() {
    let mut moments = Arc::default();
    let mut played = Played::new(pendulums().as_ref(), 4, BOTH);
    played.fragment(&mut moments);
    played.step(0);
    let normalization = played.normalization.as_mut().unwrap();
    normalization.discard();
    let nothing = normalization.take();
    assert_eq!((nothing.observations.unwrap().count(), nothing.returns.unwrap().count()), (0, 0));
}

#[test]
fn scales_of_other_environments_are_refused() {
    let played = |n_envs| {
        let mut played = Played::new(pendulums().as_ref(), n_envs, BOTH);
        played.fragment(&mut Arc::default());
        played.normalization.unwrap()
    };
    let (mut own, saved) = (played(4), played(4).save());
    own.load(&saved).unwrap();
    let changes: [fn(&mut SavedNormalization); 4] = [
        |saved| saved.returns.truncate(3),
        |saved| saved.raw.truncate(3),
        |saved| saved.scale = Some((vec![0.0; 2], vec![1.0; 2])),
        |saved| saved.gathered = SavedMoments(Some(RunningMoments::new(2)), None),
    ];
    for change in changes {
        let mut other = saved.clone();
        change(&mut other);
        assert!(own.load(&other).unwrap_err().contains("4 environments"), "{other:?}");
    }
    assert_eq!(own.save(), saved, "nothing of it was loaded");
}

#[test]
fn bytes_are_refused_and_left_alone_where_only_rewards_are_normalised() {
    let worker = |normalize| {
        let images = |_: &EnvContext| Hooked::with_spec(|spec| spec.observation = Space::bytes(vec![3]).unwrap());
        let (links, _steps, _guard) = links();
        let config = WorkerConfig { normalize, ..config(1, 0) };
        let made = RolloutWorker::new(config, Arc::new(images), Box::new(OneWeight::new()), links);
        made.map(drop).unwrap_err().to_string()
    };
    let refused = worker(BOTH);
    assert!(refused.contains("are bytes, which the network scales"), "{refused}");
    // Only the network refuses them.
    let refused = worker(REWARDS);
    assert!(refused.contains("the network does not fit"), "{refused}");
}
