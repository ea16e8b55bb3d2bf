//! Runner of `learner_thread.json`: RLlib 2.2's `LearnerThread`, step by step.
//!
//! `learner` drives a real [`LearnerLoop`] with a scripted clock and a scripted learner; `multi_gpu` is in
//! the file of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pronk_buffer::{
    Gate, InqueueReceiver, InqueueSender, Mailbox, MultiAgentBatch, Notifier, SampleBatch, ShutdownGuard, Tag, inqueue,
    shutdown, weight_cell,
};
use pronk_learner::{LearnerLoop, LearnerLoopConfig, LearnerParts, LearnerReport, OverwriteLearnerInfo, StepOutcome};
use pronk_metrics::{ByPolicy, PolicyId, ResultDict, StepLedger, TimeLedger};
use serde_json::Value;

use crate::json::{array_at, bool_at, floats_at, get, name_of, number, optional, section, usize_at};
use crate::learner_info::{compare_info, learner_info_from};
use crate::multi_gpu::multi_gpu;
use crate::scripted::{Script, ScriptedLearner, blank};
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-9;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "learner").iter().enumerate() {
        r.case("learner", name_of(entry, index), |c| learner(entry, c));
    }
    for (index, entry) in section(file, "multi_gpu").iter().enumerate() {
        r.case("multi_gpu", name_of(entry, index), |c| multi_gpu(entry, c));
    }
}

fn learner(entry: &Value, c: &mut Case) -> Result<()> {
    let mut rig = Rig::new(entry)?;
    for (index, op) in array_at(entry, "ops")?.iter().enumerate() {
        let at = format!("ops[{index}]");
        let done = if let Some(batch) = optional(op, "put") {
            rig.put(batch, op, &at, c)
        } else if op.get("step").is_some() {
            rig.step(op, &at, c)
        } else if op.get("metrics").is_some() {
            rig.metrics(op, &at, c)
        } else {
            bail!("{at} is neither put, step nor metrics: {op}")
        };
        done.with_context(|| at.clone())?;
    }
    Ok(())
}

/// A learner loop between an inqueue and an outqueue.
struct Rig {
    learner_loop: LearnerLoop<InqueueReceiver<MultiAgentBatch>>,
    inqueue: InqueueSender<MultiAgentBatch>,
    outqueue: Mailbox<LearnerReport>,
    script: Script,
    /// Entries the outqueue would hold had nobody read it.
    reports: usize,
    /// Policies of all reports, as RLlib lists them until a broadcast.
    updated: Vec<String>,
    _guard: ShutdownGuard,
}

impl Rig {
    fn new(entry: &Value) -> Result<Self> {
        let ops = array_at(entry, "ops")?.len().max(1);
        // Python's queues are unbounded at 0 and below; no case can put more than it has ops.
        let capacity = match number(get(entry, "learner_queue_size")?)? {
            size if size > 0.0 => usize_at(entry, "learner_queue_size")?,
            _ => ops,
        };
        let config = LearnerLoopConfig {
            num_sgd_iter: NonZeroU32::new(usize_at(entry, "num_sgd_iter")?.try_into()?).context("num_sgd_iter is 0")?,
            minibatch_buffer_size: NonZeroUsize::new(usize_at(entry, "minibatch_buffer_size")?)
                .context("minibatch_buffer_size is 0")?,
            learner_queue_timeout: Duration::ZERO,
            ..LearnerLoopConfig::default()
        };
        let (shutdown, token) = shutdown();
        let (inqueue, source) = inqueue(capacity, Gate::Bounded, &token)?;
        let (publisher, _cell) = weight_cell(ByPolicy::new());
        let script = Script::default();
        let parts = LearnerParts {
            source,
            learner: Box::new(ScriptedLearner::new(script.clone(), 1)),
            publisher,
            loaders: None,
            steps: StepLedger::new(),
            time: TimeLedger::new(),
            token,
            notifier: Notifier::new(),
            journal: None,
        };
        let (learner_loop, outqueue) = LearnerLoop::new(config, parts);
        let learner_loop = learner_loop.with_clock(script.clone());
        Ok(Self { learner_loop, inqueue, outqueue, script, reports: 0, updated: Vec::new(), _guard: shutdown })
    }

    fn put(&mut self, batch: &Value, op: &Value, at: &str, c: &mut Case) -> Result<()> {
        self.inqueue.try_push(batch_from(batch)?)?;
        c.equal(format!("{at}.inqueue_len"), self.inqueue.len(), usize_at(op, "inqueue_len")?);
        Ok(())
    }

    fn step(&mut self, op: &Value, at: &str, c: &mut Case) -> Result<()> {
        let learned = optional(op, "learn_result").map(learner_info_from).transpose()?;
        self.script.write(floats_at(op, "clock")?, learned);
        let outcome = self.learner_loop.step()?;
        let not_ready = match outcome {
            StepOutcome::NotReady(_) => true,
            StepOutcome::Trained(_) => false,
            other => bail!("the step came to {other:?}"),
        };
        c.equal(format!("{at}.not_ready"), not_ready, bool_at(op, "not_ready")?);
        c.equal(format!("{at}: clock readings left"), self.script.readings_left(), 0);

        let reports = self.outqueue.drain();
        self.reports += reports.len();
        self.updated.extend(reports.iter().flat_map(|r| r.info.iter().map(|(policy, _)| policy.to_string())));
        c.equal(format!("{at}.outqueue_len"), self.reports, usize_at(op, "outqueue_len")?);
        let num_steps = self.learner_loop.metrics().read().num_steps;
        c.equal(format!("{at}.num_steps"), num_steps, usize_at(op, "num_steps")? as u64);
        if let Some(want) = optional(op, "policy_ids_updated") {
            c.equal(format!("{at}.policy_ids_updated"), Value::from(self.updated.clone()), want.clone());
        }
        if let Some(want) = optional(op, "put_out") {
            let [report] = &reports[..] else { bail!("expected one report, got {}", reports.len()) };
            c.equal(format!("{at}.env_steps"), report.env_steps, usize_at(want, "env_steps")? as u64);
            c.equal(format!("{at}.agent_steps"), report.agent_steps, usize_at(want, "agent_steps")? as u64);
            compare_info(&format!("{at}.info"), &report.info, get(want, "info")?, c)?;
        }
        Ok(())
    }

    fn metrics(&mut self, op: &Value, at: &str, c: &mut Case) -> Result<()> {
        let overwrite = match bool_at(op, "overwrite_learner_info")? {
            true => OverwriteLearnerInfo::Yes,
            false => OverwriteLearnerInfo::No,
        };
        let want = get(op, "expected.info")?.as_object().context("`expected.info` is no object")?;
        let mut result = ResultDict::new();
        for (key, value) in want {
            let is_written = match key.as_str() {
                "learner_queue" | "timing_breakdown" => true,
                "learner" => overwrite == OverwriteLearnerInfo::Yes,
                _ => false,
            };
            // What the metrics do not write was there before and must stay.
            if !is_written {
                result.set(&format!("info.{key}"), value.clone());
            }
        }
        self.learner_loop.metrics().add_learner_metrics(&mut result, overwrite);
        let got = result.get("info").context("no `info` was written")?;
        compare_json(&format!("{at}.info"), got, &Value::Object(want.clone()), c)
    }
}

/// Compares result dicts; where one is NaN, pronk's has null.
fn compare_json(at: &str, got: &Value, want: &Value, c: &mut Case) -> Result<()> {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<BTreeSet<_>>();
            c.equal(format!("{at}: keys"), keys(got), keys(want));
            for (key, want) in want {
                compare_json(&format!("{at}.{key}"), got.get(key).unwrap_or(&Value::Null), want, c)?;
            }
        }
        (Value::Array(got), Value::Array(want)) if got.len() == want.len() => {
            c.equal(format!("{at}: length"), got.len(), want.len());
            for (index, (got, want)) in got.iter().zip(want).enumerate() {
                compare_json(&format!("{at}[{index}]"), got, want, c)?;
            }
        }
        (Value::Null, want) => c.equal(at, true, want.is_null() || number(want)?.is_nan()),
        (Value::Number(_), Value::Number(_)) => c.close(at, number(got)?, number(want)?, TOLERANCE),
        _ => c.equal(at, got, want),
    }
    Ok(())
}

fn batch_from(value: &Value) -> Result<MultiAgentBatch> {
    let env_steps = usize_at(value, "env")?;
    match optional(value, "agents") {
        None => Ok(MultiAgentBatch::single(blank(env_steps, Tag::default())?)),
        Some(agents) => {
            let agents = agents.as_object().context("`agents` is no object")?;
            let policies: Result<BTreeMap<PolicyId, SampleBatch>> = agents
                .keys()
                .map(|policy| {
                    Ok((
                        PolicyId::from(policy.as_str()),
                        blank(usize_at(value, &format!("agents.{policy}"))?, Tag::default())?,
                    ))
                })
                .collect();
            Ok(MultiAgentBatch::new(policies?, env_steps as u64)?)
        }
    }
}
