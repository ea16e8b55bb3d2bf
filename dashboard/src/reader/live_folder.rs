//! What the folder of the run of this process says beside its results.

use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::passes::TICK;
use crate::board::Board;
use crate::folder::{Stamp, read_small, run_info};
use crate::settings::{Settings, from_toml};
use crate::videos::{FOLDER as VIDEOS, videos};

/// The folder of the run of this process.
pub(super) struct LiveFolder {
    folder: PathBuf,
    /// The id of the run.
    id: String,
    board: Arc<Board>,
    /// Whether the settings that are shown are those of the folder.
    has_set: bool,
    seen: [Stamp; 3],
}

impl LiveFolder {
    pub(super) fn new(folder: PathBuf, id: String, board: Arc<Board>) -> Self {
        Self { folder, id, board, has_set: false, seen: [Stamp::default(); 3] }
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
        let [info, config, films] = ["run.json", "config.toml", VIDEOS].map(|name| Stamp::of(&self.folder.join(name)));
        let before = std::mem::replace(&mut self.seen, [info, config, films]);
        if before == self.seen {
            return;
        }
        let info = run_info(&self.folder).map(|(info, _)| info).unwrap_or_default();
        let text = read_small(&self.folder.join("config.toml")).ok();
        let settings = text.and_then(|text| from_toml(&text).ok());
        let films = videos(&self.folder);
        let has_set = &mut self.has_set;
        self.board.edit(|edit| {
            edit.change(&self.id, |summary, details| {
                if let Some(began) = info["began"].as_u64() {
                    summary.began = Some(began);
                }
                // Those that the program gave come first.
                if let Some(settings) = settings
                    && (*has_set || details.settings.is_null())
                {
                    *has_set = true;
                    *summary = summary.clone().with_settings(&Settings::of(&settings));
                    details.settings = Arc::new(settings);
                }
                details.info = Arc::new(info);
                details.videos = Arc::new(films);
            });
        });
    }
}
