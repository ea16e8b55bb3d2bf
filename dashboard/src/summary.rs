//! [`Summary`]: a run in the list.

use pronk::RunState;
use serde::Serialize;

use crate::figures::Figures;
use crate::settings::Settings;

/// A run in the list, as the answers have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) folder: Option<String>,
    #[serde(flatten)]
    pub(crate) settings: Settings,
    pub(crate) state: RunState,
    /// Seconds since 1970.
    pub(crate) began: Option<u64>,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// The id of its sweep.
    pub(crate) sweep: Option<String>,
    pub(crate) error: Option<String>,
}

impl Summary {
    /// A run of which nothing else is known.
    pub(crate) fn new(id: &str, name: &str, state: RunState) -> Self {
        let (settings, figures) = (Settings::default(), Figures::default());
        let (id, name) = (id.to_owned(), name.to_owned());
        Self { id, name, folder: None, settings, state, began: None, figures, sweep: None, error: None }
    }

    /// Takes the figures of a newer result, and its error if it has one.
    pub(crate) fn put_figures(&mut self, figures: Figures) {
        self.error = figures.failure.clone().or(self.error.take());
        self.figures = figures;
    }
}
