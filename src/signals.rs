//! Ctrl-C, SIGTERM and SIGHUP: each listener is called once, on its own thread.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use pronk_buffer::{Notifier, ShutdownGuard, ShutdownToken, shutdown};
use pronk_rollout::CallMonitor;

use crate::stop::StopReason;

type Action = Box<dyn FnOnce(Signal) + Send>;

/// How long one call of an environment may continue after a signal in a run without threads.
const HANG_TIMEOUT: Duration = Duration::from_millis(700);

/// A signal to end the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, on Unix only.
    #[cfg(unix)]
    Terminate,
    /// SIGHUP, on Linux only.
    #[cfg(unix)]
    HangUp,
}

impl Signal {
    /// The one that asks a process to end, where there is one.
    #[cfg(unix)]
    const TERMINATE: Self = Self::Terminate;
    #[cfg(not(unix))]
    const TERMINATE: Self = Self::Interrupt;

    fn reason(self) -> StopReason {
        match self {
            Self::Interrupt => StopReason::Interrupted,
            #[cfg(unix)]
            Self::Terminate => StopReason::Terminated,
            #[cfg(unix)]
            Self::HangUp => StopReason::HungUp,
        }
    }

    /// Whether it may come twice for one event: when a terminal closes, both the kernel and the shell send
    /// SIGHUP.
    fn is_repeated(self) -> bool {
        match self {
            Self::Interrupt => false,
            #[cfg(unix)]
            Self::Terminate => false,
            #[cfg(unix)]
            Self::HangUp => true,
        }
    }

    /// Ends the process as the signal would without a handler.
    fn end_the_process(self) -> ! {
        #[allow(clippy::disallowed_methods)] // nothing else can end the process here
        std::process::exit(self.reason().signal_status().unwrap_or(1).into())
    }
}

/// Calls `action` once, on its own thread, at the next Ctrl-C, SIGTERM (on Unix) or SIGHUP (on Linux, unless
/// the process ignores it, as below `nohup`); dropping the returned value cancels it.
///
/// A [`Trainer`](crate::Trainer) handles signals itself; this is for what runs beside it, such as
/// [`WorkerGroups`](crate::groups::WorkerGroups).
///
/// A second signal, or one without a listener, ends the process with status 130 after Ctrl-C, 143 after
/// SIGTERM and 129 after SIGHUP. SIGHUP is never a second signal: it comes twice where a terminal closes.
///
/// # Errors
/// The system refused the handler or its thread.
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

/// As [`on_ctrl_c`], with the reason: [`StopReason::Interrupted`] after Ctrl-C, [`StopReason::Terminated`]
/// after SIGTERM, [`StopReason::HungUp`] after SIGHUP. [`StopReason::signal_status`] is the exit status that
/// goes with it.
///
/// # Errors
/// As [`on_ctrl_c`].
///
/// # Example
/// ```
/// let _listening = pronk::signals::on_signal(|reason| println!("{:?}", reason.signal_status()))?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn on_signal(action: impl FnOnce(StopReason) + Send + 'static) -> io::Result<CtrlC> {
    listen(Box::new(|signal| action(signal.reason())))
}

/// Ends the process as a first SIGTERM does, unless a signal has come already: for a program that is to end
/// with something else, such as its parent process. On systems other than Unix, it ends as after Ctrl-C.
///
/// # Example
/// ```
/// let (sender, receiver) = std::sync::mpsc::sync_channel(1);
/// let _listening = pronk::signals::on_signal(move |reason| drop(sender.send(reason)))?;
/// pronk::signals::terminate();
/// pronk::signals::terminate(); // once is enough
/// # #[cfg(unix)]
/// assert_eq!(receiver.recv()?, pronk::StopReason::Terminated);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn terminate() {
    if !SIGNALLED.load(Ordering::Relaxed) {
        pass_on(Signal::TERMINATE);
    }
}

/// Whether a signal has come.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

fn listen(action: Action) -> io::Result<CtrlC> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = HANDLER.get_or_init(|| install().map_err(|error| error.to_string()));
    if let Err(reason) = installed {
        return Err(io::Error::other(format!("no handler of signals: {reason}")));
    }
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    listeners().push(Listener { id, action: Some(action) });
    Ok(CtrlC { id })
}

/// A listener for signals, until dropped: from [`on_ctrl_c`].
///
/// ```
/// let listening = pronk::on_ctrl_c(|| println!("interrupted"))?;
/// drop(listening); // from here on Ctrl-C ends the process
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it stops listening"]
pub struct CtrlC {
    id: u64,
}

impl Drop for CtrlC {
    fn drop(&mut self) {
        // Removed first, so that the action is dropped outside the lock.
        let mine = {
            let mut listeners = listeners();
            let at = listeners.iter().position(|listener| listener.id == self.id);
            at.map(|at| listeners.remove(at))
        };
        drop(mine);
    }
}

/// The shutdown guard of a run, shared by the trainer and the signal handler.
#[derive(Clone)]
pub(crate) struct SharedGuard(Arc<Mutex<Option<ShutdownGuard>>>);

impl SharedGuard {
    pub(crate) fn new(shutdown: ShutdownGuard) -> Self {
        Self(Arc::new(Mutex::new(Some(shutdown))))
    }

    /// Ends every wait of the run.
    pub(crate) fn release(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Whether it did.
    pub(crate) fn is_released(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

/// The signals of a run, from its start until its outcome is dropped.
#[derive(Debug)]
pub(crate) struct Interrupts {
    first: Arc<OnceLock<Signal>>,
    _listening: CtrlC,
    /// Dropped with the run, which ends the handler's wait.
    _run: ShutdownGuard,
}

impl Interrupts {
    /// Keeps the next signal and notifies `notifier`.
    ///
    /// A run `on_this_thread` cannot check for signals while it waits, so its waits are ended, at once or
    /// after its patience; if its monitor shows that an environment hangs, the process is ended.
    ///
    /// # Errors
    /// As [`on_ctrl_c`]; a run can continue without signals.
    pub(crate) fn new(notifier: &Notifier, on_this_thread: Option<OnThisThread>) -> io::Result<Self> {
        let first = Arc::new(OnceLock::new());
        let (run, token) = shutdown();
        let (heard, notifier) = (Arc::clone(&first), notifier.clone());
        let listening = listen(Box::new(move |signal| {
            // A listener is called once, so there is none yet.
            let _ = heard.set(signal);
            notifier.notify();
            if let Some(run) = on_this_thread {
                run.end(signal, &token);
            }
        }))?;
        Ok(Self { first, _listening: listening, _run: run })
    }

    /// The reason to end the run, after a signal.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.first.get().copied().map(Signal::reason)
    }
}

/// A listener; its action is taken when called.
struct Listener {
    id: u64,
    action: Option<Action>,
}

static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

fn listeners() -> MutexGuard<'static, Vec<Listener>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run on the thread that calls the trainer.
pub(crate) struct OnThisThread {
    /// Ends its waits.
    pub(crate) shutdown: SharedGuard,
    /// What its environments are doing.
    pub(crate) monitor: CallMonitor,
    /// How long it may take to end by itself, between two fragments.
    pub(crate) patience: Duration,
}

impl OnThisThread {
    /// Ends its waits once its patience is over, and the process if it hangs in an environment: nothing else
    /// can. Returns when the run has ended.
    fn end(self, signal: Signal, run: &ShutdownToken) {
        let began = Instant::now();
        loop {
            if began.elapsed() >= self.patience {
                self.shutdown.release();
                self.monitor.give_up_at(Instant::now());
            }
            let call = self.monitor.call();
            if run.sleep(HANG_TIMEOUT).is_err() {
                return;
            }
            if let Some(call) = call
                && self.monitor.call() == Some(call)
            {
                let (env, place) = (call.index, call.place);
                tracing::error!("environment {env} hangs {place}, so the signal ends the process without a result");
                signal.end_the_process();
            }
        }
    }
}

fn install() -> io::Result<()> {
    let (answer, installed) = sync_channel(1);
    std::thread::Builder::new().name("pronk-signals".to_owned()).spawn(move || {
        // Made on this thread, since the caller's may belong to a runtime, which lets it wait for no other.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Err(refusal) = runtime.and_then(|runtime| runtime.block_on(pass_signals_on(&answer)));
        let _ = answer.send(Err(refusal));
    })?;
    // Callers rely on what is installed.
    installed.recv().unwrap_or_else(|_| Err(io::Error::other("the thread for signals panicked")))
}

/// Answers that the handlers are installed, and then passes on what comes.
async fn pass_signals_on(answer: &SyncSender<io::Result<()>>) -> io::Result<Infallible> {
    let mut handlers = Handlers::install()?;
    let _ = answer.send(Ok(()));
    loop {
        pass_on(handlers.next().await);
    }
}

/// The handlers of the signals that the system has.
struct Handlers {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// `None` where the process ignores it.
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Handlers {
    #[cfg(unix)]
    fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = (!ignores_hang_up()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, hang_up })
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
            #[cfg(unix)]
            if self.hang_up.as_mut().is_some_and(|hang_up| hang_up.poll_recv(context).is_ready()) {
                return Poll::Ready(Signal::HangUp);
            }
            Poll::Pending
        })
        .await
    }
}

/// Whether the process ignores SIGHUP, as below `nohup`: a handler would end what is to outlive its terminal.
/// A system that does not say is left to handle it.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal n is bit n - 1, and SIGHUP is signal 1.
    mask.is_none_or(|mask| mask & 1 != 0)
}

fn pass_on(signal: Signal) {
    let is_second = SIGNALLED.swap(true, Ordering::Relaxed);
    let actions: Vec<_> = listeners().iter_mut().filter_map(|listener| listener.action.take()).collect();
    if actions.is_empty() {
        if is_second && signal.is_repeated() {
            return;
        }
        signal.end_the_process();
    }
    // On their own threads: a hanging action must block neither the others nor a second signal.
    for action in actions {
        let spawned = std::thread::Builder::new().name("pronk-ctrl-c".to_owned()).spawn(move || action(signal));
        if spawned.is_err() {
            // Without a thread for the action, the signal ends the process.
            signal.end_the_process();
        }
    }
}
