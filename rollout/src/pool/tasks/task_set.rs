use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use pronk_buffer::{Fold, Mailbox};
use pronk_metrics::catch;
use tokio::task::JoinHandle;

use super::make::EnvTasks;
use super::request::{Orders, Shared, TaskRequest, TaskSlot};
use crate::env::{EnvFailureCause, POLLS_PER_TIMEOUT, poll_interval};
use crate::pool::HangChecks;
use crate::sync::Instant;

/// Orders with the groups that they are for.
#[derive(Default)]
pub(super) struct Batch(pub(super) Vec<(usize, TaskRequest)>);

impl Fold for Batch {
    fn fold(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }
}

/// Hands out orders to the tasks of a thread, and cancels tasks that hang.
pub(super) struct TaskSet {
    tasks: EnvTasks,
    shared: Arc<Shared>,
    /// `None` before the first order, and after a cancellation.
    running: Vec<Option<RunningTask>>,
    /// How often the tasks were checked for hangs.
    looks: u32,
}

/// The task of a slot.
struct RunningTask {
    orders: Arc<Orders>,
    task: JoinHandle<()>,
}

impl TaskSet {
    pub(super) fn new(tasks: EnvTasks, shared: Arc<Shared>, n_slots: usize) -> Self {
        Self { tasks, shared, running: (0..n_slots).map(|_| None).collect(), looks: 0 }
    }

    /// Hands out orders until the sender is dropped. The runtime drops the tasks as it shuts down.
    pub(super) async fn run(mut self, received: Mailbox<Batch>, is_first: bool) {
        if is_first {
            self.start(0, true);
        }
        let mut checks = HangChecks::new(self.shared.env_hang_timeout);
        loop {
            match tokio::time::timeout(checks.left(Instant::now()), received.recv()).await {
                Ok(Some(Batch(orders))) => {
                    for (group, request) in orders {
                        if self.running[group].as_ref().is_none_or(|task| task.task.is_finished()) {
                            self.start(group, false);
                        }
                        if let Some(task) = &self.running[group] {
                            task.orders.give(request);
                        }
                    }
                }
                Ok(None) => return,
                Err(_elapsed) => {}
            }
            if checks.are_due(Instant::now()) {
                self.cancel_hanging().await;
            }
        }
    }

    fn start(&mut self, group: usize, is_first: bool) {
        let orders = Arc::new(Orders::default());
        let (index, shared) = (group as u32, Arc::clone(&self.shared));
        let task = self.tasks.make.task(TaskSlot { index, is_first, shared, orders: Arc::clone(&orders) });
        let task = Marked { task: Some(task), index, shared: Arc::clone(&self.shared), orders: Arc::clone(&orders) };
        self.running[group] = Some(RunningTask { orders, task: tokio::spawn(task) });
    }

    /// Drops the environments that have been in one call for too long, and answers for them.
    async fn cancel_hanging(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        self.shared.looks.store(self.looks, Ordering::Relaxed);
        let Some(timeout) = self.shared.env_hang_timeout else { return };
        for (group, slot) in self.running.iter_mut().enumerate() {
            let Some(call) = slot.as_ref().and_then(|task| task.orders.call()) else { continue };
            let looks = self.looks.wrapping_sub(call.looks);
            // It began between two looks, so this many say that it has lasted for the whole time.
            if looks <= POLLS_PER_TIMEOUT {
                continue;
            }
            if let Some(RunningTask { task, .. }) = slot.take() {
                task.abort();
                // Answered after the drop: if that blocks, the failure names the abandoned thread.
                let _ = task.await;
            }
            let silent_for = poll_interval(timeout) * looks;
            let cause = EnvFailureCause::Hang { silent_for, last_obs: None };
            // Refused only when the run is over.
            let _ = self.shared.replies.try_push(self.shared.answer_for(group, &call, cause));
        }
    }
}

/// A task that marks the call it is in when it is dropped: user code may block there, or panic.
struct Marked {
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    index: u32,
    shared: Arc<Shared>,
    orders: Arc<Orders>,
}

impl Future for Marked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.task.as_mut().map_or(Poll::Ready(()), |task| task.as_mut().poll(context))
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let Self { task, index, shared, orders } = self;
        let _inside = orders.call().map(|call| {
            shared.monitor.at(*index, call.place);
            shared.monitor.enter(call.incarnation)
        });
        let _ = catch(|| *task = None);
    }
}
