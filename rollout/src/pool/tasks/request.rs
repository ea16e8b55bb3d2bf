use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pronk_buffer::InqueueSender;
use tokio::sync::Notify;

use crate::env::{CallMonitor, EnvFailure, EnvFailureCause, EnvSpec, FailurePlace, VectorContext};
use crate::pool::{Answer, GroupFailure, GroupStep};
use crate::vector::Normalizer;

/// What a task is asked to do.
pub(super) struct TaskRequest {
    pub(super) incarnation: u32,
    pub(super) step: Box<GroupStep>,
}

/// What a task says.
pub(super) enum Reply {
    /// The first environment was made.
    Made(Result<EnvSpec, EnvFailure>),
    Done(Answer),
}

/// What the tasks of one thread share.
pub(super) struct Shared {
    pub(super) context: VectorContext,
    /// Of the first environment that was made; the others have the same.
    pub(super) spec: OnceLock<EnvSpec>,
    pub(super) normalizer: Option<Normalizer>,
    /// How long a call may take.
    pub(super) env_hang_timeout: Option<Duration>,
    pub(super) monitor: CallMonitor,
    pub(super) replies: InqueueSender<Reply>,
    /// The environment that blocked the thread before.
    pub(super) blocked_by: Option<u32>,
    /// How often it was looked at which environments are silent.
    pub(super) looks: AtomicU32,
}

impl Shared {
    /// The reply for an environment that is silent.
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

/// Where the task of one environment sits.
pub(crate) struct Seat {
    pub(super) index: u32,
    /// Whether it makes its environment without being asked.
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

/// A call of an environment that has not come back.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) place: FailurePlace,
    pub(super) incarnation: u32,
    /// Steps made before it, of those that were ordered.
    pub(super) steps_made: usize,
    /// How often it had been looked at the environments when it began.
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
