//! What the tests of frames share: bounds, fragments inside them, and a check that does without the decoder.

use std::collections::BTreeMap;

use pronk_buffer::{
    ActionKind, ActionView, ActionViewMut, BatchShape, End, MultiAgentBatch, ObsKind, ObsViewMut, Pool, SampleBatch,
    Tag,
};
use pronk_metrics::{NormalizerMoments, RunningMoments};
use pronk_policy::{ObsDtype, Space};
use pronk_rollout::NormalizerConfig;

use super::expected::EnvSteps;
use super::*;

mod damage;
mod parts;
mod round_trips;
mod violations;

const NEWEST: u64 = 300;

fn sender() -> Sender {
    Sender { workers: 10..20, newest_version: NEWEST }
}

/// Sizes that the spaces do not say.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    max_columns: usize,
    state_len: usize,
}

const SMALL: Sizes = Sizes { steps: 3, max_columns: 4, state_len: 0 };

fn floats(len: usize) -> Space {
    Space::boxed(vec![f32::NEG_INFINITY; len], vec![f32::INFINITY; len], vec![len]).unwrap()
}

fn pixels(len: usize) -> Space {
    Space::bytes(vec![len]).unwrap()
}

fn policy(obs: &Space, action: &Space, Sizes { steps, max_columns, state_len }: Sizes) -> ExpectedPolicy {
    let shape = BatchShape {
        steps,
        columns: max_columns,
        obs_len: obs.obs_len(),
        obs_kind: if obs.obs_dtype() == ObsDtype::U8 { ObsKind::U8 } else { ObsKind::F32 },
        act_len: action.act_len(),
        act_kind: if action.has_discrete_actions() { ActionKind::U32 } else { ActionKind::F32 },
        dist_len: action.dist_len(),
        state_len,
    };
    ExpectedPolicy::new(shape, obs, action.clone()).unwrap()
}

fn single(obs: &Space, action: &Space, sizes: Sizes) -> Expected {
    Expected::single(3, policy(obs, action, sizes), NormalizerConfig::default()).unwrap()
}

/// Two policies with all kinds of columns.
fn two_policies() -> Expected {
    let choices = Space::MultiDiscrete { nvec: vec![3, 2] };
    let sizes = Sizes { state_len: 2, ..SMALL };
    let policies = [
        ("a", policy(&pixels(6), &choices, sizes)),
        ("b", policy(&floats(3), &floats(2), Sizes { steps: 2, ..SMALL })),
    ];
    Expected::multi(3, policies.into_iter().map(|(id, policy)| (id.into(), policy)).collect(), 50).unwrap()
}

/// Normalises observations and returns.
const NORMALIZED: NormalizerConfig = NormalizerConfig { observations: true, return_gamma: Some(0.9) };

fn normalized() -> Expected {
    let policy = policy(&floats(3), &Space::discrete(2).unwrap(), SMALL);
    Expected::single(3, policy, NORMALIZED).unwrap()
}

fn moments(seed: u64) -> NormalizerMoments {
    let (mut observations, mut returns) = (RunningMoments::new(3), RunningMoments::new(1));
    observations.add_rows(&[seed as f32, 1.0, -2.5, 0.5, 1.0, 7.0]);
    returns.add_rows(&[0.25_f32, seed as f32]);
    NormalizerMoments { observations: Some(observations), returns: Some(returns) }
}

/// Numbers that differ from seed to seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 1024.0 - 8192.0
    }

    fn fill(&mut self, to: &mut [f32]) {
        to.iter_mut().for_each(|number| *number = self.float());
    }

    fn fill_obs(&mut self, to: ObsViewMut<'_>) {
        match to {
            ObsViewMut::F32(to) => self.fill(to),
            // Compressible, as pixels are.
            ObsViewMut::U8(to) => to.iter_mut().for_each(|byte| *byte = (self.below(5) / 4 * 200) as u8),
        }
    }
}

/// Samples inside the bounds, of as many columns.
fn samples(bounds: &ExpectedPolicy, columns: usize, numbers: &mut Numbers) -> SampleBatch {
    let shape = BatchShape { columns, ..*bounds.shape() };
    let tag = |slot| Tag { life: 3, worker: 10 + slot as u32 % 10, incarnation: 2, slot, version: 4 };
    let tags: Vec<Tag> = (0..1 + numbers.next() % columns as u64).map(tag).collect();
    let mut samples = SampleBatch::blank(shape, tags[0]);
    samples.set_tags(&tags).unwrap();
    numbers.fill_obs(samples.obs_mut());
    let nvec = match bounds.action() {
        Space::Discrete { n } => vec![*n],
        Space::MultiDiscrete { nvec } => nvec.clone(),
        Space::Box { .. } => Vec::new(),
    };
    match samples.actions_mut() {
        ActionViewMut::U32(actions) => {
            actions.iter_mut().zip(nvec.iter().cycle()).for_each(|(action, n)| *action = numbers.below(*n) as u32);
        }
        ActionViewMut::F32(actions) => numbers.fill(actions),
    }
    numbers.fill(samples.rewards_mut());
    numbers.fill(samples.behaviour_logp_mut());
    numbers.fill(samples.behaviour_inputs_mut());
    if !nvec.is_empty() {
        samples.behaviour_inputs_mut().iter_mut().step_by(5).for_each(|logit| *logit = f32::NEG_INFINITY);
    }
    numbers.fill(samples.behaviour_values_mut());
    numbers.fill(samples.state_in_mut());
    let mut version = 0;
    for cell in 0..shape.steps * columns {
        version += numbers.next() % 3 / 2;
        samples.versions_mut()[cell] = version;
        let end = [End::No, End::No, End::Terminated, End::Truncated][numbers.below(4)];
        samples.ends_mut()[cell] = end;
        if end == End::Truncated || (end == End::Terminated && numbers.below(2) == 0) {
            let place = ((cell / columns) as u32, (cell % columns) as u32);
            numbers.fill_obs(samples.final_obs_mut().push_blank(&[place]));
        }
    }
    samples
}

/// A fragment of all policies inside the bounds.
fn fragment(bounds: &Expected, seed: u64) -> MultiAgentBatch {
    let mut numbers = Numbers(seed);
    let mut policies = BTreeMap::new();
    for (id, policy) in &bounds.policies {
        let columns = 1 + numbers.below(policy.shape().columns);
        policies.insert(id.clone(), samples(policy, columns, &mut numbers));
    }
    let env_steps = match bounds.env_steps {
        EnvSteps::OfCells => policies.values().map(SampleBatch::steps).sum(),
        EnvSteps::UpTo(max) => 1 + numbers.next() % max,
    };
    let batch = MultiAgentBatch::new(policies, env_steps).unwrap();
    if bounds.normalizer == NORMALIZED { batch.with_moments(moments(seed % 100)) } else { batch }
}

fn encode(batch: &MultiAgentBatch, pixels: Pixels) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::default().encode(batch, pixels, &mut out);
    out
}

fn decode(bytes: &[u8], bounds: &Expected) -> Result<MultiAgentBatch, FrameError> {
    Decoder::default().decode(bytes, &Pool::new(2), bounds, &sender())
}

/// All that a batch holds but its ticket, bit by bit.
fn contents(batch: &MultiAgentBatch) -> Vec<u8> {
    postcard::to_stdvec(batch).unwrap()
}

/// Panics if a batch breaks the bounds.
fn assert_within(batch: &MultiAgentBatch, bounds: &Expected) {
    let sender = sender();
    assert!(batch.policies().count() > 0);
    for (id, samples) in batch.policies() {
        let policy = &bounds.policies[id];
        let shape = *samples.shape();
        assert_eq!(BatchShape { columns: policy.shape().columns, ..shape }, *policy.shape());
        assert!((1..=policy.shape().columns).contains(&shape.columns));
        assert!((1..=shape.columns).contains(&samples.tags().len()));
        for tag in samples.tags() {
            assert!(tag.life == 3 && sender.workers.contains(&tag.worker) && tag.version <= NEWEST);
        }
        assert!(samples.versions().iter().all(|version| *version <= NEWEST));
        assert_eq!(samples.check_ends(), Ok(()));
        assert_eq!(samples.check_finite(), Ok(()));
        if let ActionView::U32(actions) = samples.actions() {
            let mut rows = actions.chunks_exact(shape.act_len);
            assert!(rows.all(|row| policy.action().contains_discrete(row)));
        }
    }
    match bounds.env_steps {
        EnvSteps::OfCells => assert_eq!(batch.env_steps(), batch.agent_steps()),
        EnvSteps::UpTo(max) => assert!((1..=max).contains(&batch.env_steps())),
    }
    let n_tags: usize = batch.policies().map(|(_, samples)| samples.tags().len()).sum();
    assert!(batch.moments().len() <= n_tags);
    for moments in batch.moments() {
        assert_eq!(moments.observations.is_some(), bounds.normalizer.observations);
        assert_eq!(moments.returns.is_some(), bounds.normalizer.return_gamma.is_some());
        assert!(moments.observations.iter().all(|moments| moments.is_of(3)));
        assert!(moments.returns.iter().all(|moments| moments.is_of(1)));
    }
}
