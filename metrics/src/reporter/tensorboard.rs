//! Results as TensorBoard's scalars, histograms and texts.

mod event;
mod histogram;
mod record;
mod tags;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use indexmap::IndexMap;
use prost::Message;
use serde_json::Value;

use self::event::{Event, SessionLog, Summary, TaggedValue};
use self::histogram::Histogram;
use self::record::record;
use self::tags::tag_of;
use super::file::ReportFile;
use super::{FileMark, ReportError, Reporter};
use crate::result::ResultDict;

/// An event file for TensorBoard, with curves, histograms and texts of all results, each written at once.
///
/// The step of an event is `num_env_steps_sampled`, or else `training_iteration`.
///
/// # What is shown
/// Numbers and booleans are curves. Lists of numbers are histograms, and so are objects `{"edges": [...],
/// "counts": [...]}` with one edge more than counts, or as many if the last bucket has no upper bound. Texts
/// and lists of texts are written when they change; null is left out.
///
/// The tag of a leaf is its path joined with `/`, except for these customary names:
///
/// | tag | leaf |
/// |---|---|
/// | `rollout/ep_rew_mean`, `ep_rew_min`, `ep_rew_max` | `episode_reward_mean`, `_min`, `_max` |
/// | `rollout/ep_len_mean` | `episode_len_mean` |
/// | `rollout/episodes_this_iter` | `episodes_this_iter` |
/// | `rollout/ep_rew`, `rollout/ep_len` (histograms) | `hist_stats.episode_reward`, `hist_stats.episode_lengths` |
/// | `time/iterations` | `training_iteration` |
/// | `time/time_elapsed`, `time/time_this_iter` (seconds) | `time_total_s`, `time_this_iter_s` |
/// | `time/total_timesteps` | `num_env_steps_sampled` |
/// | `time/fps`: of the iteration | `throughput.env_steps_per_s` |
/// | `time/fps_since_start` | `throughput.env_steps_per_s_since_start` |
/// | `time/updates_per_s` | `throughput.updates_per_s` |
/// | `time/progress` | `progress` |
/// | `train/<stat>` | `info.learner.default_policy.learner_stats.<stat>` |
/// | `train/<policy>/<stat>` | `info.learner.<policy>.learner_stats.<stat>` |
///
/// Of figures under several keys one is shown, and the others are left out:
///
/// | shown | left out |
/// |---|---|
/// | the leaf at the top level | the same leaf below `sampler_results` |
/// | `episode_reward_mean` | `episode_return_mean` |
/// | `num_{env,agent}_steps_{sampled,trained,trained_once}` | the same below `counters`, `info` and `ledger.steps` |
/// | `counters.num_<name>` of any other name | `info.num_<name>` |
/// | `num_env_steps_sampled`, `num_agent_steps_sampled` | `timesteps_total`, `agent_timesteps_total` |
/// | `num_env_steps_trained_this_iter` | `num_steps_trained_this_iter` |
/// | `workers.healthy` | `num_healthy_workers`, `num_in_flight_async_reqs` |
/// | `workers.restarts` | `num_remote_worker_restarts` |
/// | `learner_health.batches_quarantined` | `num_batches_quarantined` below `counters` and `info` |
///
/// `info.learner_queue.size_quantiles` and `ledger.time`, whose shares are in `ledger.time_this_iter`, are
/// left out too.
///
/// ```
/// use pronk_metrics::{Reporter, ResultDict, TensorBoard};
///
/// let folder = tempfile::tempdir()?;
/// let mut events = TensorBoard::create(folder.path())?.with_text("settings", "`lr = 0.0006`")?;
/// let mut result = ResultDict::new();
/// result.set("num_env_steps_sampled", 412_000);
/// result.set("episode_reward_mean", 187.25);
/// events.report(&result)?;
/// assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TensorBoard {
    file: ReportFile,
    /// The texts of the newest result, by tag.
    texts: BTreeMap<String, String>,
}

impl TensorBoard {
    /// Makes an event file `events.out.tfevents.<seconds>.<host>.<process>.<number>` in `folder`, which it
    /// makes if it is missing. TensorBoard shows all event files of a folder as one run: give each run its
    /// own. Errors name the path.
    pub fn create(folder: impl Into<PathBuf>) -> Result<TensorBoard, ReportError> {
        // Two reporters of a process within one second must not share a file.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let secs = since_1970().as_secs();
        let name = format!("events.out.tfevents.{secs}.{}.{}.{number}", host(), process::id());
        TensorBoard::begin(ReportFile::create(NAME, folder.into().join(name))?)
    }

    /// Cuts the event file `path` off after its first `bytes`, which a [mark](Reporter::mark) said, and
    /// moves what follows to the file that `tail` names. Then makes another event file beside it, which
    /// begins with the start of a session at `step`: TensorBoard forgets later steps that it has read
    /// already. Errors name the path.
    pub fn resume(
        path: impl Into<PathBuf>,
        bytes: u64,
        tail: impl FnOnce() -> PathBuf,
        step: i64,
    ) -> Result<TensorBoard, ReportError> {
        let path = path.into();
        drop(ReportFile::resume(NAME, &path, bytes, tail)?);
        let mut resumed = TensorBoard::create(path.parent().unwrap_or(Path::new(".")))?;
        let session = Some(SessionLog { status: SessionLog::START });
        let start = Event { wall_time: now_secs(), step, session, ..Event::default() };
        resumed.file.append(&record(&start.encode_to_vec()))?;
        Ok(resumed)
    }

    /// Adds a text beside the results, such as the settings of the run, in Markdown. Errors name the path.
    pub fn with_text(mut self, tag: &str, text: &str) -> Result<TensorBoard, ReportError> {
        self.write(0, vec![TaggedValue::text(tag.to_owned(), text)])?;
        Ok(self)
    }

    fn begin(mut file: ReportFile) -> Result<TensorBoard, ReportError> {
        let first = Event { wall_time: now_secs(), file_version: Some("brain.Event:2".to_owned()), ..Event::default() };
        file.append(&record(&first.encode_to_vec()))?;
        Ok(TensorBoard { file, texts: BTreeMap::new() })
    }

    fn write(&mut self, step: i64, values: Vec<TaggedValue>) -> Result<(), ReportError> {
        let event = Event { wall_time: now_secs(), step, summary: Some(Summary { values }), ..Event::default() };
        self.file.append(&record(&event.encode_to_vec()))
    }
}

impl Reporter for TensorBoard {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let leaves: IndexMap<String, &Value> =
            result.leaves().into_iter().map(|(keys, leaf)| (keys.join("/"), leaf)).collect();
        let mut values = Vec::new();
        let mut texts = BTreeMap::new();
        for (path, leaf) in &leaves {
            let Some(tag) = tag_of(path, &leaves) else { continue };
            if let Some(text) = text_of(leaf) {
                if self.texts.get(&tag) != Some(&text) {
                    values.push(TaggedValue::text(tag.clone(), &text));
                }
                texts.insert(tag, text);
            } else {
                values.extend(drawn(tag, leaf, path, &leaves));
            }
        }
        if !values.is_empty() {
            self.write(step_of(result), values)?;
        }
        // Only now, so that a failed text is written next time.
        self.texts = texts;
        Ok(())
    }

    /// A record that fails leaves the file as it was.
    fn goes_on(&self) -> bool {
        true
    }

    fn mark(&self) -> Option<FileMark> {
        self.file.mark()
    }
}

const NAME: &str = "tensorboard";

/// TensorBoard's value of the leaf at `path`: a point of a curve, a histogram, or none.
fn drawn(tag: String, leaf: &Value, path: &str, leaves: &IndexMap<String, &Value>) -> Option<TaggedValue> {
    let items = match leaf {
        Value::Number(number) => return Some(TaggedValue::scalar(tag, number.as_f64()?)),
        Value::Bool(is_true) => return Some(TaggedValue::scalar(tag, f64::from(*is_true))),
        Value::Array(items) => numbers(items)?,
        Value::Null | Value::String(_) | Value::Object(_) => return None,
    };
    // The list that makes a histogram with this one.
    let beside = |own: &str, other: &str| {
        let name = format!("{}{other}", path.strip_suffix(own)?);
        numbers(leaves.get(&name)?.as_array()?)
    };
    if let Some(edges) = beside("/counts", "/edges") {
        let tag = tag.strip_suffix("/counts").unwrap_or(&tag).to_owned();
        return Some(TaggedValue::histogram(tag, Histogram::of_buckets(&edges, &items)?));
    }
    if beside("/edges", "/counts").is_some() {
        return None;
    }
    Some(TaggedValue::histogram(tag, Histogram::of_values(&items)?))
}

/// The items of a list of numbers and nulls, which are NaN.
fn numbers(items: &[Value]) -> Option<Vec<f64>> {
    items.iter().map(|item| if item.is_null() { Some(f64::NAN) } else { item.as_f64() }).collect()
}

/// A text, or a list of texts as a Markdown list.
fn text_of(leaf: &Value) -> Option<String> {
    match leaf {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if !items.is_empty() => {
            let lines: Option<Vec<_>> = items.iter().map(|item| Some(format!("- {}", item.as_str()?))).collect();
            Some(lines?.join("\n"))
        }
        _ => None,
    }
}

fn step_of(result: &ResultDict) -> i64 {
    let whole = |path: &str| {
        let step = result.get(path)?;
        // The cast saturates.
        step.as_i64().or_else(|| Some(step.as_f64()? as i64))
    };
    whole("num_env_steps_sampled").or_else(|| whole("training_iteration")).unwrap_or(0)
}

fn now_secs() -> f64 {
    since_1970().as_secs_f64()
}

// TensorBoard needs wall time; where the clock jumps, its time axis does.
#[allow(clippy::disallowed_methods)]
fn since_1970() -> Duration {
    // A clock before 1970 is wrong; its events count as of 1970.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The host name, from the system's file, without separators of names and paths.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_plain = |sign: &char| sign.is_ascii_alphanumeric() || *sign == '-';
    let name: String = name.trim().chars().filter(is_plain).collect();
    if name.is_empty() { "pronk".to_owned() } else { name }
}
