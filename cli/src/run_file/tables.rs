//! The tables of a file that are not the trainer's.

use std::path::PathBuf;
use std::time::Duration;

use pronk::env_process::Wrapper;
use pronk::{Every, StopWhen};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::arguments::variables;
use crate::messages::Severity;

/// What environments in other processes are made with; native ones have no options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EnvOptions {
    /// The interpreter.
    pub(crate) python: PathBuf,
    /// Environments per process; `None` for all of a worker. Not of `pettingzoo:…`, where each has its own.
    pub(crate) envs_per_process: Option<usize>,
    /// Arguments of the environment's constructor.
    pub(crate) kwargs: Map<String, Value>,
    /// Replaces the environment's own step limit; not of `atari:…`.
    pub(crate) max_episode_steps: Option<u32>,
    /// Whether infos, or of `pettingzoo:…` observations, have an `action_mask`; not of `atari:…`.
    pub(crate) action_mask: bool,
    /// Whether images with their channels last are turned to channels first; `None` for yes, but as it was
    /// for a policy that exists. Not of `atari:…`.
    pub(crate) channels_first: Option<bool>,
    /// Clips the rewards that are learned from to ± this; not of `pettingzoo:…`.
    pub(crate) clip_rewards: Option<f32>,
    /// Wrappers, innermost first; not of `atari:…`.
    pub(crate) wrappers: Vec<WrapperOf>,
    /// How long making an environment may take; `None` for the default.
    pub(crate) start_timeout: Option<Timeout>,
    /// How long a step, or a reset, of an environment may take; `None` for the default.
    pub(crate) step_timeout: Option<Timeout>,
    /// How long a process may take to close its environments; `None` for the default.
    pub(crate) close_timeout: Option<Timeout>,
}

/// A wrapper by its name, `"module:name"`, or with arguments, `{ name = "module:name", kwargs = { … } }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "GivenWrapper")]
pub(crate) struct WrapperOf {
    name: String,
    kwargs: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected \"module:name\", or { name = \"module:name\", kwargs = { … } }")]
enum GivenWrapper {
    Name(String),
    WithArguments(NamedWrapper),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedWrapper {
    name: String,
    #[serde(default)]
    kwargs: Map<String, Value>,
}

impl From<GivenWrapper> for WrapperOf {
    fn from(given: GivenWrapper) -> Self {
        match given {
            GivenWrapper::Name(name) => Self { name, kwargs: Map::new() },
            GivenWrapper::WithArguments(NamedWrapper { name, kwargs }) => Self { name, kwargs },
        }
    }
}

impl From<WrapperOf> for Wrapper {
    fn from(WrapperOf { name, kwargs }: WrapperOf) -> Self {
        Self { kwargs, ..Self::new(name) }
    }
}

/// A time that something may take: a number of seconds, or a text such as "5 min".
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "GivenTime", into = "f64")]
pub(crate) struct Timeout(pub(crate) Duration);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected seconds, such as 90, or a time, such as \"5 min\"")]
enum GivenTime {
    Secs(f64),
    Text(String),
}

impl TryFrom<GivenTime> for Timeout {
    type Error = &'static str;

    fn try_from(given: GivenTime) -> Result<Self, Self::Error> {
        let time = match given {
            GivenTime::Secs(secs) => Duration::try_from_secs_f64(secs).ok(),
            GivenTime::Text(text) => text.parse().ok().and_then(as_time),
        };
        time.filter(|time| !time.is_zero()).map(Self).ok_or("needs seconds, such as 90, or a time, such as \"5 min\"")
    }
}

impl From<Timeout> for f64 {
    fn from(Timeout(time): Timeout) -> Self {
        time.as_secs_f64()
    }
}

impl Default for EnvOptions {
    fn default() -> Self {
        Self {
            python: "python3".into(),
            envs_per_process: None,
            kwargs: Map::new(),
            max_episode_steps: None,
            action_mask: false,
            channels_first: None,
            clip_rewards: None,
            wrappers: Vec::new(),
            start_timeout: None,
            step_timeout: None,
            close_timeout: None,
        }
    }
}

impl EnvOptions {
    /// The environment variables that arguments come from, those of wrappers included.
    pub(crate) fn variables(&self) -> Vec<&str> {
        let of_wrappers = self.wrappers.iter().map(|wrapper| &wrapper.kwargs);
        std::iter::once(&self.kwargs).chain(of_wrappers).flat_map(variables).collect()
    }

    /// Makes the path of an interpreter absolute, so that the settings of the run can be used in any folder.
    /// A mere name is looked up in `PATH`. Links stay: they make a virtual environment.
    pub(crate) fn find_python_from_anywhere(&mut self) {
        if self.python.components().count() > 1
            && let Ok(absolute) = std::path::absolute(&self.python)
        {
            self.python = absolute;
        }
    }
}

/// Several agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MultiAgent {
    /// Whether they share one policy.
    pub(crate) policies: Policies,
}

/// The policies of several agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policies {
    /// One that all agents use, called `team`.
    #[default]
    Shared,
    /// One for each agent, called as the agent is.
    Separate,
}

/// The limits of a run, which ends at the first one reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stop {
    /// Mean return to reach.
    pub(crate) episode_return_mean: Option<f64>,
    /// Env-steps to sample, such as `8_000_000` or "8M".
    #[serde(deserialize_with = "limit")]
    pub(crate) env_steps: Option<u64>,
    /// Wall-clock time, such as "30 min".
    #[serde(deserialize_with = "time")]
    pub(crate) time: Option<Every>,
    /// Number of iterations.
    pub(crate) iterations: Option<u64>,
}

/// What is logged beside the files of every run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// Whether the terminal shows each result.
    pub(crate) console: bool,
    /// Whether `timeline.json`, for <https://ui.perfetto.dev>, has every span of every thread.
    pub(crate) timeline: bool,
    /// Whether the folder `videos` has one of each evaluation.
    pub(crate) videos: bool,
    /// The address to serve Prometheus metrics at.
    pub(crate) prometheus: Option<String>,
    /// The least severe messages in `log.txt`.
    pub(crate) level: Severity,
}

impl Default for Log {
    fn default() -> Self {
        Self { console: true, timeline: false, videos: true, prometheus: None, level: Severity::default() }
    }
}

impl Stop {
    pub(crate) fn when(&self) -> StopWhen {
        StopWhen {
            episode_return_mean: self.episode_return_mean,
            env_steps: self.env_steps,
            time: self.time.and_then(as_time),
            iterations: self.iterations,
            ..StopWhen::default()
        }
    }
}

fn as_time(every: Every) -> Option<Duration> {
    match every {
        Every::Time(time) => Some(time),
        Every::EnvSteps(_) => None,
    }
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Limit(#[serde(deserialize_with = "env_steps")] u64);
    Ok(Option::<Limit>::deserialize(deserializer)?.map(|Limit(steps)| steps))
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Every>, D::Error> {
    let every = Option::<Every>::deserialize(deserializer)?;
    match every {
        Some(every @ Every::EnvSteps(_)) => Err(de::Error::custom(format!(
            "'{every}' is not a duration: write for example \"30 min\", or set `env_steps`"
        ))),
        every => Ok(every),
    }
}

/// A number of env-steps, such as `20000` or `"20k"`.
pub(crate) fn env_steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of env-steps, such as 20000 or \"20k\"")]
    enum EnvSteps {
        Number(u64),
        Text(String),
    }
    let steps = match EnvSteps::deserialize(deserializer)? {
        EnvSteps::Number(number) => Some(number),
        EnvSteps::Text(text) => match format!("{} env-steps", text.trim_end_matches("env-steps").trim()).parse() {
            Ok(Every::EnvSteps(steps)) => Some(steps),
            _ => None,
        },
    };
    steps
        .filter(|&steps| steps > 0)
        .ok_or_else(|| de::Error::custom("needs a number of env-steps, such as 20000 or \"20k\""))
}
