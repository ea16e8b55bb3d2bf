use pronk_buffer::BatchError;

use super::parts::{Parts, frame, raw_moments};
use super::*;

/// A fragment with two columns of `a` and one of `b`, nothing ended.
fn calm() -> MultiAgentBatch {
    let bounds = two_policies();
    let mut batch = fragment(&bounds, 5);
    let mut numbers = Numbers(1);
    let mut policies = BTreeMap::new();
    for ((id, policy), columns) in bounds.policies.iter().zip([2, 1]) {
        let mut samples = samples(policy, columns, &mut numbers);
        samples.ends_mut().fill(End::No);
        samples.final_obs_mut().clear();
        samples.versions_mut().fill(7);
        samples.set_tags(&[Tag { life: 3, worker: 10, ..Tag::default() }]).unwrap();
        policies.insert(id.clone(), samples);
    }
    batch.take_moments();
    MultiAgentBatch::new(policies, 9).unwrap()
}

fn refused(bytes: &[u8], bounds: &Expected) -> (bool, String) {
    let error = decode(bytes, bounds).unwrap_err();
    (error.is_corrupt(), error.to_string())
}

const CORRUPT: bool = true;
const FOREIGN: bool = false;

/// What is done to the parts of a frame, whether it makes the frame corrupt, and the error.
type Spoil = (fn(&mut Parts), bool, &'static str);

fn assert_refused(spoils: &[Spoil], batch: &MultiAgentBatch, bounds: &Expected) {
    let original = encode(batch, Pixels::Raw);
    assert!(decode(&original, bounds).is_ok());
    assert_eq!(Parts::of(&original).frame(), original, "parts are put together as they were");
    for (spoil, is_corrupt, message) in spoils {
        let mut parts = Parts::of(&original);
        spoil(&mut parts);
        assert_eq!(refused(&parts.frame(), bounds), (*is_corrupt, (*message).to_owned()));
    }
}

#[test]
fn each_wrong_number_in_the_header_has_its_own_error() {
    let spoils: &[Spoil] = &[
        (|it| it.head.policies = 0, FOREIGN, "the fragment is empty: a fragment needs at least one batch, got none"),
        (|it| it.head.policies = 3, FOREIGN, "the fragment has 3 policies: expected at most 2"),
        (|it| it.policies[1].id = "c".into(), FOREIGN, "the fragment has policy `c`: expected one of [\"a\", \"b\"]"),
        (
            |it| it.policies[1].id = "x".repeat(99),
            FOREIGN,
            "the fragment has policy `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`: expected one of [\"a\", \"b\"]",
        ),
        (
            |it| it.policies.swap(0, 1),
            FOREIGN,
            "the fragment has policy `a` after `b`: expected each once, in the order of names",
        ),
        (
            |it| it.policies[1] = it.policies[0].clone(),
            FOREIGN,
            "the fragment has policy `a` after `a`: expected each once, in the order of names",
        ),
        (|it| it.policies[0].shape.steps = 4, FOREIGN, "policy `a` has `steps` 4: expected 3"),
        (|it| it.policies[0].shape.obs_len = usize::MAX, FOREIGN, OBS_LEN),
        (|it| it.policies[0].shape.obs_kind = ObsKind::F32, FOREIGN, "policy `a` has `obs_kind` F32: expected U8"),
        (|it| it.policies[0].shape.act_len = 0, FOREIGN, "policy `a` has `act_len` 0: expected 2"),
        (|it| it.policies[1].shape.act_kind = ActionKind::U32, FOREIGN, "policy `b` has `act_kind` U32: expected F32"),
        (|it| it.policies[0].shape.dist_len = 6, FOREIGN, "policy `a` has `dist_len` 6: expected 5"),
        (|it| it.policies[1].shape.state_len = 1, FOREIGN, "policy `b` has `state_len` 1: expected 0"),
        (|it| it.policies[0].shape.columns = 0, FOREIGN, "policy `a` has 0 columns: expected 1 to 4"),
        (|it| it.policies[0].shape.columns = 5, FOREIGN, "policy `a` has 5 columns: expected 1 to 4"),
        (
            |it| it.policies[0].n_tags = 0,
            FOREIGN,
            "policy `a` has 0 tags: expected 1 to 2, one for each column at most",
        ),
        (
            |it| it.policies[0].n_tags = 3,
            FOREIGN,
            "policy `a` has 3 tags: expected 1 to 2, one for each column at most",
        ),
        (|it| it.policies[0].tags[0].life = 2, FOREIGN, "a tag of policy `a` is of life 2 of the run: expected 3"),
        (
            |it| it.policies[1].tags[0].worker = 20,
            FOREIGN,
            "a tag of policy `b` names worker 20: expected 10..20, those of the session",
        ),
        (
            |it| it.policies[1].tags[0].worker = 9,
            FOREIGN,
            "a tag of policy `b` names worker 9: expected 10..20, those of the session",
        ),
        (
            |it| it.policies[0].tags[0].version = 301,
            FOREIGN,
            "a tag of policy `a` names version 301 of the weights: expected at most 300",
        ),
        (
            |it| it.policies[0].runs[0].version = 301,
            FOREIGN,
            "a step of policy `a` names version 301 of the weights: expected at most 300",
        ),
        (
            |it| it.policies[0].runs[0].cells = 5,
            FOREIGN,
            "policy `a` has versions for 5 cells in 1 runs: expected 6 cells",
        ),
        (
            |it| it.policies[0].runs[0].cells = u64::MAX,
            FOREIGN,
            "policy `a` has versions for 18446744073709551615 cells in 1 runs: expected 6 cells",
        ),
        (|it| it.policies[0].n_runs = 7, FOREIGN, "policy `a` has versions for 0 cells in 7 runs: expected 6 cells"),
        (
            |it| it.policies[0].n_finals = 7,
            FOREIGN,
            "policy `a` has 7 final observations: expected at most 6, one for each cell",
        ),
        (|it| it.head.env_steps = 0, FOREIGN, "the fragment has 0 environment steps: expected 1 to 50"),
        (|it| it.head.env_steps = 51, FOREIGN, "the fragment has 51 environment steps: expected 1 to 50"),
        (
            |it| it.head.moments = 3,
            FOREIGN,
            "the fragment has moments of 3 fragments: expected at most 2, one for each tag",
        ),
        (
            |it| it.policies[1].packed = Some(0),
            CORRUPT,
            "observations of policy `b` are compressed to 0 bytes: expected fewer than 0",
        ),
        (
            |it| it.policies[0].packed = Some(48),
            CORRUPT,
            "observations of policy `a` are compressed to 48 bytes: expected fewer than 48",
        ),
        (|it| it.policies[0].packed = Some(47), CORRUPT, "the columns of the frame have 432 bytes: expected 431"),
        (|it| it.columns.push(0), CORRUPT, "the columns of the frame have 433 bytes: expected 432"),
        (|it| it.columns.truncate(5), CORRUPT, "the columns of the frame have 5 bytes: expected 432"),
        (
            |it| it.columns[48 + 6 * 2 * 4 + 6 * 4 + 3] = 3,
            CORRUPT,
            "an end of policy `a` is 3 at step 1, column 1: expected 0, 1 or 2",
        ),
    ];
    assert_refused(spoils, &calm(), &two_policies());
}

const OBS_LEN: &str = "policy `a` has `obs_len` 18446744073709551615: expected 6";

#[test]
fn the_steps_of_a_single_agent_are_its_cells() {
    let bounds = single(&floats(3), &floats(1), SMALL);
    let samples = samples(bounds.policy("default_policy").unwrap().1, 2, &mut Numbers(0));
    let spoils: &[Spoil] = &[
        (|it| it.head.env_steps = 5, FOREIGN, "the fragment has 5 environment steps: expected 6 to 6"),
        (|it| it.head.env_steps = 7, FOREIGN, "the fragment has 7 environment steps: expected 6 to 6"),
        (
            |it| it.policies[0].id = "a".into(),
            FOREIGN,
            "the fragment has policy `a`: expected one of [\"default_policy\"]",
        ),
    ];
    assert_refused(spoils, &MultiAgentBatch::single(samples), &bounds);
}

#[test]
fn moments_that_cannot_be_merged_are_refused() {
    const OBS: &str = "expected 3 columns of finite means and variances, of at most 4294967295 rows";
    const RETURNS: &str = "expected 1 columns of finite means and variances, of at most 4294967295 rows";
    let obs = |moments| move |it: &mut Parts| it.moments[0].0 = Some(moments);
    let returns = |moments| move |it: &mut Parts| it.moments[0].1 = Some(moments);
    type Spoiling = Box<dyn FnOnce(&mut Parts)>;
    let spoils: [(Spoiling, String); 9] = [
        (Box::new(|it| it.moments[0].0 = None), format!("observations of the fragment are missing: {OBS}")),
        (Box::new(|it| it.moments[0].1 = None), format!("returns of the fragment are missing: {RETURNS}")),
        (
            Box::new(obs(RunningMoments::new(4))),
            format!("observations of the fragment are of 4 columns and 0 rows: {OBS}"),
        ),
        (
            Box::new(obs(raw_moments(2, &[0.0; 3], &[0.0, f64::NAN, 0.0]))),
            format!("observations of the fragment are of 3 columns and 2 rows: {OBS}"),
        ),
        (
            Box::new(obs(raw_moments(2, &[0.0; 3], &[0.0; 2]))),
            format!("observations of the fragment are of 3 columns and 2 rows: {OBS}"),
        ),
        (
            Box::new(obs(raw_moments(u64::MAX, &[0.0; 3], &[0.0; 3]))),
            format!("observations of the fragment are of 3 columns and {} rows: {OBS}", u64::MAX),
        ),
        (
            Box::new(returns(raw_moments(1, &[f64::INFINITY], &[0.0]))),
            format!("returns of the fragment are of 1 columns and 1 rows: {RETURNS}"),
        ),
        (
            Box::new(returns(raw_moments(1, &[1e300], &[0.0]))),
            format!("returns of the fragment are of 1 columns and 1 rows: {RETURNS}"),
        ),
        (
            Box::new(returns(raw_moments(1, &[0.0], &[1e300]))),
            format!("returns of the fragment are of 1 columns and 1 rows: {RETURNS}"),
        ),
    ];
    let bounds = normalized();
    let original = encode(&fragment(&bounds, 1), Pixels::Raw);
    for (spoil, message) in spoils {
        let mut parts = Parts::of(&original);
        spoil(&mut parts);
        assert_eq!(refused(&parts.frame(), &bounds), (FOREIGN, format!("the moments of {message}")));
    }
    let unnormalized = single(&floats(3), &Space::discrete(2).unwrap(), SMALL);
    let message = "the moments of observations of the fragment are of 3 columns: expected none, because the run does \
                   not normalise them";
    assert_eq!(refused(&original, &unnormalized), (FOREIGN, message.to_owned()));
}

#[test]
fn samples_that_are_invalid_are_refused_with_their_place() {
    type SpoilSamples = (fn(&mut SampleBatch), &'static str);
    let of_a: [SpoilSamples; 6] = [
        (|it| set_choice(it, 5, 2), "policy `a` has action 2 in choice 1 at step 1, column 0: expected less than 2"),
        (
            |it| set_choice(it, 4, u32::MAX),
            "policy `a` has action 4294967295 in choice 0 at step 1, column 0: expected \
                                            less than 3",
        ),
        (
            |it| it.rewards_mut()[3] = f32::NAN,
            "the samples of policy `a` are invalid: column `rewards` holds NaN at step \
                                               1, column 1",
        ),
        (
            |it| it.behaviour_inputs_mut()[0] = f32::INFINITY,
            "the samples of policy `a` are invalid: column \
                                                             `behaviour_inputs` holds inf at step 0, column 0",
        ),
        (
            |it| it.state_in_mut()[2] = f32::NAN,
            "the samples of policy `a` are invalid: column `state_in` holds NaN at \
                                                step 0, column 1",
        ),
        (
            |it| _ = it.final_obs_mut().push_blank(&[(9, 0)]),
            "the samples of policy `a` are invalid: `final_obs` has a \
                                                               row for step 9, column 0, which is outside the batch",
        ),
    ];
    let of_b: [SpoilSamples; 3] = [
        (
            |it| it.obs_mut().into_f32().unwrap()[8] = f32::NEG_INFINITY,
            "the samples of policy `b` are invalid: column `obs` holds -inf at step 2, column 0",
        ),
        (
            |it| match it.actions_mut() {
                ActionViewMut::F32(actions) => actions[0] = f32::NAN,
                ActionViewMut::U32(_) => unreachable!(),
            },
            "the samples of policy `b` are invalid: column `actions` holds NaN at step 0, column 0",
        ),
        (
            |it| it.behaviour_inputs_mut()[0] = f32::NEG_INFINITY,
            "the samples of policy `b` are invalid: column `behaviour_inputs` holds -inf at step 0, column 0",
        ),
    ];
    for (id, spoils) in [("a", &of_a[..]), ("b", &of_b[..])] {
        for (spoil, message) in spoils {
            let mut batch = calm();
            batch.policies_mut().filter(|(it, _)| ***it == *id).for_each(|(_, samples)| spoil(samples));
            assert_eq!(refused(&encode(&batch, Pixels::Raw), &two_policies()), (FOREIGN, (*message).to_owned()));
        }
    }
    let mut batch = calm();
    batch.policies_mut().for_each(|(_, samples)| samples.ends_mut()[0] = End::Truncated);
    let error = decode(&encode(&batch, Pixels::Raw), &two_policies()).unwrap_err();
    assert!(matches!(error, FrameError::Samples { cause: BatchError::NoFinalObs { t: 0, b: 0 }, .. }), "{error}");
}

fn set_choice(samples: &mut SampleBatch, i: usize, action: u32) {
    if let ActionViewMut::U32(actions) = samples.actions_mut() {
        actions[i] = action;
    }
}

#[test]
fn a_discrete_action_is_below_the_number_of_actions() {
    let bounds = single(&floats(3), &Space::discrete(4).unwrap(), SMALL);
    let mut samples = samples(bounds.policy("default_policy").unwrap().1, 2, &mut Numbers(0));
    set_choice(&mut samples, 3, 4);
    let message = "policy `default_policy` has action 4 in choice 0 at step 1, column 1: expected less than 4";
    let frame = encode(&MultiAgentBatch::single(samples), Pixels::Raw);
    assert_eq!(refused(&frame, &bounds), (FOREIGN, message.to_owned()));
}

#[test]
fn compressed_observations_of_another_length_or_none_at_all_are_corrupt() {
    let bounds = single(&pixels(500), &Space::discrete(3).unwrap(), SMALL);
    let frame = encode(&fragment(&bounds, 1), Pixels::Zstd);
    let len = Parts::of(&frame).policies[0].packed.unwrap();
    let with = |packed: &[u8]| {
        let mut parts = Parts::of(&frame);
        parts.policies[0].packed = Some(packed.len());
        parts.columns.splice(..len, packed.iter().copied());
        decode(&parts.frame(), &bounds).unwrap_err()
    };
    let compressed = |len: usize| zstd::bulk::compress(&vec![0; len], 1).unwrap();
    let shape = Parts::of(&frame).policies[0].shape;
    let bytes = (shape.steps + 1) * shape.columns * 500;
    for (packed, is_unreadable) in [
        (vec![1, 2, 3, 4, 5, 6, 7, 8], true),
        (compressed(bytes + 1), true),
        (compressed(1 << 20), true),
        (compressed(bytes - 1), false),
        (Vec::new(), false),
    ] {
        let error = with(&packed);
        assert!(error.is_corrupt());
        assert_eq!(matches!(error, FrameError::Packed { .. }), is_unreadable, "{error}");
        assert_eq!(matches!(error, FrameError::Unpacked { .. }), !is_unreadable, "{error}");
    }
}

#[test]
fn headers_that_are_too_long_or_end_too_early_are_refused() {
    let bounds = two_policies();
    let whole = encode(&calm(), Pixels::Raw);
    let len = u32::from_le_bytes(whole[..4].try_into().unwrap()) as usize;
    let (header, columns) = whole[4..].split_at(len);
    let with = |header: &[u8]| refused(&frame(header, columns), &bounds);

    let (is_corrupt, message) = with(&header[..len - 1]);
    assert!(is_corrupt && message.contains("versions"), "{message}");
    let message = "the header of the frame has 1 bytes after its end: expected none";
    assert_eq!(with(&[header, &[0]].concat()), (CORRUPT, message.to_owned()));
    let message = "the frame ends within the length of its header: expected 4 more bytes, got 3";
    assert_eq!(refused(&whole[..3], &bounds), (CORRUPT, message.to_owned()));
    let message = "the frame ends within its header: expected 4294967295 more bytes, got 2";
    assert_eq!(refused(&[255, 255, 255, 255, 0, 0], &bounds), (CORRUPT, message.to_owned()));
    let max = bounds.max_header_bytes();
    let message = format!("the header of the frame has {} bytes: expected at most {max}", max + 1);
    assert_eq!(with(&vec![0; max + 1]), (FOREIGN, message));
}
