//! What the folder of the run of this process says besides its results.

use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use serde_json::Value;

use super::passes::TICK;
use crate::board::Board;
use crate::folder::{Place, Stamp, began, run_info};
use crate::settings::{Settings, from_toml};
use crate::videos::{FOLDER as VIDEOS, videos};

/// The folder of the run of this process.
pub(super) struct LiveFolder {
    place: Place,
    /// The id of the run.
    id: String,
    board: Arc<Board>,
    /// The settings of the folder that were shown last.
    settings: Option<Arc<Value>>,
    seen: [Stamp; 3],
}

impl LiveFolder {
    pub(super) fn new(place: Place, id: String, board: Arc<Board>) -> Self {
        Self { place, id, board, settings: None, seen: [Stamp::default(); 3] }
    }

    /// Looks until the channel is closed.
    pub(super) fn run(mut self, woken: &Receiver<()>) {
        loop {
            self.look();
            if woken.recv_timeout(TICK) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn look(&mut self) {
        let seen = ["run.json", "config.toml", VIDEOS].map(|name| self.place.stamp(name));
        if std::mem::replace(&mut self.seen, seen) == seen {
            return;
        }
        let info = run_info(&self.place).map(|(info, _)| info).unwrap_or_default();
        let text = self.place.text("config.toml").ok();
        let settings = text.and_then(|text| from_toml(&text).ok()).map(Arc::new);
        let videos = videos(&self.place);
        let own = &mut self.settings;
        self.board.edit(|edit| {
            edit.change(&self.id, |summary, details| {
                summary.began = began(&info).or(summary.began);
                let is_own = own.as_ref().is_some_and(|own| Arc::ptr_eq(own, &details.settings));
                // Those that the program gave come first, whenever it gave them.
                if let Some(settings) = settings
                    && (is_own || details.settings.is_null())
                {
                    summary.settings = Settings::of(&settings);
                    details.settings = Arc::clone(&settings);
                    *own = Some(settings);
                }
                details.info = Arc::new(info);
                details.videos = Arc::new(videos);
            });
        });
    }
}
