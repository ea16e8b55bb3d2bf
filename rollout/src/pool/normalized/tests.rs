#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_policy::{Rng, Space};
use proptest::prelude::*;

use super::*;
use crate::env::{ActionRef, CallMonitor, EnvContext, EpisodeStat, ObsMut};
use crate::envs::{CartPole, Pendulum};
use crate::pool::Vectorised;
use crate::testing::{Counter, Hooked};
use crate::vector::{NormalizerConfig, NormalizerMoments, RunningMoments, VectorStep};

const CONTEXT: VectorContext = VectorContext { worker: 1, incarnation: 0, first_env: 0, seed: 5 };

const BOTH: NormalizerConfig = NormalizerConfig { observations: true, return_gamma: Some(0.9) };

/// Mean and variance of each number by their definition.
fn in_two_passes(rows: &[f64], len: usize) -> (Vec<f64>, Vec<f64>) {
    let n = (rows.len() / len) as f64;
    let mean: Vec<f64> = (0..len).map(|i| rows.iter().skip(i).step_by(len).sum::<f64>() / n).collect();
    let squares = |i: usize| rows.iter().skip(i).step_by(len).map(|value| (value - mean[i]).powi(2)).sum::<f64>() / n;
    (mean.clone(), (0..len).map(squares).collect())
}

proptest! {
    #[test]
    fn parts_that_are_merged_have_the_moments_of_the_whole(
        rows in prop::collection::vec(-1e3..1e3_f64, 2..200),
        cuts in prop::collection::vec(0..100_usize, 0..4),
    ) {
        let rows = &rows[..rows.len() / 2 * 2];
        let mut merged = RunningMoments::new(2);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| 2 * cut.min(rows.len() / 2)).collect();
        cuts.extend([0, rows.len()]);
        cuts.sort_unstable();
        for part in cuts.windows(2) {
            let mut moments = RunningMoments::new(2);
            moments.add_rows(&rows[part[0]..part[1]]);
            merged.merge(&moments);
        }
        let (mean, variance) = in_two_passes(rows, 2);
        prop_assert_eq!(merged.count(), rows.len() as u64 / 2);
        for i in 0..2 {
            prop_assert!((merged.mean()[i] - mean[i]).abs() < 1e-9, "{:?}, not {:?}", merged.mean(), mean);
            prop_assert!((merged.variance()[i] - variance[i]).abs() < 1e-6, "{:?}, not {:?}", merged, variance);
        }
        prop_assert!(merged.is_of(2) && !merged.is_of(3));
    }
}

#[test]
fn moments_of_a_file_are_those_that_were_written() {
    let mut moments = NormalizerMoments::begin(&BOTH, 3);
    moments.observations.as_mut().unwrap().add_rows(&[0.1_f32, 1e-20, 3e20, 0.7, 0.0, -1.0]);
    let text = serde_json::to_string(&moments).unwrap();
    assert_eq!(serde_json::from_str::<NormalizerMoments>(&text).unwrap(), moments);
    let nothing: NormalizerMoments = serde_json::from_str("{}").unwrap();
    assert_eq!(nothing, NormalizerMoments::default());
}

/// Environments with all that they wrote in fragments of `STEPS` steps.
struct Played {
    envs: Box<dyn VectorEnv>,
    n_envs: usize,
    obs: Vec<f32>,
    obs_seen: Vec<f32>,
    rewards_seen: Vec<f32>,
    final_obs: FinalObs,
    episodes: Vec<EpisodeStat>,
    rng: Rng,
}

const STEPS: usize = 50;

impl Played {
    fn reset(factory: &dyn EnvFactory, n_envs: usize) -> Self {
        let mut envs = factory.make_vector(&CONTEXT, n_envs, &CallMonitor::new()).unwrap();
        let obs_len = envs.spec().observation.obs_len();
        let mut obs = vec![0.0; n_envs * obs_len];
        envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
        Self {
            envs,
            n_envs,
            obs,
            obs_seen: Vec::new(),
            rewards_seen: Vec::new(),
            final_obs: FinalObs::new(ObsKind::F32, obs_len),
            episodes: Vec::new(),
            rng: Rng::seed_from(1),
        }
    }

    fn fragment(&mut self) {
        let (mut rewards, mut ends) = (vec![0.0; self.n_envs], vec![End::No; self.n_envs]);
        for t in 0..STEPS {
            let choices: Vec<u32> = (0..self.n_envs).map(|_| self.rng.below(2) as u32).collect();
            let numbers: Vec<f32> = choices.iter().map(|choice| 4.0 * *choice as f32 - 2.0).collect();
            let actions = match self.envs.spec().action {
                Space::Box { .. } => ActionRef::Continuous(&numbers),
                _ => ActionRef::Discrete(&choices),
            };
            let obs = ObsMut::F32(&mut self.obs);
            let out = VectorStep { t, obs, rewards: &mut rewards, ends: &mut ends, final_obs: &mut self.final_obs };
            self.envs.step(actions, out).unwrap();
            self.obs_seen.extend(&self.obs);
            self.rewards_seen.extend(&rewards);
        }
        self.envs.drain_episodes(&mut self.episodes);
    }
}

fn pendulums() -> Arc<dyn EnvFactory> {
    Arc::new(Vectorised::<Pendulum>::new())
}

#[test]
fn what_comes_out_has_mean_zero_and_variance_one() {
    let normalizer = Normalizer::new(BOTH);
    let mut played = Played::reset(&normalizer.wrap(pendulums()), 16);
    for _ in 0..40 {
        played.fragment();
    }
    played.obs_seen.clear();
    for _ in 0..20 {
        played.fragment();
    }
    let wide: Vec<f64> = played.obs_seen.iter().map(|value| f64::from(*value)).collect();
    let (mean, variance) = in_two_passes(&wide, 3);
    for i in 0..3 {
        assert!(mean[i].abs() < 0.15 && (variance[i] - 1.0).abs() < 0.2, "{mean:?}, {variance:?}");
    }
}

#[test]
fn the_scale_stays_within_a_fragment_and_changes_after_it() {
    let normalizer = Normalizer::new(NormalizerConfig { return_gamma: None, ..BOTH });
    let mut raw = Played::reset(pendulums().as_ref(), 4);
    let mut played = Played::reset(&normalizer.wrap(pendulums()), 4);
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    for fragment in 0..6 {
        let scale = normalizer.moments();
        for played in [&mut raw, &mut played] {
            played.obs_seen.clear();
            played.fragment();
        }
        let mut expected = raw.obs_seen.clone();
        if let Some(scale) = scale.obs_normalizer() {
            scale.apply(&mut expected).unwrap();
        }
        assert!(close(&played.obs_seen, &expected), "fragment {fragment}");
        assert_ne!(normalizer.moments(), scale);
    }
    let last = normalizer.moments().observations.unwrap();
    assert_eq!(last.count(), 4 * (1 + 6 * STEPS as u64));
}

#[test]
fn rewards_are_divided_and_episodes_keep_what_the_environment_paid() {
    let normalizer = Normalizer::new(NormalizerConfig { observations: false, return_gamma: Some(0.9) });
    let mut raw = Played::reset(pendulums().as_ref(), 4);
    let mut played = Played::reset(&normalizer.wrap(pendulums()), 4);
    for _ in 0..5 {
        let std = normalizer.moments().reward_std().unwrap();
        for played in [&mut raw, &mut played] {
            played.rewards_seen.clear();
            played.fragment();
        }
        for (raw, reward) in raw.rewards_seen.iter().zip(&played.rewards_seen) {
            assert_eq!(*reward, ((f64::from(*raw) / std) as f32).clamp(-10.0, 10.0));
        }
    }
    assert_eq!(raw.obs_seen, played.obs_seen);
    assert!(!raw.episodes.is_empty());
    assert_eq!(raw.episodes, played.episodes);
}

#[test]
fn a_discounted_return_begins_anew_with_its_episode() {
    let normalizer = Normalizer::new(NormalizerConfig { observations: false, return_gamma: Some(0.5) });
    let three = Arc::new(|_: &EnvContext| Counter::of_three());
    let mut played = Played::reset(&normalizer.wrap(three), 1);
    played.fragment();
    // Rewards 1, 2, 3: returns 1, 2.5, 4.25, over and over.
    let mut expected = RunningMoments::new(1);
    for returns in [1.0, 2.5, 4.25].iter().cycle().take(STEPS) {
        expected.add_rows(&[*returns]);
    }
    assert_eq!(normalizer.moments().returns.unwrap(), expected);
}

#[test]
fn final_observations_are_on_the_scale_of_the_others() {
    let normalizer = Normalizer::new(NormalizerConfig { return_gamma: None, ..BOTH });
    let limited = || Arc::new(Vectorised::<CartPole>::new().with_time_limit(Some(7)));
    let mut raw = Played::reset(limited().as_ref(), 3);
    let mut played = Played::reset(&normalizer.wrap(limited()), 3);
    for _ in 0..2 {
        let scale = normalizer.moments().obs_normalizer();
        for played in [&mut raw, &mut played] {
            played.final_obs.clear();
            played.fragment();
        }
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
fn workers_share_what_they_have_seen() {
    let normalizer = Normalizer::new(NormalizerConfig { return_gamma: None, ..BOTH });
    let factory = normalizer.wrap(pendulums());
    let [mut first, mut second] = [(); 2].map(|()| Played::reset(&factory, 4));
    first.fragment();
    second.fragment();
    assert_eq!(normalizer.moments().observations.unwrap().count(), 2 * 4 * (1 + STEPS as u64));
    let late = Played::reset(&factory, 4);
    let mut expected = Played::reset(pendulums().as_ref(), 4).obs;
    normalizer.moments().obs_normalizer().unwrap().apply(&mut expected).unwrap();
    assert_eq!(late.obs, expected, "who comes late begins with what is known");
}

#[test]
fn bytes_are_refused_and_left_alone_where_only_rewards_are_normalised() {
    let images = || {
        let make = |_: &EnvContext| Hooked::with_spec(|spec| spec.observation = Space::bytes(vec![3]).unwrap());
        Arc::new(make) as Arc<dyn EnvFactory>
    };
    let refused = Normalizer::new(BOTH)
        .wrap(images())
        .make_vector(&CONTEXT, 1, &CallMonitor::new())
        .map(drop)
        .expect_err("refused");
    assert!(refused.to_string().contains("are bytes, which the network scales"), "{refused}");
    let rewards = NormalizerConfig { observations: false, ..BOTH };
    assert!(Normalizer::new(rewards).wrap(images()).make_vector(&CONTEXT, 1, &CallMonitor::new()).is_ok());
}
