//! The processes that a repetition is made of: a learner, and hosts. Both say what they do in lines of JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use pronk::hosts::Terms;
use pronk::hosts_zenoh::{Certificates, LEARNER, ZenohDial, ZenohListen};
use pronk::metrics::StepTotals;
use pronk::prelude::*;
use pronk::{Every, ReportError, Reporter, ResultDict, Resume, Run, Steps};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::numbered::{Numbered, Seen, Watched};

/// What a child process gets as its first argument; no case is called so.
pub(crate) const LEARNER_CHILD: &str = "child-learner";
pub(crate) const HOST_CHILD: &str = "child-host";

/// A host that is silent for so long has lost its session.
const LEASE: Duration = Duration::from_secs(3);
const BEAT: Duration = Duration::from_millis(100);

/// Longest time for which a host looks for the learner.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a step of an environment takes: a host makes some hundred a second, and uses little of the machine.
const PACE: Duration = Duration::from_millis(3);

/// Most env-steps of a host that can be lost with its session: a fragment of 16 for each of three couriers,
/// two workers, two pieces of storage between these, and the inqueue.
pub(crate) const ON_THE_WAY: u64 = 16 * 8;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LearnerArgs {
    pub(crate) address: String,
    /// The folder of the certificates; without it, plain tcp.
    pub(crate) certificates: Option<PathBuf>,
    /// Numbers of an observation that say nothing.
    pub(crate) width: usize,
    /// Where checkpoints are saved, and resumed from.
    pub(crate) checkpoints: Option<PathBuf>,
    /// What the learner was given to train on, for the next one.
    pub(crate) log: Option<PathBuf>,
    /// Whether it runs until a signal.
    pub(crate) until_signal: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostArgs {
    pub(crate) address: String,
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) width: usize,
    pub(crate) name: String,
    /// The number of the process, which no other of the repetition has.
    pub(crate) process: u32,
}

/// Does what the arguments of a child process say; `None` in the process that starts them.
pub(crate) fn act_as_a_child() -> Option<u8> {
    let (kind, args) = (std::env::args().nth(1)?, std::env::args().nth(2)?);
    match kind.as_str() {
        LEARNER_CHILD => {
            log_to_stderr();
            Some(learner(&serde_json::from_str(&args).unwrap()))
        }
        HOST_CHILD => {
            log_to_stderr();
            Some(host(&serde_json::from_str(&args).unwrap()))
        }
        _ => None,
    }
}

fn config(width: usize) -> TrainerConfig {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 2;
    config.workers.rollout_fragment_length = 8;
    config.learner.train_batch_size = 16;
    config.learner.learner_queue_size = Some(2);
    config.learner.num_sgd_iter = 1;
    // After this and another second there is a result without any fragment.
    config.learner.learner_queue_timeout = Duration::from_secs(1);
    config.model.fcnet_hiddens = vec![if width == 0 { 8 } else { 16 }];
    config.results.min_time_s_per_iteration = 0.1;
    config.checkpoint.every = Every::Time(Duration::ZERO);
    config.checkpoint.keep = 3;
    config
}

fn learner(args: &LearnerArgs) -> u8 {
    let mut at = ZenohListen::at(&args.address);
    match &args.certificates {
        Some(folder) => at = at.certificates(Certificates::in_folder(folder, LEARNER)),
        None => at = at.insecure(),
    }
    let terms = Terms { lease: LEASE, beat: BEAT, ..Terms::default() };
    let seen = Arc::new(Mutex::new(Seen::after(args.log.as_deref())));
    let watched = Arc::clone(&seen);
    let width = args.width;
    let run = Trainer::builder(config(width)).env(move |context: &EnvContext| Numbered::new(context, 0, width, PACE));
    let mut run = run.learner(move |inner| Ok(Box::new(Watched { inner, seen: watched })));
    if let Some(folder) = &args.checkpoints {
        run = run.checkpoints(folder).resume(Resume::auto());
    }
    let run = run.reporter(Lines { seen: Arc::clone(&seen) });
    let mut trainer = run.listen(at, terms).build().unwrap();
    println!("{}", json!({ "says": "address", "address": trainer.listens_at() }));
    let mut open_results = 0;
    let orders = orders();
    let run = if args.until_signal {
        trainer.run(StopWhen::default()).unwrap()
    } else {
        let mut sampled = 0;
        // Until it is told to drain, and how many env-steps later.
        let more: u64 = loop {
            if let Ok(order) = orders.try_recv() {
                break order.parse().unwrap();
            }
            let result = trainer.next().unwrap().unwrap();
            open_results += u32::from(!result.ledger_closed());
            sampled = result.env_steps_sampled;
        };
        trainer.run(StopWhen { env_steps: Some(sampled + more), ..StopWhen::default() }).unwrap()
    };
    println!("{}", last_line(&run, &seen.lock().unwrap(), open_results));
    0
}

/// Lines of the standard input. With its end, the process that reads them ends, too: the bench is gone.
fn orders() -> Receiver<String> {
    let (send, orders) = channel();
    let read = move || {
        let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
        // A process that needs no orders has dropped the receiver.
        lines.by_ref().for_each(|line| drop(send.send(line)));
        #[allow(clippy::disallowed_methods)] // as a kill would, and nothing is to be finished
        std::process::exit(1);
    };
    std::thread::Builder::new().name("orders".to_owned()).spawn(read).unwrap();
    orders
}

/// Writes a line for each result.
struct Lines {
    seen: Arc<Mutex<Seen>>,
}

impl Reporter for Lines {
    fn name(&self) -> &str {
        "lines"
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let of = |path: &str| result.get(path).cloned().unwrap_or_default();
        let seen = self.seen.lock().unwrap();
        println!(
            "{}",
            json!({
                "says": "result",
                "steps": of("ledger.steps"),
                "hosts": of("hosts"),
                "bottleneck": of("bottleneck.limit"),
                "checkpoints_saved": of("checkpoint.saved"),
                "checkpoints_failed": of("checkpoints_failed"),
                "seen": seen.by_process,
                "wrong": seen.wrong.first(),
            })
        );
        Ok(())
    }
}

fn last_line(run: &Run, seen: &Seen, open_results: u32) -> Value {
    json!({
        "says": "end",
        "closed": run.ledger_closed(),
        "open_results": open_results,
        "steps": steps(&run.steps),
        "distinct": seen.distinct(),
        "wrong": seen.wrong.first(),
        "not_joined": run.not_joined,
    })
}

/// The env-steps of a ledger.
fn steps(totals: &StepTotals) -> Value {
    let named = |steps: &BTreeMap<Arc<str>, Steps>| -> Map<String, Value> {
        steps.iter().map(|(name, steps)| (name.to_string(), steps.env.into())).collect()
    };
    json!({
        "sampled": totals.sampled.env,
        "trained_once": totals.trained_once.env,
        "in_flight": totals.in_flight.env,
        "dropped": named(&totals.dropped),
        "lost": named(&totals.lost),
    })
}

fn host(args: &HostArgs) -> u8 {
    let mut to = ZenohDial::to(&args.address);
    match &args.certificates {
        Some(folder) => to = to.certificates(Certificates::in_folder(folder, &args.name)),
        None => to = to.insecure().name(&args.name),
    }
    #[allow(clippy::disallowed_methods)] // what the wall clock says is to be shown
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime: f64 = uptime.split_whitespace().next().and_then(|secs| secs.parse().ok()).unwrap_or_default();
    println!("{}", json!({ "says": "clocks", "wall_secs": wall.as_secs_f64(), "uptime_secs": uptime }));
    drop(orders());
    let (process, width) = (args.process, args.width);
    let run = Trainer::builder(TrainerConfig::default())
        .env(move |context: &EnvContext| Numbered::new(context, process, width, PACE));
    match run.connect(to).workers(2).patience(PATIENCE).run() {
        Ok(outcome) => {
            println!(
                "{}",
                json!({
                    "says": "outcome",
                    "stays": outcome.stays,
                    "env_steps": outcome.env_steps,
                    "stopped": outcome.stopped,
                    "closed": outcome.steps.is_closed(),
                    "steps": steps(&outcome.steps),
                })
            );
            0
        }
        Err(error) => {
            println!("{}", json!({ "says": "error", "error": error.to_string() }));
            1
        }
    }
}

/// Writes what pronk logs to the standard error, which is kept for repetitions that fail.
fn log_to_stderr() {
    LazyLock::force(&STARTED);
    tracing_subscriber::registry().with(Log).init();
}

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

struct Log;

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        let target = metadata.target();
        // The learner warns ten times a second while nothing comes.
        let is_told = !target.starts_with("pronk_learner");
        let level = if target.starts_with("pronk") { tracing::Level::DEBUG } else { tracing::Level::WARN };
        metadata.is_event() && is_told && *metadata.level() <= level
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                let _ = write!(self.0, " {field}={value:?}");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let since = STARTED.elapsed().as_secs_f64();
        let (level, target) = (event.metadata().level(), event.metadata().target());
        // The file may be full, as files are in some cases.
        let _ = writeln!(std::io::stderr(), "{since:8.3} {level} {target}{}", text.0);
    }
}
