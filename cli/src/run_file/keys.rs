//! [`Keys`]: which settings there are.

use pronk::{AppoConfig, ImpalaConfig, PpoConfig, TrainerConfig};
use serde_json::{Map, Value, json};

use super::tables::{EnvOptions, Log, MultiAgent, Stop};

/// The names of the algorithms.
pub(super) const ALGORITHMS: [&str; 3] = ["impala", "appo", "ppo"];

/// Tables whose keys may also stand at the top of a file, as in RLlib.
const GROUPS: [&str; 4] = ["workers", "learner", "supervision", "results"];

/// What Stable-Baselines3 and others call settings.
pub(super) const ELSEWHERE: [(&str, &str); 12] = [
    ("batch_size", "learner.sgd_minibatch_size"),
    ("clip_range", "algorithm.ppo.clip_param"),
    ("ent_coef", "algorithm.ppo.entropy_coeff"),
    ("gae_lambda", "algorithm.ppo.lambda"),
    ("learning_rate", "learner.lr"),
    ("max_grad_norm", "learner.grad_clip"),
    ("n_envs", "workers.num_envs_per_worker"),
    ("n_epochs", "learner.num_sgd_iter"),
    ("n_steps", "workers.rollout_fragment_length"),
    ("num_workers", "workers.num_rollout_workers"),
    ("total_timesteps", "stop.env_steps"),
    ("vf_coef", "algorithm.ppo.vf_loss_coeff"),
];

/// The settings that there are, as a tree of their defaults.
pub(crate) struct Keys(Value);

/// What a path names.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// A setting, by its full path; its value may have keys of its own.
    Setting(Vec<String>),
    /// A table of settings.
    Table(Vec<String>),
    /// Nothing; the path of the setting with the most similar name, if one is similar.
    Nothing { nearest: Option<String> },
}

impl Keys {
    pub(crate) fn new() -> Self {
        let mut keys = json!({
            "env": "",
            "env_options": EnvOptions::default(),
            "multi_agent": MultiAgent::default(),
            "stop": Stop::default(),
            "log": Log::default(),
        });
        if let (Value::Object(keys), Ok(Value::Object(config))) =
            (&mut keys, serde_json::to_value(TrainerConfig::default()))
        {
            keys.extend(config);
        }
        keys["algorithm"] = json!({
            "impala": ImpalaConfig::default(),
            "appo": AppoConfig::default(),
            "ppo": PpoConfig::default(),
        });
        Self(keys)
    }

    /// What the path names. A key of a group may stand without the group.
    pub(super) fn find(&self, path: &[String]) -> Found {
        match self.walk(path) {
            Some((depth, value)) if is_table(value) && depth == path.len() => Found::Table(path.to_owned()),
            Some((_, value)) if !is_table(value) => Found::Setting(path.to_owned()),
            _ => match self.group_of(&path[0]) {
                Some(group) => Found::Setting([&[group.to_owned()], path].concat()),
                None => Found::Nothing { nearest: self.nearest(path) },
            },
        }
    }

    /// What a flag names: also `algorithm.KEY` for a setting of the algorithm or of a group, as in RLlib all
    /// settings are an algorithm's.
    pub(super) fn find_for_flag(&self, path: &[String], algorithm: &str) -> Found {
        match path {
            [first] if first == "algorithm" => Found::Setting(path.to_owned()),
            [first, key, rest @ ..] if first == "algorithm" && !ALGORITHMS.contains(&key.as_str()) => {
                let is_its_own = self.0["algorithm"][algorithm].get(key).is_some();
                match self.group_of(key) {
                    _ if is_its_own => {
                        Found::Setting([&[first.clone(), algorithm.to_owned(), key.clone()], rest].concat())
                    }
                    Some(group) => Found::Setting([&[group.to_owned(), key.clone()], rest].concat()),
                    None => Found::Nothing { nearest: self.nearest(path) },
                }
            }
            path => self.find(path),
        }
    }

    /// How far the path leads, and to what: to its end, or to a setting before it.
    fn walk(&self, path: &[String]) -> Option<(usize, &Value)> {
        let mut place = &self.0;
        for (depth, key) in path.iter().enumerate() {
            match place.get(key) {
                Some(below) if is_table(below) => place = below,
                Some(setting) => return Some((depth + 1, setting)),
                None => return None,
            }
        }
        Some((path.len(), place))
    }

    fn group_of(&self, key: &str) -> Option<&'static str> {
        GROUPS.into_iter().find(|group| self.0[group].get(key).is_some())
    }

    /// The setting that other libraries call so, or whose last key, or whole path, is spelled most like this
    /// one.
    fn nearest(&self, path: &[String]) -> Option<String> {
        let elsewhere = |key: &String| ELSEWHERE.into_iter().find(|(name, _)| name == key);
        if let Some((_, setting)) = path.last().and_then(elsewhere) {
            return Some(setting.to_owned());
        }
        let mut all = Vec::new();
        collect(&self.0, &mut Vec::new(), &mut all);
        let (given, last) = (path.join("."), path.last()?);
        let likeness = |known: &Vec<String>| {
            let by_last = known.last().map_or(0.0, |known| strsim::jaro_winkler(last, known));
            // Of two keys with one name, the one at the more similar place.
            by_last + strsim::jaro_winkler(&given, &known.join(".")) / 100.0
        };
        let best = all.iter().map(|known| (likeness(known), known)).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 > 0.8).then(|| best.1.join("."))
    }
}

/// Whether its keys are settings. Without keys it is itself a setting, whose keys are the user's own.
fn is_table(value: &Value) -> bool {
    value.as_object().is_some_and(|keys: &Map<_, _>| !keys.is_empty())
}

fn collect(place: &Value, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    for (key, below) in place.as_object().into_iter().flatten() {
        path.push(key.clone());
        if is_table(below) {
            collect(below, path, all);
        } else {
            all.push(path.clone());
        }
        path.pop();
    }
}
