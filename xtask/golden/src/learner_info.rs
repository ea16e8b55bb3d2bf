//! Runner of `learner_info.json`: RLlib's `LearnerInfoBuilder`, the draining of the outqueue, and 1.x's
//! `get_learner_stats`.

use std::collections::VecDeque;

use anyhow::{Context, Result, bail, ensure};
use pronk_metrics::{
    Info, InfoError, InfoTree, LeafValue, LearnerInfo, LearnerInfoBuilder, PolicyId, Steps, learner_stats,
};
use serde_json::Value;

use crate::json::{self, name_of, section};
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-12;

type Runner = fn(&Value, &mut Case) -> Result<()>;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    let runners: [(&str, Runner); 3] =
        [("builder", builder), ("trained_results", trained_results), ("learner_stats", one_x_learner_stats)];
    for (kind, runner) in runners {
        for (index, entry) in section(file, kind).iter().enumerate() {
            r.case(kind, name_of(entry, index), |c| runner(entry, c));
        }
    }
}

fn builder(entry: &Value, c: &mut Case) -> Result<()> {
    let mut builder = LearnerInfoBuilder::new(json::usize_at(entry, "num_devices")?);
    for add in json::array_at(entry, "adds")? {
        let policy = match json::optional(add, "policy_id") {
            Some(_) => Some(PolicyId::from(json::str_at(add, "policy_id")?)),
            None => None,
        };
        builder.add(policy.as_ref(), info_from(json::get(add, "results")?)?)?;
    }
    compare_info("expected", &builder.finalize()?, json::get(entry, "expected")?, c)?;
    if let Some(expected) = json::optional(entry, "add_after_finalize") {
        ensure!(expected == "assertion", "add_after_finalize: unknown outcome {expected}");
        let outcome = builder.add(None, Info::tree([("x", 1.0)]));
        c.equal("add after finalize", outcome, Err(InfoError::Finalized));
    }
    Ok(())
}

/// Drains what is on the outqueue at the start, as RLlib 2.2's `process_trained_results` does.
fn trained_results(entry: &Value, c: &mut Case) -> Result<()> {
    let mut outqueue = VecDeque::new();
    for item in json::array_at(entry, "outqueue")? {
        let steps = match json::usizes_at(item, "e")?[..] {
            [env, agent] => Steps { env: env as u64, agent: agent as u64 },
            _ => bail!("`e` is not a pair of env-steps and agent-steps"),
        };
        outqueue.push_back((steps, learner_info_from(json::get(item, "info")?)?));
    }
    let mut trained = Steps::default();
    let mut infos = Vec::new();
    for (steps, info) in outqueue.drain(..) {
        trained += steps;
        if !info.is_empty() {
            // Every step of the learner counts alike in the original.
            infos.push((info, 1.0));
        }
    }
    let result = if infos.is_empty() {
        learner_info_from(json::get(entry, "fallback")?)?
    } else {
        LearnerInfo::merge_all(infos)?
    };
    compare_info("expected", &result, json::get(entry, "expected")?, c)?;
    for (key, got) in [("num_env_steps_trained", trained.env), ("num_agent_steps_trained", trained.agent)] {
        c.equal(key, got, json::usize_at(entry, &format!("counters.{key}"))? as u64);
    }
    c.equal("left_in_queue", outqueue.len(), json::usize_at(entry, "left_in_queue")?);
    Ok(())
}

fn one_x_learner_stats(entry: &Value, c: &mut Case) -> Result<()> {
    let got = learner_stats(&info_from(json::get(entry, "grad_info")?)?);
    compare("expected", &got, &info_from(json::get(entry, "expected")?)?, c);
    Ok(())
}

pub(crate) fn compare_info(what: &str, got: &LearnerInfo, want: &Value, c: &mut Case) -> Result<()> {
    let got: InfoTree = got.iter().map(|(policy, info)| (policy.to_string(), info.clone())).collect();
    compare(what, &Info::Tree(got), &info_from(want)?, c);
    Ok(())
}

/// Compares trees leaf by leaf; the keys of a tree in their order.
fn compare(at: &str, got: &Info, want: &Info, c: &mut Case) {
    match (got, want) {
        (Info::Tree(got), Info::Tree(want)) => {
            let keys = |tree: &InfoTree| tree.keys().cloned().collect::<Vec<_>>();
            c.equal(format!("{at}: keys"), keys(got), keys(want));
            for (key, want) in want {
                compare(&format!("{at}.{key}"), got.get(key).unwrap_or(&Info::None), want, c);
            }
        }
        (Info::List(got), Info::List(want)) if got.len() == want.len() => {
            for (index, (got, want)) in got.iter().zip(want).enumerate() {
                compare(&format!("{at}.{index}"), got, want, c);
            }
        }
        (Info::Leaf(got), Info::Leaf(want)) if got.value().shape() == want.value().shape() => {
            c.close_all(at, got.value().values(), want.value().values(), TOLERANCE);
        }
        _ => c.equal(at, got, want),
    }
}

pub(crate) fn learner_info_from(value: &Value) -> Result<LearnerInfo> {
    let policies = value.as_object().with_context(|| format!("expected results by policy, got {value}"))?;
    policies.iter().map(|(policy, results)| Ok((PolicyId::from(policy.as_str()), info_from(results)?))).collect()
}

/// JSON as the golden files write results: `{"array": […]}` is an array leaf, any other object a tree, a list
/// a list, null none, and the rest a number.
fn info_from(value: &Value) -> Result<Info> {
    match value {
        Value::Null => Ok(Info::None),
        Value::Object(map) => match map.get("array") {
            Some(array) if map.len() == 1 => Ok(LeafValue::array(shape_of(array), json::floats(array)?)?.into()),
            _ => {
                let children = map.iter().map(|(key, value)| Ok((key.clone(), info_from(value)?)));
                Ok(Info::Tree(children.collect::<Result<_>>()?))
            }
        },
        Value::Array(items) => Ok(Info::List(items.iter().map(info_from).collect::<Result<_>>()?)),
        _ => Ok(json::number(value)?.into()),
    }
}

/// The shape of a nested array, read off its first elements; a ragged one does not hold as many values.
fn shape_of(array: &Value) -> Vec<usize> {
    match array {
        Value::Array(items) => {
            let mut shape = vec![items.len()];
            shape.extend(items.first().map(shape_of).unwrap_or_default());
            shape
        }
        _ => Vec::new(),
    }
}
