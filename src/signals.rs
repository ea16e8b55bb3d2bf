//! Ctrl-C and SIGTERM end runs and worker groups cleanly: each listener is called once, on a thread of its
//! own.

use std::future::poll_fn;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use pronk_buffer::{Fold, Mailbox, Notifier, ShutdownGuard, ShutdownToken, mailbox, shutdown};
use pronk_rollout::CallMonitor;

use crate::stop::StopReason;

type Action = Box<dyn FnOnce(Signal) + Send>;

/// How long one call of an environment may go on after a signal, where it has the run's only thread.
const PATIENCE: Duration = Duration::from_millis(700);

/// A signal that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, which Unix alone has.
    #[cfg(unix)]
    Terminate,
}

impl Signal {
    fn reason(self) -> StopReason {
        match self {
            Self::Interrupt => StopReason::Interrupted,
            #[cfg(unix)]
            Self::Terminate => StopReason::Terminated,
        }
    }

    /// Ends the process as the signal would have done without a handler.
    fn end_the_process(self) -> ! {
        #[allow(clippy::disallowed_methods)] // called where nothing is left that could end it in another way
        std::process::exit(self.reason().signal_status().unwrap_or(1).into())
    }
}

/// Calls `action` at the first Ctrl-C from now on, once, on a thread of its own; until what is returned is
/// dropped. On Unix, SIGTERM counts as Ctrl-C: that is how schedulers, containers and `kill` ask a process to
/// end.
///
/// Runs listen by themselves. This is for what runs beside them, such as [`WorkerGroups`](crate::groups::WorkerGroups).
///
/// A second signal of either kind, or one for which there is no listener, ends the process with status 130
/// after Ctrl-C and 143 after SIGTERM, as without pronk: the system's own handler is gone once a process has
/// one of its own.
///
/// # Errors
/// When the system refuses the handler or its thread.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use pronk::groups::{WorkerGroup, WorkerGroupConfig, WorkerGroups};
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
    listen(Box::new(|_| action()))
}

fn listen(action: Action) -> io::Result<CtrlC> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = HANDLER.get_or_init(|| install().map_err(|error| error.to_string()));
    if let Err(reason) = installed {
        return Err(io::Error::other(format!("no handler of Ctrl-C and SIGTERM: {reason}")));
    }
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    listeners().push(Listener { id, action: Some(action) });
    Ok(CtrlC { id })
}

/// Listens to Ctrl-C and SIGTERM until it is dropped: what [`on_ctrl_c`] returns.
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

impl Fold for Signal {
    /// The first one counts.
    fn fold(&mut self, _later: Self) {}
}

/// The shutdown guard of a run, for whoever may end it.
#[derive(Clone)]
pub(crate) struct SharedLifeline(Arc<Mutex<Option<ShutdownGuard>>>);

impl SharedLifeline {
    pub(crate) fn new(shutdown: ShutdownGuard) -> Self {
        Self(Arc::new(Mutex::new(Some(shutdown))))
    }

    /// Ends every wait of the run.
    pub(crate) fn cut(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// What a run hears of signals; it stops listening when this is dropped.
pub(crate) struct Interrupts {
    mailbox: Mailbox<Signal>,
    /// The first one, once it was read.
    first: Option<Signal>,
    _listening: CtrlC,
    /// Tells who listened that the run has ended.
    _run: ShutdownGuard,
}

impl Interrupts {
    /// Has a run hear of the first signal from now on, and `notifier` rung.
    ///
    /// A run `on_this_thread` cannot listen while it waits, so its waits are ended; and if an environment
    /// does not come back, which its monitor shows, so is the process.
    ///
    /// # Errors
    /// Those of [`on_ctrl_c`]; a run can go on without.
    pub(crate) fn new(notifier: &Notifier, on_this_thread: Option<(SharedLifeline, CallMonitor)>) -> io::Result<Self> {
        let (sender, mailbox) = mailbox(NonZeroUsize::MIN, notifier);
        let (run, token) = shutdown();
        let listening = listen(Box::new(move |signal| {
            // Refused only when the run is over: then there is nobody to report to.
            let _ = sender.post(signal);
            if let Some((shutdown, monitor)) = on_this_thread {
                shutdown.cut();
                end_if_it_hangs(signal, &monitor, &token);
            }
        }))?;
        Ok(Self { mailbox, first: None, _listening: listening, _run: run })
    }

    /// Why the run is to end, once a signal has come.
    pub(crate) fn first(&mut self) -> Option<StopReason> {
        self.first = self.first.or_else(|| self.mailbox.try_take());
        self.first.map(Signal::reason)
    }
}

/// One that wants to hear of a signal. Without an action it has heard of one.
struct Listener {
    id: u64,
    action: Option<Action>,
}

static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

fn listeners() -> MutexGuard<'static, Vec<Listener>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process if the run's only thread stays in one call of an environment; nothing else could.
fn end_if_it_hangs(signal: Signal, monitor: &CallMonitor, run: &ShutdownToken) {
    loop {
        let call = monitor.call();
        if run.sleep(PATIENCE).is_err() {
            return;
        }
        if let Some(call) = call
            && monitor.call() == Some(call)
        {
            let (env, place) = (call.index, call.place);
            tracing::error!(
                "environment {env} does not come back {place}, so the signal ends the process without a result"
            );
            signal.end_the_process();
        }
    }
}

fn install() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // From here on the system's own handlers are gone, before anything relies on it.
    let mut handlers = runtime.block_on(async { Handlers::install() })?;
    std::thread::Builder::new().name("pronk-signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                pass_on(handlers.next().await);
            }
        });
    })?;
    Ok(())
}

/// The handlers of the signals, where the system has them.
struct Handlers {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Handlers {
    #[cfg(unix)]
    fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(windows)]
    fn install() -> io::Result<Self> {
        Ok(Self { interrupt: tokio::signal::windows::ctrl_c()? })
    }

    /// The next signal.
    async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            if self.interrupt.poll_recv(context).is_ready() {
                return Poll::Ready(Signal::Interrupt);
            }
            #[cfg(unix)]
            if self.terminate.poll_recv(context).is_ready() {
                return Poll::Ready(Signal::Terminate);
            }
            Poll::Pending
        })
        .await
    }
}

fn pass_on(signal: Signal) {
    let actions: Vec<_> = listeners().iter_mut().filter_map(|listener| listener.action.take()).collect();
    if actions.is_empty() {
        signal.end_the_process();
    }
    // Threads of their own: an action that hangs must keep neither the others nor a second signal from being
    // heard.
    for action in actions {
        let spawned = std::thread::Builder::new().name("pronk-ctrl-c".to_owned()).spawn(move || action(signal));
        if spawned.is_err() {
            // Without a thread the action cannot be called, and the signal must end something.
            signal.end_the_process();
        }
    }
}
