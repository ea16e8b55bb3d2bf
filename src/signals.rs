//! Ctrl-C ends runs and worker groups cleanly: each listener is called once, on a thread of its own.

use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pronk_buffer::{Bell, Fold, Lifeline, Mailbox, Tether, lifeline, mailbox};
use pronk_rollout::Watch;

type Action = Box<dyn FnOnce() + Send>;

/// How long one call of an environment may go on after Ctrl-C, where it has the run's only thread.
const PATIENCE: Duration = Duration::from_millis(700);

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

/// The lifeline of a run, for whoever may end it.
#[derive(Clone)]
pub(crate) struct SharedLifeline(Arc<Mutex<Option<Lifeline>>>);

impl SharedLifeline {
    pub(crate) fn new(lifeline: Lifeline) -> Self {
        Self(Arc::new(Mutex::new(Some(lifeline))))
    }

    /// Ends every wait of the run.
    pub(crate) fn cut(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// What a run hears of Ctrl-C; it stops listening when this is dropped.
pub(crate) struct Interrupts {
    mailbox: Mailbox<Interrupt>,
    _listening: CtrlC,
    /// Tells who listened that the run has ended.
    _run: Lifeline,
}

impl Interrupts {
    /// Has a run hear of the first Ctrl-C from now on, and `bell` rung.
    ///
    /// A run `on_this_thread` cannot listen while it waits, so its waits are ended; and if an environment does not come back, which
    /// its watch shows, so is the process.
    ///
    /// # Errors
    /// Those of [`on_ctrl_c`]; a run can go on without.
    pub(crate) fn new(bell: &Bell, on_this_thread: Option<(SharedLifeline, Watch)>) -> io::Result<Self> {
        let (sender, mailbox) = mailbox(NonZeroUsize::MIN, bell);
        let (run, tether) = lifeline();
        let listening = on_ctrl_c(move || {
            // Refused only when the run is over: then nobody is left who could be told.
            let _ = sender.post(Interrupt);
            if let Some((lifeline, watch)) = on_this_thread {
                lifeline.cut();
                end_if_it_hangs(&watch, &tether);
            }
        })?;
        Ok(Self { mailbox, _listening: listening, _run: run })
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

/// Ends the process if the run's only thread stays in one call of an environment; nothing else could.
fn end_if_it_hangs(watch: &Watch, run: &Tether) {
    loop {
        let call = watch.call();
        if run.sleep(PATIENCE).is_err() {
            return;
        }
        if let Some(call) = call
            && watch.call() == Some(call)
        {
            let (env, place) = (call.index, call.place);
            tracing::error!(
                "environment {env} does not come back {place}, so Ctrl-C ends the process without a result"
            );
            #[allow(clippy::disallowed_methods)] // the thread that would end it in another way is not coming back
            std::process::exit(130);
        }
    }
}

fn install() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // From here on the system's own handler is gone, before anybody relies on it.
    let mut ctrl_c = runtime.block_on(async { handler() })?;
    std::thread::Builder::new().name("pronk-signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while ctrl_c.recv().await.is_some() {
                pass_on();
            }
        });
    })?;
    Ok(())
}

#[cfg(unix)]
fn handler() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn handler() -> io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
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
