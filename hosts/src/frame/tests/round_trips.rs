use proptest::prelude::*;

use super::*;

/// Encodes and decodes a fragment both ways, and compares.
fn assert_returns(batch: &MultiAgentBatch, bounds: &Expected) {
    for pixels in [Pixels::Raw, Pixels::Zstd] {
        let frame = encode(batch, pixels);
        assert!(frame.len() <= bounds.max_bytes(), "{} bytes, at most {}", frame.len(), bounds.max_bytes());
        let decoded = decode(&frame, bounds).unwrap();
        assert_eq!(contents(&decoded), contents(batch), "{pixels:?}");
        assert_within(&decoded, bounds);
    }
}

fn observation_spaces() -> Vec<Space> {
    vec![floats(5), pixels(7), Space::discrete(4).unwrap(), Space::MultiDiscrete { nvec: vec![2, 3] }]
}

fn action_spaces() -> Vec<Space> {
    let bounded = Space::boxed(vec![-1.0; 3], vec![1.0; 3], vec![3]).unwrap();
    vec![Space::discrete(4).unwrap(), Space::MultiDiscrete { nvec: vec![2, 5, 3] }, bounded]
}

#[test]
fn fragments_of_every_kind_of_space_with_and_without_a_hidden_state_return_as_they_were() {
    for obs in observation_spaces() {
        for action in action_spaces() {
            for state_len in [0, 6] {
                let bounds = single(&obs, &action, Sizes { state_len, ..SMALL });
                (0..8).for_each(|seed| assert_returns(&fragment(&bounds, seed), &bounds));
            }
        }
    }
}

#[test]
fn what_the_fragments_of_these_tests_hold_is_of_every_kind() {
    let bounds = two_policies();
    let fragments: Vec<_> = (0..20).map(|seed| fragment(&bounds, seed)).collect();
    let any = |holds: &dyn Fn(&SampleBatch) -> bool| {
        assert!(fragments.iter().any(|batch| batch.policies().any(|(_, samples)| holds(samples))));
    };
    any(&|it| it.tags().len() > 1);
    any(&|it| it.final_obs().is_empty());
    any(&|it| it.ends().contains(&End::Truncated));
    any(&|it| {
        it.final_obs()
            .index()
            .iter()
            .any(|&(t, b)| it.ends()[t as usize * it.shape().columns + b as usize] == End::Terminated)
    });
    any(&|it| it.behaviour_inputs().contains(&f32::NEG_INFINITY));
    any(&|it| it.versions().first() != it.versions().last());
    let columns = |batch: &MultiAgentBatch, id| batch.get(id).unwrap().shape().columns;
    assert!(fragments.iter().any(|batch| columns(batch, "a") != columns(batch, "b")));
}

#[test]
fn several_policies_return_each_with_its_own_columns_and_some_may_be_absent() {
    let bounds = two_policies();
    for seed in 0..20 {
        let batch = fragment(&bounds, seed);
        assert_returns(&batch, &bounds);
        for (id, samples) in batch.policies() {
            let only = MultiAgentBatch::new(BTreeMap::from([(id.clone(), samples.clone())]), 1).unwrap();
            assert_returns(&only, &bounds);
        }
    }
}

#[test]
fn moments_return_as_they_were_for_some_or_all_fragments_of_a_joined_batch() {
    let bounds = normalized();
    let mut batch = MultiAgentBatch::single(samples(bounds.policy("default_policy").unwrap().1, 4, &mut Numbers(1)));
    let tags = [0, 1].map(|slot| Tag { life: 3, worker: 10, slot, ..Tag::default() });
    batch.policies_mut().for_each(|(_, samples)| samples.set_tags(&tags).unwrap());
    for seed in 0..3 {
        assert_eq!(batch.moments().len(), seed);
        assert_returns(&batch, &bounds);
        batch = batch.with_moments(moments(seed as u64));
        if seed == 1 {
            break;
        }
    }
    let empty = NormalizerMoments { observations: Some(RunningMoments::default()), returns: moments(1).returns };
    let mut batch = fragment(&bounds, 2);
    batch.take_moments();
    assert_returns(&batch.with_moments(empty), &bounds);
}

#[test]
fn pixels_get_smaller_when_compressed_and_noise_is_left_as_it_is() {
    let bounds = single(&pixels(500), &Space::discrete(3).unwrap(), SMALL);
    let mut batch = fragment(&bounds, 1);
    let [plain, packed] = [Pixels::Raw, Pixels::Zstd].map(|pixels| encode(&batch, pixels));
    assert!(packed.len() < plain.len() / 2, "{} of {}", packed.len(), plain.len());
    let mut numbers = Numbers(7);
    for (_, samples) in batch.policies_mut() {
        if let ObsViewMut::U8(obs) = samples.obs_mut() {
            obs.iter_mut().for_each(|byte| *byte = numbers.next() as u8);
        }
    }
    assert_eq!(encode(&batch, Pixels::Zstd), encode(&batch, Pixels::Raw));
}

#[test]
fn observations_that_share_elements_cross_as_others() {
    let bounds = single(&pixels(7), &Space::discrete(3).unwrap(), SMALL);
    let mut batch = fragment(&bounds, 1);
    for (_, samples) in batch.policies_mut() {
        let width = samples.shape().columns;
        let ObsViewMut::U8(obs) = samples.obs_mut() else { unreachable!("pixels are bytes") };
        // Each row is the one before, moved by one.
        obs.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 7 / width + i % 7) as u8);
    }
    let apart = [Pixels::Raw, Pixels::Zstd].map(|pixels| encode(&batch, pixels));
    batch.policies_mut().for_each(|(_, samples)| samples.share_rows(1, &Pool::new(1)));
    assert!(batch.policies().all(|(_, samples)| samples.shares_rows()));
    assert_eq!([Pixels::Raw, Pixels::Zstd].map(|pixels| encode(&batch, pixels)), apart);
    assert_returns(&batch, &bounds);
}

#[test]
fn one_encoder_and_one_decoder_serve_many_frames_one_after_the_other() {
    let bounds = two_policies();
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let (mut out, pool) = (Vec::new(), Pool::new(4));
    for seed in 0..20 {
        let batch = fragment(&bounds, seed);
        let start = out.len();
        encoder.encode(&batch, Pixels::Zstd, &mut out);
        let decoded = decoder.decode(&out[start..], &pool, &bounds, &sender()).unwrap();
        assert_eq!(contents(&decoded), contents(&batch));
        // A frame that is refused leaves nothing behind.
        assert!(decoder.decode(&out[start..out.len() - 1], &pool, &bounds, &sender()).is_err());
    }
    let first = encode(&fragment(&bounds, 0), Pixels::Zstd);
    assert_eq!(out[..first.len()], first, "frames are appended");
}

#[test]
fn decoding_uses_the_storage_of_the_pool() {
    let bounds = single(&floats(5), &Space::discrete(2).unwrap(), SMALL);
    let (frame, pool) = (encode(&fragment(&bounds, 3), Pixels::Raw), Pool::new(1));
    let address = || {
        let batch = Decoder::default().decode(&frame, &pool, &bounds, &sender()).unwrap();
        batch.get("default_policy").unwrap().rewards().as_ptr() as usize
    };
    assert_eq!(address(), address());
    assert_eq!(pool.idle(), 1);
}

#[test]
fn bounds_that_cannot_be_are_refused() {
    let (obs, action) = (floats(3), Space::discrete(2).unwrap());
    let shape = *policy(&obs, &action, SMALL).shape();
    let new = |shape, obs: &Space, action: &Space| ExpectedPolicy::new(shape, obs, action.clone());
    assert!(matches!(new(shape, &floats(4), &action), Err(ExpectedError::Spaces { .. })));
    assert!(matches!(new(shape, &pixels(3), &action), Err(ExpectedError::Spaces { .. })));
    assert!(matches!(new(shape, &obs, &floats(1)), Err(ExpectedError::Spaces { .. })));
    assert!(matches!(new(BatchShape { columns: 0, ..shape }, &obs, &action), Err(ExpectedError::Shape(_))));
    assert!(matches!(new(shape, &obs, &Space::Discrete { n: 0 }), Err(ExpectedError::Space(_))));
    let huge = new(BatchShape { columns: u32::MAX as usize, ..shape }, &obs, &action).unwrap();
    let huge = Expected::single(3, huge, NormalizerConfig::default());
    assert!(matches!(huge, Err(ExpectedError::TooLong { policies: 1 })));
    assert!(matches!(Expected::multi(3, BTreeMap::new(), 1), Err(ExpectedError::Nothing { .. })));
    let policies = BTreeMap::from([("a".into(), policy(&obs, &action, SMALL))]);
    assert!(matches!(Expected::multi(3, policies, 0), Err(ExpectedError::Nothing { .. })));
}

/// Bounds of any small sizes and spaces.
fn any_bounds() -> impl Strategy<Value = Expected> {
    let sizes = (1..6_usize, 1..6_usize, 0..4_usize);
    let sizes = sizes.prop_map(|(steps, max_columns, state_len)| Sizes { steps, max_columns, state_len });
    let obs = prop_oneof![(1..40_usize).prop_map(floats), (1..40_usize).prop_map(pixels)];
    let nvec = prop::collection::vec(1..5_usize, 1..4);
    let action = prop_oneof![
        (1..6_usize).prop_map(|n| Space::Discrete { n }),
        nvec.prop_map(|nvec| Space::MultiDiscrete { nvec }),
        (1..4_usize).prop_map(floats),
    ];
    let policies = prop::collection::btree_map("[a-zé_]{1,9}", (obs, action, sizes), 1..4);
    (policies, 1..1000_u64).prop_map(|(policies, max_env_steps)| {
        let bounds = |(id, (obs, action, sizes)): (String, (Space, Space, Sizes))| {
            (id.as_str().into(), policy(&obs, &action, sizes))
        };
        Expected::multi(3, policies.into_iter().map(bounds).collect(), max_env_steps).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn fragments_of_any_shape_return_as_they_were(bounds in any_bounds(), seed: u64) {
        assert_returns(&fragment(&bounds, seed), &bounds);
    }
}
