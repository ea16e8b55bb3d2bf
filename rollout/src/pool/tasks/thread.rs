use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use pronk_buffer::{Gate, InqueueReceiver, MailboxSender, Notifier, ShutdownToken, inqueue, mailbox};
use pronk_metrics::{StateClock, TimeLedger, catch};

use super::make::EnvTasks;
use super::request::{Reply, Shared};
use super::task_set::{Batch, TaskSet};
use crate::env::{CallMonitor, EnvError, EnvSpec, HangDetector};
use crate::pool::{EnvThreadState, PoolConfig};

/// The thread that runs the tasks.
pub(super) struct TaskThread {
    /// The thread ends when this is dropped.
    pub(super) orders: MailboxSender<Batch>,
    pub(super) answers: InqueueReceiver<Reply>,
    /// Closes as the thread ends.
    pub(super) ended: Receiver<Infallible>,
    pub(super) name: String,
    pub(super) monitor: CallMonitor,
    pub(super) hang_detector: HangDetector,
}

/// One in a sequence of threads: each replaces the one before after a hang.
#[derive(Clone)]
pub(super) struct Generation {
    pub(super) number: u32,
    /// The spec of the environments; the first thread determines it.
    pub(super) spec: Option<EnvSpec>,
    /// The environment that blocked the previous thread.
    pub(super) blocked_by: Option<u32>,
}

impl TaskThread {
    /// Starts the thread, and the first environment's task if the spec is unknown.
    pub(super) fn start(
        config: &PoolConfig,
        tasks: &EnvTasks,
        (token, time): (&ShutdownToken, &TimeLedger),
        generation: Generation,
    ) -> Result<Self, EnvError> {
        let Generation { number, spec, blocked_by } = generation;
        let first = format!("rollout-{}-tasks", config.context.worker);
        let name = if number == 0 { first.clone() } else { format!("{first}.{number}") };
        // One answer per environment, and the first environment's spec.
        let (replies, answers) = inqueue(config.n_groups + 1, Gate::Bounded, token)
            .map_err(|_| EnvError::new("a worker needs an environment"))?;
        let (orders, received) = mailbox(NonZeroUsize::MIN, &Notifier::new());
        let monitor = CallMonitor::new();
        let is_first = spec.is_none();
        let shared = Arc::new(Shared {
            context: config.context,
            spec: spec.map_or_else(OnceLock::new, OnceLock::from),
            env_hang_timeout: config.env_hang_timeout,
            monitor: monitor.clone(),
            replies,
            blocked_by,
            looks: AtomicU32::new(0),
        });
        let task_set = TaskSet::new(tasks.clone(), shared, config.n_groups);
        let clock = StateClock::new(first, EnvThreadState::Waiting);
        let reader = clock.reader();
        // Uncontended: only the runtime's one thread takes the lock.
        let clock = Arc::new(Mutex::new(clock));
        let enter = |state| {
            let clock = Arc::clone(&clock);
            move || clock.lock().unwrap_or_else(PoisonError::into_inner).enter(state)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_park(enter(EnvThreadState::Waiting))
            .on_thread_unpark(enter(EnvThreadState::Stepping))
            .build();
        let runtime = runtime
            .map_err(|error| EnvError::new(format!("the tokio runtime for tasks could not be built: {error}")))?;
        let (ending, ended) = bounded(0);
        let body = move || {
            // A panic in a destructor is contained.
            let _ = catch(|| {
                runtime.block_on(task_set.run(received, is_first));
                // Does not wait for blocking work such as a DNS lookup.
                runtime.shutdown_background();
            });
            drop::<Sender<Infallible>>(ending);
        };
        thread::Builder::new()
            .name(name.clone())
            .spawn(body)
            .map_err(|error| EnvError::new(format!("the thread {name} could not be started: {error}")))?;
        time.add(reader);
        Ok(Self { orders, answers, ended, name, monitor, hang_detector: HangDetector::new() })
    }
}
