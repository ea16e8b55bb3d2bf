//! The thread that reads folders, so that no request waits for a disk.

mod live_folder;
mod passes;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use pronk::metrics::catch;

use crate::board::Board;
use crate::error::DashboardError;
use crate::folder::Place;
use live_folder::LiveFolder;
use passes::Passes;

const THREAD: &str = "dashboard-reader";

/// How long a drop waits for the thread. A disk that does not answer must not hold a run.
const PATIENCE: Duration = Duration::from_secs(2);

/// The thread that reads folders; it ends when this and all its [`Wake`]s are dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    wake: Option<Wake>,
    ended: Receiver<()>,
}

/// Wakes the thread, because a run was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wake(Sender<()>);

impl Wake {
    pub(crate) fn wake(&self) {
        // If it is full, the thread will look anyway.
        let _ = self.0.try_send(());
    }
}

impl Reader {
    /// Puts the runs in folders on the board.
    pub(crate) fn of_folders(folders: Vec<PathBuf>, board: Arc<Board>) -> Result<Self, DashboardError> {
        Self::start(Arc::clone(&board), move |woken| Passes::new(folders, board, woken).run())
    }

    /// Adds what the folder of the run `id` says to that run, which is on the board.
    pub(crate) fn of_live_run(folder: Place, id: String, board: Arc<Board>) -> Result<Self, DashboardError> {
        Self::start(Arc::clone(&board), move |woken| LiveFolder::new(folder, id, board).run(&woken))
    }

    pub(crate) fn wake(&self) -> Option<Wake> {
        self.wake.clone()
    }

    /// Starts a thread that reads. If it panics, the board says so.
    fn start(board: Arc<Board>, read: impl FnOnce(Receiver<()>) + Send + 'static) -> Result<Self, DashboardError> {
        let (wake, woken) = bounded(1);
        let (ends, ended) = bounded::<()>(0);
        let work = move || {
            // Dropped as the thread ends.
            let _ends = ends;
            if let Err(panic) = catch(|| read(woken)) {
                tracing::error!("the thread `{THREAD}` panicked: {panic}");
                board.edit(|edit| {
                    edit.add_problem(format!(
                        "folders are not read any more, so this page stands still: the thread `{THREAD}` panicked \
                         ({panic}); start the program again, and report this as a bug"
                    ));
                    // Questions for runs that are not there would wait for a search.
                    edit.complete();
                });
            }
        };
        let refused = |source: io::Error| DashboardError::Thread { what: "thread that reads folders", source };
        thread::Builder::new().name(THREAD.to_owned()).spawn(work).map_err(refused)?;
        Ok(Self { wake: Some(Wake(wake)), ended })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.wake = None;
        if self.ended.recv_timeout(PATIENCE) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
            tracing::warn!("the thread `{THREAD}` still reads a folder, and is not waited for");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_thread_is_among_the_problems() {
        let board = Arc::new(Board::new(Vec::new()));
        let reader = Reader::start(Arc::clone(&board), |_| panic!("no such luck")).unwrap();
        let ended = reader.ended.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(crossbeam_channel::RecvTimeoutError::Disconnected));
        let list = board.list();
        assert!(matches!(&*list.problems, [problem] if problem.contains("no such luck")), "{:?}", list.problems);
        assert!(board.is_complete());
    }
}
