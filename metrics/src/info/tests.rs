#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ids::{PolicyId, default_policy};

fn stats<const N: usize>(leaves: [(&str, f64); N]) -> Info {
    Info::tree([("learner_stats", Info::tree(leaves))])
}

/// Merges these results of the default policy as minibatches without weights.
fn merged(results: impl IntoIterator<Item = Info>) -> Result<Info, InfoError> {
    let mut builder = LearnerInfoBuilder::new(1);
    for info in results {
        builder.add(None, info)?;
    }
    Ok(builder.finalize()?.get("default_policy").unwrap().clone())
}

fn report(info: Info) -> LearnerInfo {
    [(default_policy(), info)].into_iter().collect()
}

#[test]
fn a_leaf_of_a_bare_name_gets_the_rule_of_its_path() {
    let info = |x: f64| {
        Info::tree([
            ("min_q", Info::from(x)),
            ("max_q", x.into()),
            ("num_steps", x.into()),
            ("minimum", x.into()),
            ("td_error", vec![x].into()),
            ("nested", Info::tree([("td_error", vec![x]), ("max_norm", vec![x])])),
            ("list", Info::List(vec![x.into()])),
        ])
    };
    let merged = merged([info(1.0), info(4.0)]).unwrap();
    assert_eq!(
        merged.to_json(),
        json!({
            "min_q": 1.0, "max_q": 4.0, "num_steps": 2.5, "minimum": 2.5, "td_error": [1.0, 4.0],
            "nested": {"td_error": 2.5, "max_norm": 4.0}, "list": [2.5],
        })
    );
}

#[test]
fn an_explicit_rule_wins_over_the_name_in_whichever_result_it_stands() {
    let rules = [
        ("max_a", Reduction::Min, json!(1.0)),
        ("max_b", Reduction::Mean, json!(2.5)),
        ("c", Reduction::Sum, json!(5.0)),
        ("min_d", Reduction::Last, json!(4.0)),
        ("e", Reduction::Max, json!(4.0)),
        ("f", Reduction::Concat, json!([1.0, 4.0])),
    ];
    for (name, rule, expected) in rules {
        for first in [true, false] {
            let bare = |x: f64| Info::tree([(name, x)]);
            let ruled = |x: f64| Info::tree([(name, Info::leaf(x, rule))]);
            let results = if first { [ruled(1.0), bare(4.0)] } else { [bare(1.0), ruled(4.0)] };
            let once = merged(results).unwrap();
            assert_eq!(once.to_json()[name], expected, "{name}");
            let Some(Info::Leaf(leaf)) = once.get(name) else { unreachable!("{name} is a leaf") };
            assert_eq!(leaf.rule(), rule, "the merger is merged further by the same rule");
        }
    }
}

#[test]
fn nan_takes_no_part_unless_there_is_nothing_else() {
    let leaves = |x: f64| stats([("mean", x), ("min_q", x), ("max_q", x), ("gone", f64::NAN), ("max_gone", f64::NAN)]);
    let info = merged([leaves(f64::NAN), leaves(2.0), leaves(4.0)]).unwrap();
    let number = |name: &str| info.number(&format!("learner_stats.{name}")).unwrap();
    assert_eq!((number("mean"), number("min_q"), number("max_q")), (3.0, 2.0, 4.0));
    assert!(number("gone").is_nan() && number("max_gone").is_nan());
    assert_eq!(info.to_json()["learner_stats"]["gone"], json!(null));
}

#[test]
fn a_first_none_stays_none_and_a_later_none_counts_as_missing() {
    let leaves = |a: Option<f64>, b: Option<f64>| {
        Info::tree([("a", a.map_or(Info::None, Info::from)), ("b", b.map_or(Info::None, Info::from))])
    };
    let info = merged([leaves(None, Some(1.0)), leaves(Some(2.0), None), leaves(None, Some(2.0))]).unwrap();
    assert_eq!(info.to_json(), json!({"a": null, "b": 1.5}));
}

#[test]
fn an_array_becomes_the_mean_of_all_its_elements() {
    let array = |values: &[f64]| Info::tree([("per_action", values.to_vec())]);
    assert_eq!(merged([array(&[1.0, 2.0]), array(&[3.0, f64::NAN])]).unwrap().number("per_action"), Some(2.0));
    assert_eq!(merged([array(&[1.0, 2.0])]).unwrap().number("per_action"), Some(1.5));
    assert!(merged([array(&[])]).unwrap().number("per_action").unwrap().is_nan());
}

#[test]
fn joined_arrays_keep_their_inner_shape() {
    let rows = |shape: &[usize], values: &[f64]| {
        Info::tree([("td_error", LeafValue::array(shape.to_vec(), values.to_vec()).unwrap())])
    };
    let joined = merged([rows(&[1, 2], &[1.0, 2.0]), rows(&[2, 2], &[3.0, 4.0, 5.0, 6.0])]).unwrap();
    assert_eq!(joined.to_json(), json!({"td_error": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}));
    let error = merged([rows(&[1, 2], &[1.0, 2.0]), rows(&[1, 1], &[3.0])]).unwrap_err();
    assert!(error.to_string().contains("differ at `td_error`: expected [1, 2], got [1, 1]"), "{error}");
}

#[test]
fn shapes_that_differ_are_an_error_that_names_the_place() {
    let array = |values: &[f64]| Info::tree([("learner_stats", Info::tree([("per_action", values.to_vec())]))]);
    let error = merged([array(&[1.0, 2.0]), array(&[1.0])]).unwrap_err().to_string();
    assert!(error.contains("policy `default_policy`") && error.contains("`learner_stats.per_action`"), "{error}");
    assert!(LeafValue::array(vec![usize::MAX, 2], vec![1.0]).is_err());
}

#[test]
fn trees_of_minibatches_must_be_equal_but_for_the_order_of_keys() {
    let ordered = merged([stats([("a", 1.0), ("b", 2.0)]), stats([("b", 4.0), ("a", 3.0)])]).unwrap();
    assert_eq!(ordered.to_json().to_string(), r#"{"learner_stats":{"a":2.0,"b":3.0}}"#);

    let one = stats([("a", 1.0)]);
    let list = |n: usize| Info::tree([("a", Info::List(vec![1.0.into(); n]))]);
    for (first, second) in [
        (one.clone(), stats([("a", 1.0), ("b", 2.0)])),
        (stats([("a", 1.0), ("b", 2.0)]), one.clone()),
        (one.clone(), Info::tree([("learner_stats", 1.0)])),
        (Info::tree([("learner_stats", 1.0)]), one.clone()),
        (Info::tree([("learner_stats", Info::None)]), one.clone()),
        (one.clone(), Info::tree([("learner_stats", Info::None)])),
        (list(1), list(2)),
        (list(1), Info::tree([("a", 1.0)])),
    ] {
        let error = merged([first, second]).unwrap_err();
        assert!(matches!(error, InfoError::Structure { .. }), "{error}");
    }
}

#[test]
fn empty_trees_survive() {
    let info = Info::tree([("model", Info::tree::<String, Info>([]))]);
    assert_eq!(merged([info.clone(), info.clone()]).unwrap(), info);
}

#[test]
fn means_are_weighted_by_rows_only_where_rows_are_given() {
    let policy: PolicyId = "p".into();
    let mut builder = LearnerInfoBuilder::new(1);
    builder.add_weighted(Some(&policy), stats([("loss", 1.0), ("max_q", 1.0)]), 300.0).unwrap();
    builder.add_weighted(Some(&policy), stats([("loss", 5.0), ("max_q", 5.0)]), 100.0).unwrap();
    builder.add(None, stats([("loss", 1.0)])).unwrap();
    builder.add(None, stats([("loss", 5.0)])).unwrap();
    let info = builder.finalize().unwrap();
    assert_eq!(info.number("p", "learner_stats.loss"), Some(2.0));
    assert_eq!(info.number("p", "learner_stats.max_q"), Some(5.0));
    assert_eq!(info.number("default_policy", "learner_stats.loss"), Some(3.0));
    assert_eq!(info.iter().map(|(policy, _)| &**policy).collect::<Vec<_>>(), ["p", "default_policy"]);
}

#[test]
fn a_weight_must_be_a_number_of_rows() {
    for rows in [-1.0, f64::NAN, f64::INFINITY] {
        let mut builder = LearnerInfoBuilder::new(1);
        assert!(matches!(builder.add_weighted(None, stats([]), rows), Err(InfoError::Weight { .. })));
        assert!(matches!(LearnerInfo::merge_all([(LearnerInfo::new(), rows)]), Err(InfoError::Weight { .. })));
    }
    let nothing_behind = LearnerInfo::merge_all([1.0, 3.0].map(|x| (report(stats([("a", x)])), 0.0))).unwrap();
    assert_eq!(nothing_behind.number("default_policy", "learner_stats.a"), Some(2.0));
}

#[test]
fn a_missing_tower_is_named() {
    let mut builder = LearnerInfoBuilder::new(3);
    let error = builder.add(None, Info::tree([("tower_0", stats([])), ("tower_2", stats([]))])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy `default_policy`: results of 3 devices were announced, but `tower_1` is missing"
    );
    assert!(builder.finalize().unwrap().is_empty(), "what failed was not added");
}

#[test]
fn what_stands_beside_the_towers_is_laid_over_them() {
    let mut builder = LearnerInfoBuilder::new(1);
    let tower = Info::tree([("learner_stats", Info::tree([("kl", 1.0), ("lr", 2.0)])), ("model", stats([("a", 1.0)]))]);
    let over = Info::tree([
        ("tower_0", tower),
        ("tower_1", 7.0.into()),
        ("learner_stats", Info::tree([("lr", 9.0), ("new", 8.0)])),
        ("model", Info::tree([("b", 1.0)])),
        ("extra", 3.0.into()),
    ]);
    builder.add(None, over).unwrap();
    let expected = json!({"default_policy": {
        "learner_stats": {"kl": 1.0, "lr": 9.0, "new": 8.0}, "model": {"b": 1.0}, "tower_1": 7.0, "extra": 3.0,
    }});
    // As text, because equal JSON objects may differ in the order of their keys.
    assert_eq!(builder.finalize().unwrap().to_json().to_string(), expected.to_string());
}

#[test]
fn a_builder_gives_its_result_once() {
    let mut builder = LearnerInfoBuilder::new(0);
    builder.add(None, stats([("a", 1.0)])).unwrap();
    assert!(!builder.finalize().unwrap().is_empty());
    assert_eq!(builder.finalize(), Err(InfoError::Finalized));
    assert_eq!(builder.add(None, stats([])), Err(InfoError::Finalized));
    assert_eq!(builder.add_weighted(None, stats([]), 1.0), Err(InfoError::Finalized));
    assert_eq!(builder.add_multi_agent(LearnerInfo::new()), Err(InfoError::Finalized));
}

#[test]
fn batch_count_is_no_policy() {
    let info: LearnerInfo = [("p0", stats([("x", 1.0)])), ("batch_count", 500.0.into())]
        .map(|(key, info)| (Arc::from(key), info))
        .into_iter()
        .collect();
    let mut builder = LearnerInfoBuilder::new(1);
    builder.add_multi_agent(info.clone()).unwrap();
    for merged in [builder.finalize().unwrap(), LearnerInfo::merge_all([(info, 1.0)]).unwrap()] {
        assert_eq!(merged.to_json(), json!({"p0": {"learner_stats": {"x": 1.0}}}));
    }
}

#[test]
fn reports_need_not_have_the_same_tree() {
    let merged = LearnerInfo::merge_all([
        (report(stats([("loss", 1.0)])), 1.0),
        (report(stats([("grad_gnorm", 6.0), ("loss", 3.0)])), 1.0),
    ]);
    assert_eq!(
        merged.unwrap().to_json().to_string(),
        r#"{"default_policy":{"learner_stats":{"loss":2.0,"grad_gnorm":6.0}}}"#
    );
    let conflict = LearnerInfo::merge_all([(report(stats([])), 1.0), (report(1.0.into()), 1.0)]);
    assert!(matches!(conflict, Err(InfoError::Structure { .. })));
}

#[test]
fn paths_lead_through_trees_and_lists_to_numbers_only() {
    let info = Info::tree([("a", Info::List(vec![1.0.into(), vec![2.0].into()])), ("b", Info::None)]);
    assert_eq!(info.number("a.0"), Some(1.0));
    for path in ["a", "a.1", "a.2", "a.x", "b", "b.c", "a.0.c", ""] {
        assert_eq!(info.number(path), None, "{path}");
    }
}

/// A report of random leaves: some are missing, some NaN, some arrays.
fn random_report() -> impl Strategy<Value = (LearnerInfo, f64)> {
    let value = || prop_oneof![4 => -100.0..100.0, 1 => Just(f64::NAN)];
    let leaves = (prop::option::of(value()), prop::option::of((value(), value())), value(), any::<bool>());
    (leaves, 1u32..500).prop_map(|((mean, pair, extreme, has_policy), rows)| {
        let mut info = InfoTree::new();
        info.extend(mean.map(|x: f64| ("mean".to_owned(), x.into())));
        info.extend(pair.map(|(a, b)| ("array_once".to_owned(), vec![a, b].into())));
        info.insert("max_q".to_owned(), extreme.into());
        info.insert("sum".to_owned(), Info::leaf(extreme, Reduction::Sum));
        let mut report = LearnerInfo::new();
        if has_policy {
            report.insert("p".into(), Info::Tree(info));
        }
        (report, f64::from(rows))
    })
}

fn close(a: &Info, b: &Info) -> bool {
    match (a, b) {
        (Info::Tree(a), Info::Tree(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| close(a, b)))
        }
        (Info::Leaf(a), Info::Leaf(b)) => match (a.value().as_number(), b.value().as_number()) {
            (Some(a), Some(b)) => (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9,
            _ => a.value() == b.value(),
        },
        _ => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_in_stages_equals_merging_at_once(reports in prop::collection::vec(random_report(), 1..8), at in 0usize..8) {
        // A collapsed array cannot meet whole ones again, so only one stage may see it.
        let collapse = |(report, rows)| (LearnerInfo::merge_all([(report, rows)]).unwrap(), rows);
        let reports: Vec<(LearnerInfo, f64)> = reports.into_iter().map(collapse).collect();
        let at_once = LearnerInfo::merge_all(reports.clone()).unwrap();
        let stage = |part: &[(LearnerInfo, f64)]| {
            let rows = part.iter().map(|(_, rows)| rows).sum();
            (LearnerInfo::merge_all(part.to_vec()).unwrap(), rows)
        };
        let (early, late) = reports.split_at(at.min(reports.len()));
        let staged = LearnerInfo::merge_all([stage(early), stage(late)]).unwrap();
        let policies = |info: &LearnerInfo| info.iter().map(|(policy, _)| policy.clone()).collect::<Vec<_>>();
        prop_assert_eq!(policies(&staged), policies(&at_once));
        for (policy, expected) in at_once.iter() {
            prop_assert!(close(staged.get(policy).unwrap(), expected), "{:?} {:?}", staged, at_once);
        }
    }
}
