use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pronk_buffer::InqueueSender;
use tokio::sync::Notify;

use crate::env::{CallMonitor, EnvFailure, EnvFailureCause, EnvSpec, FailurePlace, VectorContext};
use crate::pool::{Answer, GroupFailure, GroupStep};

/// An order for a task.
pub(super) struct TaskRequest {
    pub(super) incarnation: u32,
    pub(super) step: Box<GroupStep>,
}

/// A task's reply.
pub(super) enum Reply {
    /// The first environment was built.
    Made(Result<EnvSpec, EnvFailure>),
    Done(Answer),
}

/// State shared by the tasks of one thread.
pub(super) struct Shared {
    pub(super) context: VectorContext,
    /// The spec of the first environment, which all others must have.
    pub(super) spec: OnceLock<EnvSpec>,
    /// How long a call may take.
    pub(super) env_hang_timeout: Option<Duration>,
    pub(super) monitor: CallMonitor,
    pub(super) replies: InqueueSender<Reply>,
    /// The environment that blocked the previous thread.
    pub(super) blocked_by: Option<u32>,
    /// How often tasks were checked for hangs.
    pub(super) looks: AtomicU32,
}

impl Shared {
    /// The reply for an environment that hangs.
    pub(super) fn answer_for(&self, group: usize, call: &Call, cause: EnvFailureCause) -> Reply {
        let context = VectorContext { incarnation: call.incarnation, ..self.context };
        let spec = self.spec.get();
        let failure =
            EnvFailure { steps_made: call.steps_made, ..context.failure(spec, group as u32, call.place, cause) };
        match spec {
            None => Reply::Made(Err(failure)),
            Some(spec) => Reply::Done(Answer {
                group,
                step: Box::new(GroupStep::new(spec, 1)),
                outcome: Err(GroupFailure { failure, abandoned: None }),
            }),
        }
    }
}

/// The place of one environment's task.
pub(crate) struct TaskSlot {
    pub(super) index: u32,
    /// Whether it builds its environment without an order.
    pub(super) is_first: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) orders: Arc<Orders>,
}

/// A task's mailbox for orders, of which there is never more than one, and the call that it is in.
#[derive(Default)]
pub(super) struct Orders {
    next: Mutex<Option<TaskRequest>>,
    given: Notify,
    call: Mutex<Option<Call>>,
}

/// A call of an environment that has not returned.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) place: FailurePlace,
    pub(super) incarnation: u32,
    /// Steps of the order made before it.
    pub(super) steps_made: usize,
    /// How often tasks had been checked when it began.
    pub(super) looks: u32,
}

impl Orders {
    pub(super) fn give(&self, request: TaskRequest) {
        *lock(&self.next) = Some(request);
        self.given.notify_one();
    }

    /// Waits for the next order.
    pub(super) async fn next(&self) -> TaskRequest {
        loop {
            if let Some(request) = lock(&self.next).take() {
                return request;
            }
            self.given.notified().await;
        }
    }

    pub(super) fn call(&self) -> Option<Call> {
        *lock(&self.call)
    }

    pub(super) fn set_call(&self, call: Option<Call>) {
        *lock(&self.call) = call;
    }
}

/// What is locked here is replaced as a whole, so a panic leaves it as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
