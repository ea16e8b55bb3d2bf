//! Runner of `multi_gpu` in `learner_thread.json`: RLlib 2.2's `MultiGPULearnerThread`, one loader or learner
//! step at a time.
//!
//! It drives a real [`LearnerLoop`] over real [`LoaderStacks`] with one loader thread. Where pronk differs on
//! purpose, what the original would have said is computed from what pronk says: agent-steps are counted apart
//! from env-steps, and each policy's results are filed under its own name.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pronk_buffer::{
    Gate, InqueueReceiver, InqueueSender, Loader, LoaderConfig, LoaderParts, LoaderStacks, Mailbox, MultiAgentBatch,
    Notifier, ShutdownGuard, Tag, inqueue, shutdown, weight_cell,
};
use pronk_learner::{HoldsBatch, LearnerLoop, LearnerLoopConfig, LearnerParts, LearnerReport, StepOutcome, TrainBatch};
use pronk_metrics::{ByPolicy, PolicyId, StepLedger, TimeLedger};
use serde_json::Value;

use crate::Case;
use crate::json::{array_at, get, number, optional, usize_at};
use crate::learner_info::{compare_info, learner_info_from};
use crate::scripted::{Script, ScriptedLearner, blank};

const TOLERANCE: f64 = 1e-9;

/// Far longer than any loader takes.
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn multi_gpu(entry: &Value, c: &mut Case) -> Result<()> {
    let mut rig = Rig::new(entry)?;
    for (index, op) in array_at(entry, "ops")?.iter().enumerate() {
        let at = format!("ops[{index}]");
        let done = match optional(op, "load") {
            Some(number) => rig.load(number, op, &at, c),
            None => rig.learn(op, &at, c),
        };
        done.with_context(|| at.clone())?;
    }
    // The loader times a load a moment after it has said so.
    let began = Instant::now();
    while rig.learner_loop.metrics().read().load.count() < rig.loads && began.elapsed() < LONG {
        std::thread::yield_now();
    }
    let metrics = rig.learner_loop.metrics().read();
    c.equal("loads that were timed", metrics.load.count(), rig.loads);
    c.equal("waits for data that were timed", metrics.queue.count(), rig.loads);
    c.equal("passes that were counted", metrics.num_steps, rig.passes);
    Ok(())
}

/// A numbered stack, as RLlib's are.
struct Numbered {
    stack: usize,
    batch: MultiAgentBatch,
}

impl HoldsBatch for Numbered {
    fn batch(&self) -> TrainBatch<'_> {
        (&self.batch).into()
    }

    fn samples_mut(&mut self) -> &mut MultiAgentBatch {
        &mut self.batch
    }
}

/// Moves the batch and says into which stack.
struct Saying(SyncSender<usize>);

impl Loader<MultiAgentBatch> for Saying {
    type Stack = Numbered;

    fn load(&mut self, batch: MultiAgentBatch, stack: &mut Numbered) -> Result<(), Box<dyn Error + Send + Sync>> {
        stack.batch = batch;
        Ok(self.0.send(stack.stack)?)
    }
}

type Stacks = LoaderStacks<InqueueReceiver<MultiAgentBatch>, Numbered>;

/// A learner loop behind stacks that one thread loads.
struct Rig {
    learner_loop: LearnerLoop<Stacks>,
    inqueue: InqueueSender<MultiAgentBatch>,
    outqueue: Mailbox<LearnerReport>,
    loaded: Receiver<usize>,
    script: Script,
    policies: Vec<PolicyId>,
    loads: u64,
    passes: u64,
    _guard: ShutdownGuard,
}

impl Rig {
    fn new(entry: &Value) -> Result<Self> {
        let n_stacks = NonZeroUsize::new(usize_at(entry, "num_stacks")?).context("num_stacks is 0")?;
        let names = array_at(entry, "policies")?.iter().map(|name| name.as_str().map(PolicyId::from));
        let policies: Vec<PolicyId> = names.collect::<Option<_>>().context("a policy is no string")?;
        let (shutdown, token) = shutdown();
        let (inqueue, source) = inqueue(array_at(entry, "ops")?.len().max(1), Gate::Bounded, &token)?;
        let (say, loaded) = mpsc::sync_channel(1);
        let stack = |stack| Numbered { stack, batch: MultiAgentBatch::default() };
        let (time, steps) = (TimeLedger::new(), StepLedger::new());
        let parts = LoaderParts {
            source,
            stacks: (0..n_stacks.get()).map(stack).collect(),
            time: time.clone(),
            token: token.clone(),
        };
        let one = LoaderConfig { num_data_load_threads: NonZeroUsize::MIN, ..LoaderConfig::default() };
        let stacks = LoaderStacks::start(one, parts, move |_| Ok(Saying(say.clone())))?;
        let config = LearnerLoopConfig {
            num_sgd_iter: NonZeroU32::new(usize_at(entry, "num_sgd_iter")?.try_into()?).context("num_sgd_iter is 0")?,
            init_num_sgd_iter: Some(NonZeroU32::MIN),
            minibatch_buffer_size: n_stacks,
            learner_queue_timeout: Duration::ZERO,
            ..LearnerLoopConfig::default()
        };
        let script = Script::default();
        let learner = ScriptedLearner::new(script.clone(), usize_at(entry, "num_devices")?);
        let (publisher, _cell) = weight_cell(ByPolicy::new());
        let parts = LearnerParts {
            loaders: Some(stacks.metrics().clone()),
            source: stacks,
            learner: Box::new(learner),
            publisher,
            steps,
            time,
            token,
            notifier: Notifier::new(),
            journal: None,
        };
        let (learner_loop, outqueue) = LearnerLoop::new(config, parts);
        let (loads, passes) = (0, 0);
        Ok(Self { learner_loop, inqueue, outqueue, loaded, script, policies, loads, passes, _guard: shutdown })
    }

    /// One iteration of a loader: a batch of so many rows for each policy.
    fn load(&mut self, batch: &Value, op: &Value, at: &str, c: &mut Case) -> Result<()> {
        let tag = Tag { slot: number(batch)? as u64, ..Tag::default() };
        let rows = usize_at(op, "rows")?;
        let parts: Result<BTreeMap<_, _>> =
            self.policies.iter().map(|policy| Ok((policy.clone(), blank(rows, tag)?))).collect();
        self.inqueue.try_push(MultiAgentBatch::new(parts?, rows as u64)?)?;
        let stack = self.loaded.recv_timeout(LONG).context("no loader loaded the batch")?;
        c.equal(format!("{at}.stack"), stack, usize_at(op, "stack")?);
        self.loads += 1;
        Ok(())
    }

    /// One iteration of the learner.
    fn learn(&mut self, op: &Value, at: &str, c: &mut Case) -> Result<()> {
        let Some(results) = optional(op, "results") else {
            let outcome = self.learner_loop.step()?;
            c.equal(format!("{at}.empty"), matches!(outcome, StepOutcome::NotReady(_)), true);
            return Ok(());
        };
        self.script.write(Vec::new(), Some(learner_info_from(results)?));
        let began = Instant::now();
        // The loader says what it loaded a moment before it passes it on.
        loop {
            match self.learner_loop.step()? {
                StepOutcome::Trained(_) => break,
                StepOutcome::NotReady(_) if began.elapsed() < LONG => std::thread::yield_now(),
                other => bail!("the step came to {other:?}"),
            }
        }
        self.passes += 1;
        c.equal(format!("{at}.batch"), self.script.seen(), Some(usize_at(op, "batch")? as u64));
        let reports = self.outqueue.drain();
        let [report] = &reports[..] else { bail!("expected one report, got {}", reports.len()) };
        let want = get(op, "put_out")?;
        // The original counts the rows of all policies as both.
        c.equal(format!("{at}.agent_steps"), report.agent_steps, usize_at(want, "agent_steps")? as u64);
        c.equal(
            format!("{at}.env_steps"),
            report.env_steps * self.policies.len() as u64,
            usize_at(want, "env_steps")? as u64,
        );
        if let [_] = &self.policies[..] {
            compare_info(&format!("{at}.info"), &report.info, get(want, "info")?, c)?;
        } else {
            // The original files the mean over all policies under `default_policy`.
            let losses = self.policies.iter().map(|policy| report.info.number(policy, "learner_stats.loss"));
            let losses: Vec<f64> = losses.collect::<Option<_>>().context("a policy has no results of its own")?;
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            let want = number(get(want, "info.default_policy.learner_stats.loss")?)?;
            c.close(format!("{at}.info"), mean, want, TOLERANCE);
        }
        Ok(())
    }
}
