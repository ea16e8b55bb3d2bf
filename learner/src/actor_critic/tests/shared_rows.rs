//! Batches whose observations share elements teach the same as others.

use pronk_buffer::{ObsViewMut, Pool};
use pronk_policy::DataParallel;

use super::algorithms::of_single_updates;
use super::*;
use crate::AlgorithmConfig;

const FRAME: usize = 2;
const DEPTH: usize = 3;
const STATE: usize = 2 * 5;

fn stacks(lstm: Option<usize>) -> NetworkSpec {
    let observation = Space::bytes(vec![DEPTH, 1, FRAME]).unwrap();
    let encoder = Encoder::Mlp { hidden: vec![16], activation: Activation::Tanh };
    let spec = NetworkSpec::for_spaces(&observation, &Space::discrete(CONTEXTS).unwrap()).unwrap();
    NetworkSpec { encoder, lstm, ..spec }
}

/// Random stacks of frames; column 1 begins anew after step 2, and after the last.
fn batch(state_len: usize) -> SampleBatch {
    let mut rng = Rng::seed_from(4);
    let shape = BatchShape { obs_len: DEPTH * FRAME, obs_kind: ObsKind::U8, state_len, ..shape() };
    let mut batch = SampleBatch::blank(shape, Tag::default());
    let ObsViewMut::U8(obs) = batch.obs_mut() else { unreachable!("stacks are bytes") };
    for cell in 0..(STEPS + 1) * COLUMNS {
        let (before, row) = obs.split_at_mut(cell * DEPTH * FRAME);
        let row = &mut row[..DEPTH * FRAME];
        row.fill_with(|| rng.below(256) as u8);
        if cell >= COLUMNS && ![3 * COLUMNS + 1, STEPS * COLUMNS + 1].contains(&cell) {
            let before = &before[(cell - COLUMNS) * DEPTH * FRAME..][FRAME..DEPTH * FRAME];
            row[..before.len()].copy_from_slice(before);
        }
    }
    for (t, b) in [(2, 1), (STEPS - 1, 1)] {
        batch.ends_mut()[t * COLUMNS + b] = End::Truncated;
        batch.final_obs_mut().push(t, b, &[9_u8; DEPTH * FRAME][..]).unwrap();
    }
    batch.state_in_mut().fill_with(|| rng.normal() as f32);
    batch.rewards_mut().fill_with(|| rng.normal() as f32);
    batch.behaviour_logp_mut().fill(-1.0);
    batch
}

/// The weights after some passes over a batch.
fn learnt(
    network: Box<dyn Network>,
    params: Params,
    algorithm: &AlgorithmConfig,
    batch: &SampleBatch,
    config: ActorCriticConfig,
) -> Vec<u32> {
    let parts = ActorCriticParts {
        network,
        algorithm: of_single_updates(algorithm),
        optimizer: OptimizerConfig::default().build(params.values().len()).unwrap(),
        params,
        ..parts(0)
    };
    let mut learner = ActorCriticLearner::new(parts, config).unwrap();
    let batch = MultiAgentBatch::single(batch.clone());
    (0..3).for_each(|_| drop(learner.learn((&batch).into()).unwrap()));
    learner.params().values().iter().map(|x| x.to_bits()).collect()
}

#[test]
fn what_is_learnt_is_the_same_to_the_bit() {
    for (i, (name, algorithm)) in super::algorithms::every_algorithm().into_iter().enumerate() {
        let (lstm, state_len, burn_in) = [(None, 0, 0), (Some(5), STATE, 0), (Some(5), STATE, 3)][i % 3];
        for sgd_minibatch_size in [None, NonZeroUsize::new(2 * STEPS)] {
            let (spec, apart) = (stacks(lstm), batch(state_len));
            let mut shared = apart.clone();
            shared.share_rows(FRAME, &Pool::new(1));
            assert!(shared.shares_rows());
            let learnt = |network, batch| {
                let config = ActorCriticConfig { sgd_minibatch_size, burn_in, ..config() };
                learnt(network, spec.init_params(1).unwrap(), &algorithm, batch, config)
            };
            let network = || CpuNetwork::new(&spec).unwrap();
            let expected = learnt(Box::new(network()), &apart);
            assert!(learnt(Box::new(network()), &shared) == expected, "{name}");
            // It takes its rows one after another.
            let apart_only = DataParallel::new(vec![Box::new(network())]).unwrap();
            assert!(!apart_only.reads_shared_rows());
            assert!(learnt(Box::new(apart_only), &shared) == expected, "{name}");
        }
    }
}
