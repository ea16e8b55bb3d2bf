//! [`Bottleneck`]: what limits a run, from its time ledger.

use std::fmt;

use pronk_metrics::{ThreadTime, shares};
use pronk_rollout::InferenceThread;
use serde_json::{Value, json};

/// Share of waiting from which a stage counts as waiting.
const WAITS: f64 = 0.1;

/// Share of busy processors from which the machine is the limit.
const ALL_BUSY: f64 = 0.9;

/// Smallest speedup worth advising.
const WORTH_IT: f64 = 1.05;

/// Largest factor of workers to advise; beyond, predictions are guesses.
const FARTHEST: usize = 2;

/// Effective sample size below which data counts as too old: CartPole and Pendulum are learned with 0.83 and
/// above at any lag, after their first iterations, and with 0.76 and below they are not.
const WORTH_LITTLE: f64 = 0.8;

/// What limits a run, and what one change of a setting would bring.
///
/// A run is a pipeline of workers, an optional inference thread, optional loaders, and the learner. A stage
/// that is busy for a share `s` of its time could process `1 / s` times as much, and so could the processors.
/// If workers are always busy and the learner is starved for 60 % of its time, more workers can raise the
/// rate up to 1 / 0.4 = 2.5 times, or until the processors are busy.
///
/// Threads and processes of environments belong to their worker's stage: waiting for them counts as stepping.
/// Their processor time is in [`Processors`].
///
/// `Display` is a sentence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bottleneck {
    /// The limiting stage.
    pub limit: Limit,
    /// The learner's share of time without data, from 0 to 1; without threads, the share of sampling.
    pub starved: f64,
    /// The workers' share of time blocked on the inqueue, helping the learner, awaiting their turn, or idle;
    /// `None` without threads.
    pub blocked: Option<f64>,
    /// If the order of admission is the limit, and one worker hardly awaits its turn while others do: that
    /// one.
    pub slowest_worker: Option<String>,
    /// The processors that the run used.
    pub processors: Option<Processors>,
    /// The change to make.
    pub advice: Option<Advice>,
    /// The age of the data, if it costs more than half of it.
    pub old_data: Option<OldData>,
}

/// Data from policies that are far from the one in training.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct OldData {
    /// The share of a batch that is worth as much as new data, from 0 to 1.
    pub effective_sample_size: f64,
    /// Mean policy lag, in publications of weights.
    pub lag: f64,
}

/// The stage that limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The workers and their environments.
    Environments,
    /// The shared inference thread.
    Inference,
    /// The loader threads.
    Loading,
    /// The network between workers on other machines and the learner.
    Network,
    /// The learner.
    Learner,
    /// The machine's processors: this run keeps them busy, or other programs do.
    Processors,
    /// The only thread, in a run without others.
    OneThread,
    /// The order of admission: the learner waits for one worker while others wait for their turn.
    AdmissionOrder,
    /// None: workers and learner are about equally fast.
    Balance,
}

/// Processor time of this process and its environments' processes in an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    /// How many were busy on average.
    pub busy: f64,
    /// How many are available to this process.
    pub available: usize,
}

/// A change of a setting, and its predicted effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// The field of [`TrainerConfig`](crate::TrainerConfig).
    pub setting: &'static str,
    /// Its value now.
    pub from: usize,
    /// The value to try.
    pub to: usize,
    /// The predicted factor of env-steps per second.
    pub speedup: f64,
}

/// A stage of a run, and its busy share of time.
struct Stage {
    limit: Limit,
    busy: f64,
}

impl Processors {
    fn are_busy(self) -> bool {
        ALL_BUSY * self.room() <= 1.0
    }

    /// The factor by which the run could grow until all are busy.
    fn room(self) -> f64 {
        self.available as f64 / self.busy.max(f64::MIN_POSITIVE)
    }
}

impl Bottleneck {
    /// The same, with data that is too old: more workers would make it older.
    pub(crate) fn with_old_data(self, old_data: Option<OldData>) -> Self {
        let advice = self.advice.filter(|advice| old_data.is_none() || advice.to < advice.from);
        Self { old_data, advice, ..self }
    }

    /// The bottleneck between two readings of the time ledger of a run with so many workers, or `None` if the
    /// only one shares the learner's thread. `None` before the learner had any time.
    pub(crate) fn find(
        now: &[ThreadTime],
        before: &[ThreadTime],
        workers: Option<usize>,
        processors: Option<Processors>,
    ) -> Option<Self> {
        let spent = Spent::between(now, before);
        let starved = spent.share(is_learner, &["starved"])?;
        let found = Self {
            limit: Limit::Balance,
            starved,
            blocked: None,
            slowest_worker: None,
            processors,
            advice: None,
            old_data: None,
        };
        let Some(num_rollout_workers) = workers else {
            // The learner's own starved time includes time in the caller, so it is computed from the work of
            // both.
            let makes_data = spent.secs(is_worker, |state| state != "idle");
            let learns = spent.secs(is_learner, |state| state != "starved");
            let starved = makes_data / (makes_data + learns).max(f64::MIN_POSITIVE);
            return Some(Self { starved, ..found }.of_one_thread());
        };
        let blocked = spent.share(is_worker, &["blocked", "helping", "awaiting", "idle"])?;
        // With a shared inference thread, `inferring` is waiting.
        let asks =
            spent.share(is_inference, &[]).map_or(0.0, |_| spent.share(is_worker, &["inferring"]).unwrap_or(0.0));
        let mut stages = vec![
            Stage { limit: Limit::Environments, busy: 1.0 - blocked - asks },
            Stage { limit: Limit::Learner, busy: 1.0 - starved },
        ];
        // What couriers do but for waiting, be it for the workers or for the learner.
        let idle = spent.share(is_courier, &["waiting", "held"]);
        stages.extend(idle.map(|idle| Stage { limit: Limit::Network, busy: 1.0 - idle }));
        let waiting = |thread: fn(&str) -> bool, states: &[&str]| spent.share(thread, states);
        let inference = waiting(is_inference, &["waiting"]);
        let loading = waiting(|thread| thread.starts_with("loader"), &["waiting_for_stack", "waiting_for_data"]);
        stages.extend(inference.map(|waits| Stage { limit: Limit::Inference, busy: 1.0 - waits }));
        stages.extend(loading.map(|waits| Stage { limit: Limit::Loading, busy: 1.0 - waits }));
        let found = Self { blocked: Some(blocked), ..found }.of_stages(&stages, num_rollout_workers);
        // Without a stage between them, a full queue excludes a starved learner, unless a thread that may go
        // on does not get a processor.
        let lacks_processor = idle.is_none() && loading.is_none() && starved + blocked >= 1.0 + WAITS;
        let awaiting = spent.share(is_worker, &["awaiting"]).unwrap_or(0.0);
        // Both sides wait, although neither data nor turns are short: each waits for the other in a fixed
        // order.
        let is_order = found.limit != Limit::Processors && starved >= WAITS && awaiting >= WAITS;
        if !is_order {
            let limit = if lacks_processor { Limit::Processors } else { found.limit };
            return Some(Self { limit, advice: found.advice.filter(|_| limit == found.limit), ..found });
        }
        let slowest_worker = spent.slowest_worker();
        Some(Self { limit: Limit::AdmissionOrder, slowest_worker, advice: None, ..found })
    }

    fn of_stages(self, stages: &[Stage], n_workers: usize) -> Self {
        let busiest = |of: &dyn Fn(&Stage) -> bool| {
            stages.iter().filter(|stage| of(stage)).max_by(|a, b| a.busy.total_cmp(&b.busy))
        };
        let all_busy = self.processors.is_some_and(Processors::are_busy);
        let waits = self.starved.max(self.blocked.unwrap_or(0.0)) >= WAITS;
        let limit = match busiest(&|_| true) {
            _ if all_busy => Limit::Processors,
            Some(stage) if waits => stage.limit,
            _ => Limit::Balance,
        };
        let busy = |limit| stages.iter().find(|stage| stage.limit == limit).map_or(0.0, |stage| stage.busy);
        let workers = |to, speedup| Advice { setting: "num_rollout_workers", from: n_workers, to, speedup };
        let advice = match limit {
            Limit::Environments => {
                let others = busiest(&|stage| stage.limit != Limit::Environments).map_or(0.0, |stage| stage.busy);
                // Until the next stage, or the machine, is always busy.
                let most = (1.0 / others.max(1e-3)).min(self.room());
                let to = ((n_workers as f64 * most).ceil() as usize).min(FARTHEST * n_workers);
                let advice = workers(to, most.min(to as f64 / n_workers as f64));
                (advice.speedup >= WORTH_IT).then_some(advice)
            }
            Limit::Learner => {
                // A tenth more than their work now, so that the learner is not starved.
                let to = ((1.1 * n_workers as f64 * busy(Limit::Environments)).ceil() as usize).max(1);
                (to < n_workers).then(|| workers(to, 1.0))
            }
            _ => None,
        };
        Self { limit, advice, ..self }
    }

    /// The machine's factor of growth, if known.
    fn room(&self) -> f64 {
        self.processors.map_or(f64::INFINITY, Processors::room)
    }

    /// Without threads: sampling and training could run in parallel.
    fn of_one_thread(self) -> Self {
        let available = self.processors.is_none_or(|used| used.available > 1);
        let speedup = (1.0 / self.starved.max(1.0 - self.starved)).min(self.room());
        let advice = Advice { setting: "num_rollout_workers", from: 0, to: 1, speedup };
        Self { limit: Limit::OneThread, advice: (available && speedup >= WORTH_IT).then_some(advice), ..self }
    }

    /// `{"limit", "sentence", "starved", "blocked", "slowest_worker", "processors_busy", "processors",
    /// "advice": {…} or null}`.
    pub(crate) fn to_json(&self) -> Value {
        let advice = self.advice.map(
            |Advice { setting, from, to, speedup }| json!({"setting": setting, "from": from, "to": to, "speedup": speedup}),
        );
        json!({
            "limit": self.limit.key(),
            "sentence": self.to_string(),
            "starved": self.starved,
            "blocked": self.blocked,
            "slowest_worker": self.slowest_worker,
            "processors_busy": self.processors.map(|used| used.busy),
            "processors": self.processors.map(|used| used.available),
            "advice": advice,
        })
    }
}

impl Limit {
    /// Its key in the result dict.
    fn key(self) -> &'static str {
        match self {
            Self::Environments => "environments",
            Self::Inference => "inference",
            Self::Loading => "loading",
            Self::Network => "network",
            Self::Learner => "learner",
            Self::Processors => "processors",
            Self::OneThread => "one_thread",
            Self::AdmissionOrder => "admission_order",
            Self::Balance => "balance",
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let starved = percent(self.starved);
        let blocked = percent(self.blocked.unwrap_or(0.0));
        match self.limit {
            Limit::Environments => write!(f, "learner starved {starved}: environments are the limit"),
            Limit::Inference => write!(f, "learner starved {starved}: the inference thread is the limit"),
            Limit::Network => {
                write!(f, "learner starved {starved}, network: {blocked} of the actors' time: the network is the limit")
            }
            Limit::Loading => write!(f, "learner starved {starved}, workers blocked {blocked}: loading is the limit"),
            Limit::Learner => write!(f, "workers blocked or helping {blocked}: the learner is the limit"),
            Limit::Processors => match self.processors.filter(|used| used.are_busy()) {
                Some(Processors { busy, available }) => {
                    write!(f, "{busy:.1} of {available} processors busy: the machine is the limit")
                }
                None => write!(
                    f,
                    "learner starved {starved} while workers blocked {blocked}: both wait for processors, which other \
                     programs or a quota take: the machine is the limit"
                ),
            },
            Limit::OneThread => write!(f, "one thread does everything, for {starved} of its time it makes data"),
            Limit::AdmissionOrder => {
                write!(
                    f,
                    "learner starved {starved}, workers awaiting their turn {blocked}: the order of admission is the limit; "
                )?;
                match &self.slowest_worker {
                    Some(worker) => write!(f, "{worker} is slower than the others, which no lag makes up for"),
                    None if self.old_data.is_some() => {
                        f.write_str("more fragments in a train batch let them overlap more")
                    }
                    None => f.write_str("a larger lag or more fragments in a train batch let them overlap more"),
                }
            }
            Limit::Balance => {
                write!(f, "learner starved {starved}, workers blocked {blocked}: they are about equally fast")
            }
        }?;
        match self.advice {
            Some(Advice { from: 0, speedup, .. }) => write!(f, "; a worker with its own thread ⇒ about {speedup:.1}×"),
            Some(Advice { from, to, .. }) if to < from => write!(f, "; {to} of {from} workers would do"),
            Some(Advice { from, to, speedup, .. }) => {
                let more = to - from;
                write!(f, "; {more} more worker{} ⇒ about {speedup:.1}×", if more == 1 { "" } else { "s" })
            }
            None => Ok(()),
        }?;
        match self.old_data {
            Some(OldData { effective_sample_size, lag }) => write!(
                f,
                "; effective sample size {effective_sample_size:.2} at lag {lag:.0}: less lag (fewer workers, a shorter \
                 queue), fewer passes or a smaller lr"
            ),
            None => Ok(()),
        }
    }
}

impl OldData {
    /// Data of this lag, if its sample size says that it is too old. Without lag it is the passes over a
    /// batch that make it so.
    pub(crate) fn find(effective_sample_size: Option<f64>, lag: Option<f64>) -> Option<Self> {
        let (effective_sample_size, lag) = (effective_sample_size?, lag.filter(|lag| *lag >= 1.0)?);
        (effective_sample_size < WORTH_LITTLE).then_some(Self { effective_sample_size, lag })
    }
}

/// Time of threads by state, between two readings.
struct Spent<'a>(Vec<Thread<'a>>);

struct Thread<'a> {
    name: &'a str,
    /// Seconds, without start-up.
    wall_secs: f64,
    states: Vec<(&'static str, f64)>,
}

impl<'a> Spent<'a> {
    fn between(now: &'a [ThreadTime], before: &[ThreadTime]) -> Self {
        // A host on another machine reports once a beat, which may be seldomer than there are results. Its
        // time since it joined is then the best there is, unless workers of this machine say more.
        let has_news =
            |time: &ThreadTime, earlier: &ThreadTime| !time.thread.contains('/') || time.wall_secs > earlier.wall_secs;
        let has_local = now.iter().any(|time| !time.thread.contains('/') && is_worker(&time.thread));
        let counts = |time: &&ThreadTime| {
            let known = before.iter().find(|earlier| earlier.thread == time.thread);
            let is_stale = known.is_some_and(|earlier| !has_news(time, earlier));
            !(time.thread.starts_with("left/") || has_local && is_stale)
        };
        let thread = |time: &'a ThreadTime| {
            let earlier = before.iter().find(|earlier| earlier.thread == time.thread).filter(|it| has_news(time, it));
            let wall_secs = time.wall_secs - earlier.map_or(0.0, |earlier| earlier.wall_secs);
            let states: Vec<_> =
                shares(time, earlier).into_iter().map(|(state, share)| (state, share * wall_secs)).collect();
            let starting: f64 = states.iter().filter(|(state, _)| *state == "starting").map(|(_, secs)| secs).sum();
            Thread { name: &time.thread, wall_secs: wall_secs - starting, states }
        };
        Self(now.iter().filter(counts).map(thread).collect())
    }

    /// Total seconds of matching threads in matching states, without start-up.
    fn secs(&self, is_meant: impl Fn(&str) -> bool, is_counted: impl Fn(&str) -> bool) -> f64 {
        let states = self.0.iter().filter(|thread| is_meant(thread.name)).flat_map(|thread| &thread.states);
        states.filter(|(state, _)| *state != "starting" && is_counted(state)).map(|(_, secs)| secs).sum()
    }

    /// The worker that hardly ever awaits its turn, if others do much more often.
    fn slowest_worker(&self) -> Option<String> {
        let awaiting = |thread: &Thread<'_>| {
            let secs: f64 = thread.states.iter().filter(|(state, _)| *state == "awaiting").map(|(_, secs)| secs).sum();
            secs / thread.wall_secs.max(f64::MIN_POSITIVE)
        };
        let workers = || self.0.iter().filter(|thread| is_worker(thread.name)).map(|thread| (awaiting(thread), thread));
        let slowest = workers().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let longest = workers().map(|(share, _)| share).max_by(f64::total_cmp)?;
        (slowest.0 < WAITS && longest > 2.0 * WAITS).then(|| slowest.1.name.to_owned())
    }

    /// The share of time of matching threads in these states; `None` without any time.
    fn share(&self, is_meant: impl Fn(&str) -> bool, states: &[&str]) -> Option<f64> {
        let (mut wall_secs, mut secs) = (0.0, 0.0);
        for thread in self.0.iter().filter(|thread| is_meant(thread.name)) {
            wall_secs += thread.wall_secs;
            secs += thread.states.iter().filter(|(state, _)| states.contains(state)).map(|(_, secs)| secs).sum::<f64>();
        }
        (wall_secs > 0.0).then(|| (secs / wall_secs).clamp(0.0, 1.0))
    }
}

fn is_learner(thread: &str) -> bool {
    thread == "learner"
}

/// Whether it is the shared inference thread.
fn is_inference(thread: &str) -> bool {
    thread == InferenceThread::NAME
}

/// Whether it is the couriers of a host on another machine.
fn is_courier(thread: &str) -> bool {
    thread.ends_with("/courier")
}

/// Whether it is a worker, such as `rollout-3`, and not a thread of its environments; or all workers of a
/// host, such as `host-a/rollout`.
fn is_worker(thread: &str) -> bool {
    if thread.ends_with("/rollout") {
        return true;
    }
    thread.strip_prefix("rollout-").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
