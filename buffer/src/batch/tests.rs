use std::collections::BTreeMap;

use pronk_metrics::{DEFAULT_POLICY, NormalizerMoments, RunningMoments, StepLedger};
use proptest::prelude::*;

use super::*;
use crate::Pool;

mod shared;

/// A small shape of discrete actions.
pub(crate) fn shape(steps: usize, columns: usize) -> BatchShape {
    BatchShape {
        steps,
        columns,
        obs_len: 3,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: 2,
        state_len: 0,
    }
}

/// Columns in which every element differs from every other of its column, and of other `salt`s.
fn numbered(shape: &BatchShape, salt: u32) -> Columns {
    let base = salt * 100_000;
    let floats = |len: usize| (0..len).map(|i| (base as usize + i) as f32).collect::<Vec<f32>>();
    let mut columns = Columns::zeros(shape);
    match &mut columns.obs {
        ObsColumn::F32(obs) => *obs = floats(obs.len()),
        ObsColumn::U8(obs) => obs.iter_mut().enumerate().for_each(|(i, o)| *o = (salt as usize * 31 + i) as u8),
    }
    match &mut columns.actions {
        ActionColumn::U32(actions) => (base..).zip(actions).for_each(|(n, action)| *action = n),
        ActionColumn::F32(actions) => *actions = floats(actions.len()),
    }
    columns.rewards = floats(shape.cells());
    columns.behaviour_logp = floats(shape.cells());
    columns.behaviour_inputs = floats(columns.behaviour_inputs.len());
    columns.behaviour_values = floats(columns.behaviour_values.len());
    columns.state_in = floats(columns.state_in.len());
    (u64::from(base)..).zip(&mut columns.versions).for_each(|(n, version)| *version = n);
    columns
}

fn tag(worker: u32) -> Tag {
    Tag { worker, ..Tag::default() }
}

/// A column made too short, under its name.
type Shorten = (&'static str, fn(&mut Columns));

#[test]
fn a_wrong_length_names_the_column_what_was_expected_and_what_came() {
    let cases: [Shorten; 9] = [
        ("obs", |c| c.obs = ObsColumn::F32(vec![0.0; 7])),
        ("actions", |c| c.actions = ActionColumn::U32(vec![0; 7])),
        ("rewards", |c| c.rewards = vec![0.0; 7]),
        ("ends", |c| c.ends = vec![End::No; 7]),
        ("behaviour_logp", |c| c.behaviour_logp = vec![0.0; 7]),
        ("behaviour_inputs", |c| c.behaviour_inputs = vec![0.0; 7]),
        ("behaviour_values", |c| c.behaviour_values = vec![0.0; 7]),
        ("state_in", |c| c.state_in = vec![0.0; 7]),
        ("versions", |c| c.versions = vec![0; 7]),
    ];
    let shape = shape(4, 2);
    for (name, shorten) in cases {
        let mut columns = Columns::zeros(&shape);
        shorten(&mut columns);
        let error = SampleBatch::new(shape, columns, vec![tag(1)]).unwrap_err();
        assert!(matches!(error, BatchError::WrongLength { column, got: 7, .. } if column == name), "{error}");
    }
    let columns = Columns { rewards: vec![0.0; 7], ..Columns::zeros(&shape) };
    let error = SampleBatch::new(shape, columns, vec![tag(1)]).unwrap_err();
    assert_eq!(error.to_string(), "column `rewards` must be [T=4, B=2] = 8 long, got 7");
}

#[test]
fn a_wrong_element_type_is_named() {
    let shape = shape(1, 1);
    let kind_error = |columns| match SampleBatch::new(shape, columns, vec![tag(1)]).unwrap_err() {
        BatchError::WrongKind { column, expected, got } => (column, expected, got),
        other => panic!("{other}"),
    };
    let bytes = Columns { obs: ObsColumn::U8(vec![0; 6]), ..Columns::zeros(&shape) };
    assert_eq!(kind_error(bytes), ("obs", "f32", "u8"));
    let finals = Columns { final_obs: FinalObs::new(ObsKind::U8, 3), ..Columns::zeros(&shape) };
    assert_eq!(kind_error(finals), ("final_obs", "f32", "u8"));
    let continuous = Columns { actions: ActionColumn::F32(vec![0.0]), ..Columns::zeros(&shape) };
    assert_eq!(kind_error(continuous), ("actions", "u32", "f32"));
}

#[test]
fn zero_sizes_and_sizes_past_memory_are_refused() {
    let good = shape(2, 2);
    let zeros = [
        ("steps", BatchShape { steps: 0, ..good }),
        ("columns", BatchShape { columns: 0, ..good }),
        ("obs_len", BatchShape { obs_len: 0, ..good }),
        ("act_len", BatchShape { act_len: 0, ..good }),
        ("dist_len", BatchShape { dist_len: 0, ..good }),
    ];
    for (name, shape) in zeros {
        let error = SampleBatch::new(shape, Columns::default(), vec![tag(1)]).unwrap_err();
        assert!(matches!(error, BatchError::ZeroSize { what, .. } if what == name), "{error}");
    }
    let huge = [
        BatchShape { steps: usize::MAX, ..good },
        BatchShape { columns: usize::MAX / 2, ..good },
        BatchShape { obs_len: usize::MAX / 8, ..good },
    ];
    for shape in huge {
        assert_eq!(shape.check(), Err(BatchError::TooLarge { shape }));
    }
}

#[test]
fn a_batch_names_at_least_one_fragment_and_at_most_one_a_column() {
    let shape = shape(1, 2);
    for tags in [vec![], vec![tag(1), tag(2), tag(3)]] {
        let got = tags.len();
        let error = SampleBatch::new(shape, Columns::zeros(&shape), tags).unwrap_err();
        assert_eq!(error, BatchError::WrongTags { got, columns: 2 });
    }
}

#[test]
fn every_truncated_end_needs_exactly_one_final_observation() {
    let shape = shape(4, 2);
    let with = |ends: &[(usize, usize, End)], finals: &[(usize, usize)]| {
        let mut columns = Columns::zeros(&shape);
        ends.iter().for_each(|&(t, b, end)| columns.ends[t * 2 + b] = end);
        finals.iter().for_each(|&(t, b)| columns.final_obs.push(t, b, &[0.0_f32; 3][..]).unwrap());
        SampleBatch::new(shape, columns, vec![tag(1)]).map(drop)
    };
    let place = |error| match error {
        Err(BatchError::MisplacedFinalObs { t, b, .. } | BatchError::NoFinalObs { t, b }) => (t, b),
        other => panic!("{other:?}"),
    };
    let ends = [(1, 0, End::Truncated), (2, 1, End::Truncated), (3, 1, End::Terminated)];
    assert_eq!(with(&ends, &[(2, 1), (1, 0)]), Ok(()), "in any order");
    assert_eq!(with(&ends, &[(1, 0), (2, 1), (3, 1)]), Ok(()), "a terminated end may have one");
    assert_eq!(place(with(&ends, &[(1, 0)])), (2, 1), "missing");
    assert_eq!(place(with(&ends, &[(1, 0), (2, 1), (0, 0)])), (0, 0), "where nothing ended");
    assert_eq!(place(with(&ends, &[(1, 0), (2, 1), (1, 0)])), (1, 0), "twice");
    assert_eq!(place(with(&ends, &[(1, 0), (2, 1), (4, 0)])), (4, 0), "past the last step");
    assert_eq!(place(with(&ends, &[(1, 0), (2, 1), (0, 2)])), (0, 2), "past the last column");
}

#[test]
fn a_final_observation_of_another_length_or_type_is_refused_and_not_kept() {
    let mut finals = FinalObs::new(ObsKind::F32, 3);
    assert!(matches!(finals.push(0, 0, &[0.0_f32; 2][..]), Err(BatchError::WrongLength { got: 2, .. })));
    assert!(matches!(finals.push(0, 0, &[0_u8; 3][..]), Err(BatchError::WrongKind { .. })));
    assert!(finals.is_empty() && finals.rows().view().is_empty());
}

#[test]
fn final_observations_of_a_file_have_a_row_for_each_entry() {
    let shape = shape(2, 1);
    let mut columns = Columns::zeros(&shape);
    columns.ends[1] = End::Truncated;
    columns.final_obs.push(1, 0, &[0.0_f32; 3][..]).unwrap();
    let mut file = serde_json::to_value(&columns).unwrap();
    file["final_obs"]["rows"]["F32"] = serde_json::json!([0.0, 0.0]);
    let columns: Columns = serde_json::from_value(file).unwrap();
    let error = SampleBatch::new(shape, columns, vec![tag(1)]).unwrap_err();
    assert_eq!(error.to_string(), "column `final_obs` must be [entries=1, obs_len=3] = 3 long, got 2");
}

#[test]
fn blank_final_observations_are_written_in_place_after_those_that_are_there() {
    let mut finals = FinalObs::new(ObsKind::F32, 2);
    finals.push(0, 1, &[1.0_f32, 2.0][..]).unwrap();
    finals.push_blank(&[(3, 0), (2, 1)]).into_f32().unwrap().copy_from_slice(&[3.0, 4.0, 5.0, 6.0]);
    assert!(finals.push_blank(&[]).into_f32().unwrap().is_empty());
    assert_eq!(finals.index(), [(0, 1), (3, 0), (2, 1)]);
    assert_eq!(finals.get(0, 1), Some(ObsView::F32(&[1.0, 2.0])));
    assert_eq!(finals.get(2, 1), Some(ObsView::F32(&[5.0, 6.0])));
}

#[test]
fn a_batch_keeps_its_tags_when_the_new_ones_do_not_fit_its_columns() {
    let mut batch = SampleBatch::blank(shape(1, 2), tag(1));
    for wrong in [&[][..], &[tag(2), tag(3), tag(4)]] {
        let error = batch.set_tags(wrong).unwrap_err();
        assert_eq!(error, BatchError::WrongTags { got: wrong.len(), columns: 2 });
        assert_eq!(batch.tags(), [tag(1)]);
    }
    batch.set_tags(&[tag(2), tag(3)]).unwrap();
    assert_eq!(batch.tags(), [tag(2), tag(3)]);
}

/// A column made to hold a number that is not finite, under its name, and where.
type Spoil = (&'static str, fn(&mut SampleBatch), (usize, usize));

#[test]
fn a_number_that_is_not_finite_is_named_with_its_place() {
    let shape = BatchShape { state_len: 2, act_kind: ActionKind::F32, ..shape(4, 2) };
    let spoil: [Spoil; 7] = [
        ("obs", |batch| batch.obs_row_mut(4).into_f32().unwrap()[5] = f32::NAN, (4, 1)),
        ("actions", |batch| set_action(batch, 3, f32::NAN), (1, 1)),
        ("rewards", |batch| batch.rewards_mut()[5] = f32::INFINITY, (2, 1)),
        ("behaviour_logp", |batch| batch.behaviour_logp_mut()[0] = f32::NEG_INFINITY, (0, 0)),
        ("behaviour_inputs", |batch| batch.behaviour_inputs_mut()[7] = f32::NAN, (1, 1)),
        ("behaviour_values", |batch| batch.behaviour_values_mut()[9] = f32::NAN, (4, 1)),
        ("state_in", |batch| batch.state_in_mut()[2] = f32::NAN, (0, 1)),
    ];
    for (name, spoil, place) in spoil {
        let mut batch = SampleBatch::blank(shape, tag(1));
        assert_eq!(batch.check_finite(), Ok(()));
        spoil(&mut batch);
        match batch.check_finite().unwrap_err() {
            BatchError::NonFinite { column, t, b, .. } => assert_eq!((column, (t, b)), (name, place)),
            other => panic!("{other}"),
        }
    }
    let mut batch = SampleBatch::blank(shape, tag(1));
    batch.ends_mut()[3] = End::Truncated;
    batch.final_obs_mut().push(1, 1, &[0.0, f32::NAN, 0.0][..]).unwrap();
    let error = batch.check_finite().unwrap_err();
    assert_eq!(error.to_string(), "column `final_obs` holds NaN at step 1, column 1");
}

#[test]
fn a_logit_may_be_minus_infinity_and_nothing_else_may() {
    let spoiled = |act_kind, value: f32| {
        let mut batch = SampleBatch::blank(BatchShape { act_kind, ..shape(4, 2) }, tag(1));
        batch.behaviour_inputs_mut()[6] = value;
        batch.check_finite()
    };
    assert_eq!(spoiled(ActionKind::U32, f32::NEG_INFINITY), Ok(()), "an action mask writes it");
    for (act_kind, value) in [
        (ActionKind::U32, f32::INFINITY),
        (ActionKind::U32, f32::NAN),
        // The mean and the standard deviation of numbers are no logits.
        (ActionKind::F32, f32::NEG_INFINITY),
    ] {
        let error = spoiled(act_kind, value).unwrap_err().to_string();
        assert_eq!(error, format!("column `behaviour_inputs` holds {value} at step 1, column 1"));
    }
}

fn set_action(batch: &mut SampleBatch, i: usize, value: f32) {
    if let ActionViewMut::F32(actions) = batch.actions_mut() {
        actions[i] = value;
    }
}

#[test]
fn a_step_reaches_its_own_rows_and_the_observation_that_follows() {
    for obs_kind in [ObsKind::F32, ObsKind::U8] {
        let shape = BatchShape { obs_kind, ..shape(3, 2) };
        let mut batch = SampleBatch::new(shape, numbered(&shape, 0), vec![tag(1)]).unwrap();
        let before = batch.clone();
        let step = batch.step_mut(1);
        assert_eq!(Some(step.obs), before.obs_row(1).apart());
        assert_eq!(Some(step.next_obs.as_view()), before.obs_row(2).apart());
        assert_eq!(step.actions.as_view(), before.actions().row(1, 2));
        assert_eq!(step.rewards, &before.rewards()[2..4]);
        assert_eq!(step.behaviour_logp, &before.behaviour_logp()[2..4]);
        assert_eq!(step.behaviour_inputs, &before.behaviour_inputs()[4..8]);
        assert_eq!(step.behaviour_values, &before.behaviour_values()[2..4]);
        step.ends[0] = End::Terminated;
        assert_eq!(batch.ends()[2], End::Terminated);
    }
}

#[test]
fn one_batch_joins_to_itself_without_a_copy() {
    let batch = SampleBatch::blank(shape(4, 2), tag(3));
    let address = batch.rewards().as_ptr();
    let joined = SampleBatch::join(vec![batch], &Pool::new(4)).unwrap();
    assert_eq!(joined.rewards().as_ptr(), address);
    assert_eq!(joined.tags(), [tag(3)]);
}

#[test]
fn batches_of_other_row_lengths_do_not_join() {
    let first = shape(4, 2);
    let others = [
        ("steps", BatchShape { steps: 5, ..first }),
        ("obs_len", BatchShape { obs_len: 4, ..first }),
        ("obs_kind", BatchShape { obs_kind: ObsKind::U8, ..first }),
        ("act_len", BatchShape { act_len: 2, ..first }),
        ("act_kind", BatchShape { act_kind: ActionKind::F32, ..first }),
        ("dist_len", BatchShape { dist_len: 3, ..first }),
        ("state_len", BatchShape { state_len: 1, ..first }),
    ];
    for (name, other) in others {
        let parts = vec![SampleBatch::blank(first, tag(1)), SampleBatch::blank(other, tag(2))];
        let error = SampleBatch::join(parts, &Pool::new(4)).unwrap_err();
        assert!(matches!(error, BatchError::Mismatch { part: 1, what, .. } if what == name), "{error}");
    }
    assert!(matches!(SampleBatch::join(vec![], &Pool::new(4)), Err(BatchError::Empty { .. })));
}

/// Shapes that differ only in their columns, and where episodes were cut in each.
fn joinable() -> impl Strategy<Value = Vec<(BatchShape, Vec<(usize, usize)>)>> {
    let sizes = (1..4_usize, 1..4_usize, 1..3_usize, 1..4_usize, 0..3_usize, any::<bool>(), any::<bool>());
    (sizes, prop::collection::vec((1..4_usize, prop::collection::vec(any::<(u8, u8)>(), 0..4)), 2..5)).prop_map(
        |((steps, obs_len, act_len, dist_len, state_len, bytes, continuous), parts)| {
            let with_columns = |columns| BatchShape {
                steps,
                columns,
                obs_len,
                obs_kind: if bytes { ObsKind::U8 } else { ObsKind::F32 },
                act_len,
                act_kind: if continuous { ActionKind::F32 } else { ActionKind::U32 },
                dist_len,
                state_len,
            };
            let cut = |columns: usize, cuts: Vec<(u8, u8)>| {
                let mut cuts: Vec<_> =
                    cuts.into_iter().map(|(t, b)| (t as usize % steps, b as usize % columns)).collect();
                cuts.sort_unstable();
                cuts.dedup();
                cuts
            };
            parts.into_iter().map(|(columns, cuts)| (with_columns(columns), cut(columns, cuts))).collect()
        },
    )
}

/// Element `k` of row `t`, column `b` of a column with rows of `len` elements.
fn at<T: Copy>(column: &[T], width: usize, len: usize, (t, b, k): (usize, usize, usize)) -> T {
    column[(t * width + b) * len + k]
}

fn obs_as_f64(batch: &SampleBatch) -> Vec<f64> {
    as_f64(batch.obs().apart().unwrap())
}

fn as_f64(obs: ObsView<'_>) -> Vec<f64> {
    match obs {
        ObsView::F32(values) => values.iter().map(|v| f64::from(*v)).collect(),
        ObsView::U8(values) => values.iter().map(|v| f64::from(*v)).collect(),
    }
}

fn actions_as_f64(actions: ActionView<'_>) -> Vec<f64> {
    match actions {
        ActionView::F32(values) => values.iter().map(|v| f64::from(*v)).collect(),
        ActionView::U32(values) => values.iter().map(|v| f64::from(*v)).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    /// Element by element: column `b` of part `p` is column `first + b` of the joined batch, everywhere.
    #[test]
    fn a_joined_batch_holds_every_element_of_every_part_in_its_column(parts in joinable()) {
        let parts: Vec<SampleBatch> = (0..).zip(parts).map(|(salt, (shape, cuts))| {
            let mut columns = numbered(&shape, salt);
            for (t, b) in cuts {
                columns.ends[t * shape.columns + b] = End::Truncated;
                let row = columns.obs.view().row(t * shape.columns + b, shape.obs_len);
                columns.final_obs.push(t, b, row).unwrap();
            }
            SampleBatch::new(shape, columns, vec![tag(salt)]).unwrap()
        }).collect();
        let joined = SampleBatch::join(parts.clone(), &Pool::new(4)).unwrap();

        let whole = *joined.shape();
        prop_assert_eq!(whole.columns, parts.iter().map(|part| part.shape().columns).sum::<usize>());
        prop_assert_eq!(joined.tags().len(), parts.len());
        prop_assert_eq!(joined.check_ends(), Ok(()));
        let mut first = 0;
        let mut finals = joined.final_obs().iter();
        for part in &parts {
            let own = *part.shape();
            let same = |to: &[f64], from: &[f64], rows: usize, len: usize| {
                (0..rows).all(|t| (0..own.columns).all(|b| (0..len).all(|k| {
                    at(to, whole.columns, len, (t, first + b, k)) == at(from, own.columns, len, (t, b, k))
                })))
            };
            let floats = |column: &[f32]| as_f64(ObsView::F32(column));
            let ends = |batch: &SampleBatch| batch.ends().iter().map(|end| *end as u8 as f64).collect::<Vec<_>>();
            let versions = |batch: &SampleBatch| batch.versions().iter().map(|v| *v as f64).collect::<Vec<_>>();
            let steps = own.steps;
            prop_assert!(same(&obs_as_f64(&joined), &obs_as_f64(part), steps + 1, own.obs_len));
            prop_assert!(same(&actions_as_f64(joined.actions()), &actions_as_f64(part.actions()), steps, own.act_len));
            prop_assert!(same(&floats(joined.rewards()), &floats(part.rewards()), steps, 1));
            prop_assert!(same(&ends(&joined), &ends(part), steps, 1));
            prop_assert!(same(&floats(joined.behaviour_logp()), &floats(part.behaviour_logp()), steps, 1));
            let (to, from) = (floats(joined.behaviour_inputs()), floats(part.behaviour_inputs()));
            prop_assert!(same(&to, &from, steps, own.dist_len));
            let (to, from) = (floats(joined.behaviour_values()), floats(part.behaviour_values()));
            prop_assert!(same(&to, &from, steps + 1, 1));
            prop_assert!(same(&floats(joined.state_in()), &floats(part.state_in()), 1, own.state_len));
            prop_assert!(same(&versions(&joined), &versions(part), steps, 1));
            for (t, b, row) in part.final_obs().iter() {
                prop_assert_eq!(finals.next(), Some((t, b + first as u32, row)));
            }
            first += own.columns;
        }
        prop_assert_eq!(finals.next(), None);
    }
}

#[test]
fn joining_several_agents_sums_their_steps_per_policy_and_their_tickets() {
    let ledger = StepLedger::new();
    let part = |policies: &[(&str, usize)], env_steps| {
        let policies: BTreeMap<_, _> = policies
            .iter()
            .map(|&(policy, columns)| (policy.into(), SampleBatch::blank(shape(2, columns), tag(1))))
            .collect();
        let batch = MultiAgentBatch::new(policies, env_steps).unwrap();
        let ticket = ledger.sampled(batch.steps());
        batch.with_ticket(ticket)
    };
    let parts = vec![part(&[("a", 1), ("b", 2)], 2), part(&[("a", 3)], 6)];
    let mut joined = MultiAgentBatch::join(parts, &Pool::new(4)).unwrap();
    assert_eq!((joined.env_steps(), joined.agent_steps()), (8, 12));
    let columns: Vec<_> = joined.policies().map(|(policy, batch)| (&**policy, batch.shape().columns)).collect();
    assert_eq!(columns, [("a", 4), ("b", 2)]);
    assert_eq!(joined.ticket_steps(), Some(joined.steps()));
    joined.take_ticket().unwrap().trained();
    let totals = ledger.snapshot();
    assert_eq!(totals.trained_once, joined.steps());
    assert!(totals.is_closed());
}

/// The moments of one number.
pub(crate) fn moments(number: f64) -> NormalizerMoments {
    let mut observations = RunningMoments::new(1);
    observations.add_rows(&[number]);
    NormalizerMoments { observations: Some(observations), returns: None }
}

#[test]
fn joining_keeps_the_moments_of_every_fragment_in_order() {
    let part = || MultiAgentBatch::single(SampleBatch::blank(shape(2, 1), tag(1)));
    let parts = vec![part().with_moments(moments(2.0)), part(), part().with_moments(moments(1.0))];
    let mut joined = MultiAgentBatch::join(parts, &Pool::new(4)).unwrap();
    assert_eq!(joined.take_moments(), [moments(2.0), moments(1.0)]);
    assert!(joined.take_moments().is_empty(), "they are taken once");
    let only = MultiAgentBatch::join(vec![part().with_moments(moments(3.0))], &Pool::new(4)).unwrap();
    assert_eq!(only.with_moments(moments(4.0)).take_moments(), [moments(3.0), moments(4.0)]);
}

#[test]
fn a_multi_agent_batch_needs_a_policy_and_a_step() {
    assert!(matches!(MultiAgentBatch::new(BTreeMap::new(), 1), Err(BatchError::Empty { .. })));
    let policies = BTreeMap::from([(DEFAULT_POLICY.into(), SampleBatch::blank(shape(1, 1), tag(1)))]);
    assert!(matches!(MultiAgentBatch::new(policies, 0), Err(BatchError::NoEnvSteps)));
}

#[test]
fn a_batch_of_a_file_has_steps_and_the_moments_of_its_own_observations() {
    let batch = || MultiAgentBatch::single(SampleBatch::blank(shape(2, 1), tag(1)));
    let read = |batch: MultiAgentBatch, env_steps: u64| {
        let mut file = serde_json::to_value(batch).unwrap();
        file["env_steps"] = env_steps.into();
        serde_json::from_value::<MultiAgentBatch>(file).map_err(|error| error.to_string())
    };
    let of_three = NormalizerMoments { observations: Some(RunningMoments::new(3)), returns: None };
    assert_eq!(read(batch().with_moments(of_three), 2).unwrap().env_steps(), 2);
    assert!(read(batch(), 0).unwrap_err().contains("`env_steps` is 0"));
    assert!(read(batch(), u64::MAX).unwrap_err().contains("no run has so many"));
    assert!(read(batch().with_moments(moments(1.0)), 2).unwrap_err().contains("the moments of 3 numbers"));
}

#[test]
fn versions_are_those_of_every_step() {
    let mut batch = SampleBatch::blank(shape(1, 3), tag(1));
    batch.versions_mut().copy_from_slice(&[7, 5, 6]);
    let batch = MultiAgentBatch::single(batch);
    assert_eq!(batch.versions().collect::<Vec<_>>(), [7, 5, 6]);
    assert_eq!((batch.oldest_version(), batch.newest_version()), (Some(5), Some(7)));
}
