mod play;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use pronk_buffer::{
    Bell, Closed, Fold, Gate, InqueueReceiver, Mailbox, MailboxSender, PopError, Tether, inqueue, mailbox,
};
use pronk_metrics::{StateClock, TimeLedger};
use tokio::task::AbortHandle;

use super::{Answer, CLOSE_WITHIN, EnvGroups, EnvThreadState, GroupFailure, GroupStep, GroupsConfig, LOOKS, Looks};
use crate::async_env::EnvTasks;
use crate::env::{EnvError, EnvSpec};
use crate::factory::VectorContext;
use crate::failure::{EnvFailure, FailureCause, FailurePlace, catch};
use crate::watch::{EnvCall, Vigil, Watch};
use crate::worker::WorkerLinks;

use play::{Orders, Reply, Shared, Told};
pub(crate) use play::{Seat, play};

/// Environments that are tasks of one thread, `rollout-1-tasks`; each is a group by itself.
pub(crate) struct TaskGroups {
    config: GroupsConfig,
    tasks: EnvTasks,
    tether: Tether,
    time: TimeLedger,
    spec: EnvSpec,
    thread: TaskThread,
    /// How many threads there have been before.
    generation: u32,
    /// How often every environment has been made.
    incarnations: Vec<u32>,
    /// Environments that have not answered.
    running: Vec<bool>,
    /// Orders that the thread has not been given: it is woken once for all of them.
    outbox: Batch,
    /// Answers for environments that cannot give them.
    lost: VecDeque<Answer>,
    looks: Looks,
}

/// Orders, and for which groups.
#[derive(Default)]
struct Batch(Vec<(usize, Told)>);

impl Fold for Batch {
    fn fold(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }
}

/// The thread that the tasks take turns on.
struct TaskThread {
    /// `None` once it is to end.
    orders: Option<MailboxSender<Batch>>,
    answers: InqueueReceiver<Reply>,
    /// Closes as the thread ends.
    ended: Receiver<Infallible>,
    name: String,
    watch: Watch,
    vigil: Vigil,
}

impl TaskGroups {
    /// Starts the thread and makes the first environment, which says what all are. The others are made when they are first told
    /// to reset.
    ///
    /// # Errors
    /// Why the first environment could not be made, or made in time; or why there was no thread.
    pub(crate) fn new(config: GroupsConfig, tasks: EnvTasks, links: &WorkerLinks) -> Result<Self, EnvFailure> {
        let failure = |cause| config.context.failure_to_make(cause);
        if config.n_groups == 0 {
            return Err(failure(FailureCause::Error(EnvError::new("a vector needs at least one environment, got 0"))));
        }
        let first = Generation { number: 0, spec: None, blocked_by: None };
        let WorkerLinks { tether, time, .. } = links.clone();
        let thread = TaskThread::start(&config, &tasks, (&tether, &time), first)?;
        let spec = loop {
            match thread.answers.pop(config.env_hang_timeout.unwrap_or(Duration::MAX)) {
                Ok(Reply::Made(made)) => break made?,
                // Nothing was ordered.
                Ok(Reply::Done(_)) => {}
                Err(PopError::TimedOut) => {
                    let silent_for = config.env_hang_timeout.unwrap_or_default();
                    return Err(failure(FailureCause::Hang { silent_for, last_obs: None }));
                }
                Err(PopError::Closed) => return Err(failure(FailureCause::Error(EnvError::new("the run is ending")))),
            }
        };
        Ok(Self {
            tasks,
            tether,
            time,
            spec,
            thread,
            generation: 0,
            incarnations: vec![config.context.incarnation; config.n_groups],
            running: vec![false; config.n_groups],
            outbox: Batch::default(),
            lost: VecDeque::new(),
            looks: Looks::new(config.env_hang_timeout),
            config,
        })
    }

    /// Gives the thread what it was sent.
    fn post(&mut self) {
        if self.outbox.0.is_empty() {
            return;
        }
        let orders = std::mem::take(&mut self.outbox);
        let refused = match &self.thread.orders {
            Some(sender) => sender.post(orders).err().map(|Closed(orders)| orders),
            None => Some(orders),
        };
        for (group, Told { step, .. }) in refused.unwrap_or_default().0 {
            let cause = FailureCause::Error(EnvError::new("there is no thread for the tasks of this worker"));
            self.lose(group, step, FailurePlace::Waiting, cause, None);
        }
    }

    /// If one environment has had the thread to itself for too long, all are lost, and there is another thread.
    fn find_blocking(&mut self) {
        let Some(timeout) = self.config.env_hang_timeout else { return };
        let Some((call, silent_for)) = self.thread.vigil.look(&self.thread.watch) else { return };
        // What it has answered before it was blocked is taken first.
        if silent_for < timeout || !self.thread.answers.is_empty() || self.thread.watch.take_over(&call).is_none() {
            return;
        }
        self.generation += 1;
        let left_behind = self.thread.name.clone();
        let next = Generation { number: self.generation, spec: Some(self.spec.clone()), blocked_by: Some(call.index) };
        match TaskThread::start(&self.config, &self.tasks, (&self.tether, &self.time), next) {
            Ok(thread) => self.thread = thread,
            // Every order is answered by that from now on.
            Err(_no_thread) => self.thread.orders = None,
        }
        let EnvCall { index, place, .. } = call;
        let blocking = index as usize;
        let step = || Box::new(GroupStep::new(&self.spec, 1));
        let (hanging, others): (Vec<_>, Vec<_>) = (0..self.config.n_groups)
            .filter(|group| self.running[*group])
            .map(|group| (group, step()))
            .partition(|(group, _)| *group == blocking);
        for (group, step) in hanging {
            let cause = FailureCause::Hang { silent_for, last_obs: None };
            self.lose(group, step, place, cause, Some(left_behind.clone()));
        }
        for (group, step) in others {
            let text = format!("it was lost with its thread, which environment {index} blocked");
            self.lose(group, step, FailurePlace::Waiting, FailureCause::Error(EnvError::new(text)), None);
        }
    }

    /// Answers for an environment that cannot.
    fn lose(
        &mut self,
        group: usize,
        step: Box<GroupStep>,
        place: FailurePlace,
        cause: FailureCause,
        left_behind: Option<String>,
    ) {
        let context = VectorContext { incarnation: self.incarnations[group], ..self.config.context };
        let failure = context.failure(Some(&self.spec), group as u32, place, cause);
        let outcome = Err(GroupFailure { failure, left_behind });
        self.lost.push_back(Answer { group, step, took: Duration::ZERO, outcome });
    }

    fn answered(&mut self, answer: Answer) -> Answer {
        self.running[answer.group] = false;
        self.incarnations[answer.group] += u32::from(answer.outcome.is_err());
        answer
    }
}

impl EnvGroups for TaskGroups {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn n_groups(&self) -> usize {
        self.config.n_groups
    }

    fn group_size(&self) -> usize {
        1
    }

    fn send(&mut self, group: usize, order: Box<GroupStep>) {
        self.running[group] = true;
        self.outbox.0.push((group, Told { incarnation: self.incarnations[group], step: order }));
    }

    fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Closed> {
        self.post();
        let began = Instant::now();
        let mut now = began;
        loop {
            if self.looks.are_due(now) {
                self.find_blocking();
            }
            if let Some(lost) = self.lost.pop_front() {
                return Ok(Some(self.answered(lost)));
            }
            let left = timeout.map_or(Duration::MAX, |timeout| timeout.saturating_sub(now - began));
            let until_look = self.looks.left(now);
            match self.thread.answers.pop(left.min(until_look)) {
                Ok(Reply::Done(answer)) => return Ok(Some(self.answered(answer))),
                // Of the first environment, which is known.
                Ok(Reply::Made(_)) => {}
                Err(PopError::Closed) => return Err(Closed(())),
                Err(PopError::TimedOut) if left <= until_look => return Ok(None),
                Err(PopError::TimedOut) => {}
            }
            now = Instant::now();
        }
    }

    fn close(&mut self) -> Vec<String> {
        self.thread.orders = None;
        // Nothing is ever sent: it closes.
        let ended = self.thread.ended.recv_timeout(CLOSE_WITHIN);
        if ended.is_err_and(|end| end.is_disconnected()) { Vec::new() } else { vec![self.thread.name.clone()] }
    }
}

/// Which thread of a worker.
struct Generation {
    number: u32,
    /// Of the environments; the first thread finds it out.
    spec: Option<EnvSpec>,
    /// The environment that blocked the thread before.
    blocked_by: Option<u32>,
}

impl TaskThread {
    fn start(
        config: &GroupsConfig,
        tasks: &EnvTasks,
        (tether, time): (&Tether, &TimeLedger),
        generation: Generation,
    ) -> Result<Self, EnvFailure> {
        let failure = |text: String| config.context.failure_to_make(FailureCause::Error(EnvError::new(text)));
        let Generation { number, spec, blocked_by } = generation;
        let first = format!("rollout-{}-tasks", config.context.worker);
        let name = if number == 0 { first } else { format!("{first}.{number}") };
        // Every environment answers once before it is sent its next order, and the first says what it is.
        let (replies, answers) = inqueue(config.n_groups + 1, Gate::Bounded, tether)
            .map_err(|_| failure("a worker needs an environment".to_owned()))?;
        let (orders, received) = mailbox(NonZeroUsize::MIN, &Bell::new());
        let watch = Watch::new();
        let is_first = spec.is_none();
        let shared = Arc::new(Shared {
            context: config.context,
            spec: spec.map_or_else(OnceLock::new, OnceLock::from),
            normalizer: tasks.normalizer.clone(),
            fragment_length: config.fragment_length,
            env_hang_timeout: config.env_hang_timeout,
            watch: watch.clone(),
            replies,
            blocked_by,
            looks: AtomicU32::new(0),
        });
        let seats =
            Seats { tasks: tasks.clone(), shared, seats: (0..config.n_groups).map(|_| None).collect(), looks: 0 };
        let clock = StateClock::new(name.clone(), EnvThreadState::Waiting);
        let reader = clock.reader();
        // Its one thread alone takes the lock.
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
        let runtime = runtime.map_err(|error| failure(format!("there is no runtime for tasks: {error}")))?;
        let (ending, ended) = bounded(0);
        let body = move || {
            // Environments that panic as they are dropped take nobody along.
            let _ = catch(|| {
                runtime.block_on(seats.distribute(received, is_first));
                // Cancels all tasks, and does not wait for a name that a resolver is still looking up.
                runtime.shutdown_background();
            });
            drop::<Sender<Infallible>>(ending);
        };
        thread::Builder::new()
            .name(name.clone())
            .spawn(body)
            .map_err(|error| failure(format!("the thread {name} could not be started: {error}")))?;
        time.add(reader);
        Ok(Self { orders: Some(orders), answers, ended, name, watch, vigil: Vigil::new() })
    }
}

/// The seats of a thread's tasks.
struct Seats {
    tasks: EnvTasks,
    shared: Arc<Shared>,
    /// `None` where no task has begun, or the last one was cancelled.
    seats: Vec<Option<Taken>>,
    /// How often they were looked at.
    looks: u32,
}

/// A seat with its task.
struct Taken {
    orders: Arc<Orders>,
    task: AbortHandle,
}

impl Seats {
    /// Passes orders on to the tasks until there will be no more, and cancels those that are silent for too long.
    async fn distribute(mut self, received: Mailbox<Batch>, is_first: bool) {
        if is_first {
            self.begin(0, true);
        }
        let mut looks = Looks::new(self.shared.env_hang_timeout);
        loop {
            let batch = tokio::time::timeout(looks.left(Instant::now()), received.recv()).await;
            if looks.are_due(Instant::now()) {
                self.cancel_silent();
            }
            let Batch(orders) = match batch {
                Ok(Some(batch)) => batch,
                Ok(None) => return,
                Err(_time_for_a_look) => continue,
            };
            for (group, told) in orders {
                let orders = match &self.seats[group] {
                    Some(taken) => &taken.orders,
                    None => self.begin(group, false),
                };
                orders.give(told);
            }
        }
    }

    fn begin(&mut self, group: usize, is_first: bool) -> &Arc<Orders> {
        let orders = Arc::new(Orders::default());
        let shared = Arc::clone(&self.shared);
        let seat = Seat { index: group as u32, is_first, shared, orders: Arc::clone(&orders) };
        let task = tokio::spawn(self.tasks.make.task(seat)).abort_handle();
        &self.seats[group].insert(Taken { orders, task }).orders
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
            if looks <= LOOKS {
                continue;
            }
            if let Some(taken) = seat.take() {
                taken.task.abort();
            }
            let silent_for = timeout / LOOKS * looks;
            let cause = FailureCause::Hang { silent_for, last_obs: None };
            // Refused only when the run is over.
            let _ = self.shared.replies.try_push(self.shared.answer_for(group, &call, cause));
        }
    }
}
