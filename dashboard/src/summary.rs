//! [`Summary`]: a run in the list.

use pronk::RunState;
use serde::{Serialize, Serializer};

use crate::figures::Figures;
use crate::settings::Settings;

/// A run in the list, as the answers have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) folder: Option<String>,
    pub(crate) env: Option<String>,
    pub(crate) algorithm: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub(crate) seed: Option<u64>,
    pub(crate) state: RunState,
    /// Seconds since 1970.
    pub(crate) began: Option<u64>,
    /// As text, because JavaScript rounds integers above 2^53.
    #[serde(serialize_with = "as_text")]
    pub(crate) env_steps: Option<u64>,
    pub(crate) episode_return: Option<f64>,
    pub(crate) best_evaluation: Option<f64>,
    pub(crate) wall_secs: Option<f64>,
    pub(crate) env_steps_per_s: Option<f64>,
    pub(crate) results: Option<u64>,
    pub(crate) group: Option<String>,
    /// The id of its sweep.
    pub(crate) sweep: Option<String>,
    pub(crate) error: Option<String>,
}

impl Summary {
    /// A run of which nothing else is known.
    pub(crate) fn new(id: &str, name: &str, state: RunState) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            folder: None,
            env: None,
            algorithm: None,
            seed: None,
            state,
            began: None,
            env_steps: None,
            episode_return: None,
            best_evaluation: None,
            wall_secs: None,
            env_steps_per_s: None,
            results: None,
            group: None,
            sweep: None,
            error: None,
        }
    }

    pub(crate) fn with_settings(self, settings: &Settings) -> Self {
        let Settings { env, algorithm, seed, group } = settings.clone();
        Self { env, algorithm, seed, group, ..self }
    }

    pub(crate) fn with_figures(self, figures: &Figures) -> Self {
        Self {
            env_steps: figures.env_steps,
            episode_return: figures.episode_return,
            best_evaluation: figures.best_evaluation,
            wall_secs: figures.wall_secs,
            env_steps_per_s: figures.env_steps_per_s,
            results: figures.results,
            error: figures.failure.clone().or(self.error),
            ..self
        }
    }
}

fn as_text<S: Serializer>(count: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match count {
        Some(count) => serializer.collect_str(count),
        None => serializer.serialize_none(),
    }
}
