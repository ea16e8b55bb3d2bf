use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use pronk_buffer::{Fold, Mailbox};
use pronk_metrics::catch;

use super::make::EnvTasks;
use super::request::{Orders, Seat, Shared, TaskRequest};
use crate::env::{EnvFailureCause, POLLS_PER_TIMEOUT, poll_interval};
use crate::pool::Looks;

/// Tasks that have their turn before connections and timers have theirs again.
const TURNS: usize = 128;

/// Tasks that have their turn before it is looked for orders, which go first.
const AT_ONCE: usize = 16;

/// Orders, and for which groups.
#[derive(Default)]
pub(super) struct Batch(pub(super) Vec<(usize, TaskRequest)>);

impl Fold for Batch {
    fn fold(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }
}

/// The tasks of a thread, each in its seat. They have their turns here and not as tasks of the runtime, so that an order begins to
/// be carried out as it comes, before all those who wait to say that theirs was.
pub(super) struct Seats {
    tasks: EnvTasks,
    shared: Arc<Shared>,
    /// `None` where no task has begun, or the last one was cancelled.
    seats: Vec<Option<Taken>>,
    woken: Arc<Woken>,
    /// Those of them that have not had their turn yet.
    waiting: VecDeque<usize>,
    /// Turns that tasks have had.
    turns: usize,
    /// How often they were looked at.
    looks: u32,
}

/// A seat with its task.
struct Taken {
    orders: Arc<Orders>,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    alarm: Arc<TaskWaker>,
    waker: Waker,
}

/// What there is to do next.
enum Event {
    /// Orders came.
    Orders(Batch),
    /// There will be no more.
    End,
    /// What some tasks wait for has come.
    Woken,
    /// It is time for a look at who is silent.
    Look,
}

impl Seats {
    pub(super) fn new(tasks: EnvTasks, shared: Arc<Shared>, n_seats: usize) -> Self {
        Self {
            tasks,
            shared,
            seats: (0..n_seats).map(|_| None).collect(),
            woken: Arc::default(),
            waiting: VecDeque::new(),
            turns: 0,
            looks: 0,
        }
    }

    /// Has the tasks carry out orders until there will be no more, and cancels those that are silent for too long.
    pub(super) async fn attend(mut self, received: Mailbox<Batch>, is_first: bool) {
        if is_first {
            self.begin(0, true);
            self.turn(0);
        }
        let mut looks = Looks::new(self.shared.env_hang_timeout);
        loop {
            match self.next(&received, &looks).await {
                Event::End => break,
                Event::Orders(Batch(orders)) => {
                    for (group, request) in orders {
                        self.carry_out(group, request);
                        self.pause().await;
                    }
                }
                Event::Woken => {
                    for _ in 0..self.waiting.len().min(AT_ONCE) {
                        self.turn_of_next();
                        self.pause().await;
                    }
                }
                Event::Look => {}
            }
            if looks.are_due(Instant::now()) {
                self.cancel_silent();
            }
        }
        // One that panics as it is dropped takes no other along.
        for seat in &mut self.seats {
            let _ = catch(|| *seat = None);
        }
    }

    /// Waits for something to do.
    async fn next(&mut self, received: &Mailbox<Batch>, looks: &Looks) -> Event {
        let Self { woken, waiting, .. } = self;
        let mut orders = pin!(received.recv());
        let event = poll_fn(move |context| match orders.as_mut().poll(context) {
            Poll::Ready(Some(batch)) => Poll::Ready(Event::Orders(batch)),
            Poll::Ready(None) => Poll::Ready(Event::End),
            Poll::Pending => woken.poll(context, waiting).map(|()| Event::Woken),
        });
        tokio::time::timeout(looks.left(Instant::now()), event).await.unwrap_or(Event::Look)
    }

    /// Lets connections and timers have their turn, after so many of the tasks.
    async fn pause(&mut self) {
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS) {
            tokio::task::yield_now().await;
        }
    }

    /// Lets the task go on that has waited for its turn for longest.
    fn turn_of_next(&mut self) {
        if let Some(group) = self.waiting.pop_front() {
            self.turn(group);
        }
    }

    fn carry_out(&mut self, group: usize, request: TaskRequest) {
        if self.seats[group].is_none() {
            self.begin(group, false);
        }
        if let Some(taken) = &self.seats[group] {
            taken.orders.give(request);
        }
        self.turn(group);
    }

    fn begin(&mut self, group: usize, is_first: bool) {
        let orders = Arc::new(Orders::default());
        let shared = Arc::clone(&self.shared);
        let task = self.tasks.make.task(Seat { index: group as u32, is_first, shared, orders: Arc::clone(&orders) });
        let alarm = Arc::new(TaskWaker { group, rings: AtomicBool::new(false), woken: Arc::clone(&self.woken) });
        let waker = Waker::from(Arc::clone(&alarm));
        self.seats[group] = Some(Taken { orders, task, alarm, waker });
    }

    /// Lets a task go on until it waits again.
    fn turn(&mut self, group: usize) {
        let Some(taken) = &mut self.seats[group] else { return };
        // Read and written at once: what was said before a ring that is not heard again is seen by this turn.
        taken.alarm.rings.swap(false, Ordering::AcqRel);
        if taken.task.as_mut().poll(&mut Context::from_waker(&taken.waker)).is_ready() {
            self.seats[group] = None;
        }
    }

    /// Drops the environments that have been in one call for too long, and answers for them.
    fn cancel_silent(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        self.shared.looks.store(self.looks, Ordering::Relaxed);
        let Some(timeout) = self.shared.env_hang_timeout else { return };
        for (group, seat) in self.seats.iter_mut().enumerate() {
            let Some(call) = seat.as_ref().and_then(|taken| taken.orders.call()) else { continue };
            let looks = self.looks.wrapping_sub(call.looks);
            // It began between two looks, so this many say that it has lasted for the whole time.
            if looks <= POLLS_PER_TIMEOUT {
                continue;
            }
            self.shared.monitor.at(group as u32, call.place);
            let inside = self.shared.monitor.enter(call.incarnation);
            let _ = catch(|| *seat = None);
            drop(inside);
            let silent_for = poll_interval(timeout) * looks;
            let cause = EnvFailureCause::Hang { silent_for, last_obs: None };
            // Refused only when the run is over.
            let _ = self.shared.replies.try_push(self.shared.answer_for(group, &call, cause));
        }
    }
}

/// What a task is woken by.
struct TaskWaker {
    group: usize,
    /// Whether it has rung since the task's last turn.
    rings: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rings.swap(true, Ordering::AcqRel) {
            self.woken.add(self.group);
        }
    }
}

/// Tasks that want their turn.
#[derive(Default)]
struct Woken(Mutex<List>);

#[derive(Default)]
struct List {
    groups: Vec<usize>,
    /// Of the thread, while it waits for one.
    thread: Option<Waker>,
}

impl Woken {
    fn add(&self, group: usize) {
        let thread = {
            let mut list = self.list();
            list.groups.push(group);
            list.thread.take()
        };
        if let Some(thread) = thread {
            thread.wake();
        }
    }

    /// Moves all of them to the end of `into`; ready when that is not empty.
    fn poll(&self, context: &mut Context<'_>, into: &mut VecDeque<usize>) -> Poll<()> {
        let mut list = self.list();
        into.extend(list.groups.drain(..));
        if into.is_empty() {
            list.thread = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Whole even if a thread panicked while it held the lock: every use of it is one call.
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
