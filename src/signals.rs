//! Ctrl-C ends runs and worker groups cleanly: each listener is called once, on a thread of its own.

use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pronk_buffer::{Bell, Fold, Mailbox, mailbox};

type Action = Box<dyn FnOnce() + Send>;

/// Calls `action` at the first Ctrl-C from now on, once, on a thread of its own; until what is returned is dropped.
///
/// Runs listen by themselves. This is for what runs beside them, such as [`WorkerGroups`](crate::WorkerGroups).
///
/// A second Ctrl-C, or one while nobody listens, ends the process with status 130 as it would without pronk: once a
/// process has a handler, the system's own is gone, so somebody has to do this.
///
/// # Errors
/// When the system refuses the handler or its thread.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use pronk::{WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// let mut groups = WorkerGroups::new();
/// groups.add(WorkerGroup::new(WorkerGroupConfig::default(), |worker| {
///     worker.sleep(Duration::from_secs(1));
///     Ok(())
/// }));
/// let stopper = groups.stopper();
/// let _listening = pronk::on_ctrl_c(move || stopper.stop())?;
/// groups.start()?;
/// # groups.stopper().stop();
/// groups.wait(Duration::MAX); // until Ctrl-C
/// assert!(groups.stop(Duration::from_secs(5)).is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn on_ctrl_c(action: impl FnOnce() + Send + 'static) -> io::Result<CtrlC> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = HANDLER.get_or_init(|| install().map_err(|error| error.to_string()));
    if let Err(reason) = installed {
        return Err(io::Error::other(format!("no Ctrl-C handler: {reason}")));
    }
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    listeners().push(Listener { id, action: Some(Box::new(action)) });
    Ok(CtrlC { id })
}

/// Listens to Ctrl-C until it is dropped: what [`on_ctrl_c`] returns.
///
/// ```
/// let listening = pronk::on_ctrl_c(|| println!("interrupted"))?;
/// drop(listening); // from here on Ctrl-C ends the process
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nobody listens any more once this is dropped"]
pub struct CtrlC {
    id: u64,
}

impl Drop for CtrlC {
    fn drop(&mut self) {
        // Taken out first: what the action holds is dropped outside the lock.
        let mine = {
            let mut listeners = listeners();
            let at = listeners.iter().position(|listener| listener.id == self.id);
            at.map(|at| listeners.remove(at))
        };
        drop(mine);
    }
}

/// Somebody pressed Ctrl-C.
struct Interrupt;

impl Fold for Interrupt {
    fn fold(&mut self, _later: Self) {}
}

/// What a run hears of Ctrl-C; it stops listening when this is dropped.
pub(crate) struct Interrupts {
    mailbox: Mailbox<Interrupt>,
    _listening: CtrlC,
}

impl Interrupts {
    /// Has a run hear of the first Ctrl-C from now on, and `bell` rung.
    ///
    /// # Errors
    /// Those of [`on_ctrl_c`]; a run can go on without.
    pub(crate) fn new(bell: &Bell) -> io::Result<Self> {
        let (sender, mailbox) = mailbox(NonZeroUsize::MIN, bell);
        // Refused only when the run is over: then nobody is left who could be told.
        let listening = on_ctrl_c(move || drop(sender.post(Interrupt)))?;
        Ok(Self { mailbox, _listening: listening })
    }

    /// Whether somebody pressed Ctrl-C.
    pub(crate) fn any(&self) -> bool {
        !self.mailbox.is_empty()
    }
}

/// Somebody who wants to hear of Ctrl-C. Without an action it was told already.
struct Listener {
    id: u64,
    action: Option<Action>,
}

static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

fn listeners() -> MutexGuard<'static, Vec<Listener>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn install() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new().name("pronk-signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                pass_on();
            }
        });
    })?;
    Ok(())
}

fn pass_on() {
    let actions: Vec<_> = listeners().iter_mut().filter_map(|listener| listener.action.take()).collect();
    if actions.is_empty() {
        #[allow(clippy::disallowed_methods)] // nobody is left to end the process in another way
        std::process::exit(130);
    }
    // Threads of their own: an action that hangs must keep neither the others nor a second Ctrl-C from being heard.
    for action in actions {
        if std::thread::Builder::new().name("pronk-ctrl-c".to_owned()).spawn(action).is_err() {
            #[allow(clippy::disallowed_methods)] // without a thread nobody can be told, and Ctrl-C must end something
            std::process::exit(130);
        }
    }
}
