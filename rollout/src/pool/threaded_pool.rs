mod stepper;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::thread;
use std::time::Duration;

use pronk_buffer::{Closed, Gate, InqueueReceiver, InqueueSender, ObsColumn, ShutdownToken, inqueue};
use pronk_metrics::{StateClock, catch};

use self::stepper::{GroupOrder, Stepper};
use super::env_pool::{CLOSE_WITHIN, EnvPool, EnvThreadState, PoolConfig};
use super::factory::EnvFactory;
use super::hang::{HangChecks, Waited};
use super::step::{Answer, GroupFailure, GroupPosition, GroupStep};
use crate::env::{
    CallMonitor, EnvCall, EnvError, EnvFailure, EnvFailureCause, EnvSpec, HangDetector, Restarted, VectorContext,
};
use crate::sync::Arc;
use crate::sync::Instant;
use crate::sync::channel::{Receiver, SendError, Sender, bounded};

/// Environments that step on threads of their own, in groups: `rollout-1-envs-0`, `rollout-1-envs-1`, …
pub(crate) struct ThreadedPool {
    config: PoolConfig,
    factory: Arc<dyn EnvFactory>,
    spec: EnvSpec,
    groups: Vec<Group>,
    replies: InqueueSender<Reply>,
    answers: InqueueReceiver<Reply>,
    /// Of the worker.
    monitor: CallMonitor,
    checks: HangChecks,
    /// Answers for groups that hang.
    lost: VecDeque<Answer>,
}

/// One group and the thread that steps it now.
struct Group {
    /// `None` once it is to end.
    orders: Option<Sender<GroupOrder>>,
    /// Closes as the thread ends.
    ended: Receiver<Infallible>,
    thread: String,
    /// How many threads the group has had before.
    generation: u32,
    monitor: CallMonitor,
    hang_detector: HangDetector,
    /// Whether it has an order that it has not answered.
    is_running: bool,
}

/// How long a group may take for its position, or to get back to one.
const POSITION_WITHIN: Duration = Duration::from_secs(600);

struct Reply {
    group: usize,
    generation: u32,
    body: ReplyBody,
}

enum ReplyBody {
    Made(Result<EnvSpec, EnvFailure>),
    Done { step: Box<GroupStep>, outcome: Result<(), EnvFailure> },
}

impl ThreadedPool {
    /// Starts the threads, which build their environments in parallel.
    /// Errors: an environment that cannot be built in time, or a thread that cannot be spawned.
    pub(crate) fn new(
        config: PoolConfig,
        factory: Arc<dyn EnvFactory>,
        token: &ShutdownToken,
        monitor: &CallMonitor,
    ) -> Result<Self, EnvFailure> {
        let error = |text: String| config.context.failure_to_make(EnvFailureCause::Error(EnvError::new(text)));
        // Two replies per group: one of its thread, and a late one of an abandoned thread.
        let (replies, answers) = inqueue(2 * config.n_groups, Gate::Bounded, token)
            .map_err(|_| error("a worker needs a group of environments".into()))?;
        let mut groups = Vec::with_capacity(config.n_groups);
        for group in 0..config.n_groups {
            let first = Generation { group, number: 0, incarnation: config.context.incarnation, begins: Begins::Now };
            groups.push(Group::spawn(&config, first, &factory, &replies, monitor)?);
        }
        let mut checks = HangChecks::new(config.env_hang_timeout);
        let specs = wait_for_specs(&config, (&mut groups, &mut checks), &answers)?;
        let Some(spec) = specs.first().cloned() else {
            return Err(error("a worker needs a group of environments".into()));
        };
        match specs.iter().find(|other| **other != spec) {
            Some(other) => Err(error(format!(
                "the environments of one worker must have one spec: the first is {spec}, another {other}"
            ))),
            None => Ok(Self {
                config,
                factory,
                spec,
                groups,
                replies,
                answers,
                monitor: monitor.clone(),
                checks,
                lost: VecDeque::new(),
            }),
        }
    }

    /// Answers for every group that hangs in a call of an environment.
    fn find_hanging(&mut self) {
        for number in 0..self.groups.len() {
            let group = &mut self.groups[number];
            if group.is_running
                && let Some((call, silent_for)) = group.hangs(self.config.env_hang_timeout)
                && let Some(failure) = self.replace(number, &call, silent_for)
            {
                let step = Box::new(GroupStep::new(&self.spec, self.config.group_size));
                self.lost.push_back(Answer { group: number, step, outcome: Err(failure) });
            }
        }
    }

    /// Abandons a group's thread and starts another; `None` if the call has just returned.
    fn replace(&mut self, number: usize, call: &EnvCall, silent_for: Duration) -> Option<GroupFailure> {
        let Self { config, factory, spec, groups, replies, monitor, .. } = self;
        let group = &mut groups[number];
        group.monitor.take_over(call)?;
        let context = context_of(config, number);
        let failure = EnvFailure {
            env: spec.name.clone(),
            index: context.first_env + call.index,
            incarnation: call.incarnation,
            place: call.place,
            ..context.failure_to_make(EnvFailureCause::Hang { silent_for, last_obs: None })
        };
        let next = Generation {
            group: number,
            number: group.generation + 1,
            incarnation: call.incarnation,
            begins: Begins::WithTheFirstReset(spec.clone()),
        };
        let abandoned = Some(group.thread.clone());
        match Group::spawn(config, next, factory, replies, monitor) {
            Ok(next) => *group = next,
            // `send` answers its orders with an error.
            Err(_no_thread) => group.orders = None,
        }
        group.is_running = false;
        Some(GroupFailure { failure, abandoned })
    }
}

impl EnvPool for ThreadedPool {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn n_groups(&self) -> usize {
        self.groups.len()
    }

    fn group_size(&self) -> usize {
        self.config.group_size
    }

    fn send(&mut self, group: usize, order: Box<GroupStep>) {
        let number = group;
        let group = &mut self.groups[number];
        group.is_running = true;
        let refused = match &group.orders {
            Some(orders) => match orders.send(GroupOrder::Step(order)) {
                Err(SendError(GroupOrder::Step(step))) => Some(step),
                Err(_) | Ok(()) => None,
            },
            None => Some(order),
        };
        if let Some(step) = refused {
            // The thread is gone: a panic outside the environments, or no thread at all.
            let cause = EnvFailureCause::Error(EnvError::new("the thread of this group of environments is gone"));
            let outcome = Err(context_of(&self.config, number).failure_to_make(cause));
            let body = ReplyBody::Done { step, outcome };
            // Full or closed only when the worker no longer receives.
            let _ = self.replies.try_push(Reply { group: number, generation: group.generation, body });
        }
    }

    fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Closed> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(lost) = self.lost.pop_front() {
                return Ok(Some(lost));
            }
            match self.checks.wait(&self.answers, deadline)? {
                Waited::Answer(Reply { group, generation, body: ReplyBody::Done { step, outcome } })
                    if generation == self.groups[group].generation =>
                {
                    self.groups[group].is_running = false;
                    let outcome = outcome.map_err(|failure| GroupFailure { failure, abandoned: None });
                    return Ok(Some(Answer { group, step, outcome }));
                }
                // A late reply of an abandoned thread.
                Waited::Answer(_) => {}
                Waited::CheckForHangs => self.find_hanging(),
                Waited::TimedOut => return Ok(None),
            }
        }
    }

    fn close(&mut self) -> Vec<String> {
        for group in &mut self.groups {
            group.orders = None;
        }
        let deadline = Instant::now() + CLOSE_WITHIN;
        // Nothing is ever sent; the channel closes as the thread ends.
        let has_ended = |group: &Group| group.ended.recv_deadline(deadline).is_err_and(|end| end.is_disconnected());
        self.groups.iter().filter(|group| !has_ended(group)).map(|group| group.thread.clone()).collect()
    }

    fn save(&mut self, group: usize, obs: ObsColumn) -> Result<GroupPosition, String> {
        let (reply, answer) = bounded(1);
        let group = &self.groups[group];
        let sent = group.orders.as_ref().is_some_and(|orders| orders.send(GroupOrder::Save { obs, reply }).is_ok());
        let answer = sent.then(|| answer.recv_timeout(POSITION_WITHIN).ok()).flatten();
        answer.unwrap_or_else(|| Err(format!("{} does not answer", group.thread)))
    }

    fn load(&mut self, saved: Vec<GroupPosition>) -> Vec<Vec<Restarted>> {
        let deadline = Instant::now() + POSITION_WITHIN;
        let send = |(group, saved): (&Group, GroupPosition)| {
            let (reply, answer) = bounded(1);
            let order = GroupOrder::Load { saved, reply };
            group.orders.as_ref().and_then(|orders| orders.send(order).ok()).map(|()| answer)
        };
        let answers: Vec<_> = self.groups.iter().zip(saved).map(send).collect();
        let received = answers.into_iter().map(|answer| answer.and_then(|answer| answer.recv_deadline(deadline).ok()));
        let late = |number: usize| {
            let why = format!("{} did not get back within {POSITION_WITHIN:?}", self.groups[number].thread);
            Restarted::all(context_of(&self.config, number).first_env, self.config.group_size, &why)
        };
        received.enumerate().map(|(number, restarted)| restarted.unwrap_or_else(|| late(number))).collect()
    }
}

/// Waits until every group has built its environments.
fn wait_for_specs(
    config: &PoolConfig,
    (groups, checks): (&mut [Group], &mut HangChecks),
    answers: &InqueueReceiver<Reply>,
) -> Result<Vec<EnvSpec>, EnvFailure> {
    let mut specs = vec![None; config.n_groups];
    while specs.iter().any(Option::is_none) {
        let waited = checks.wait(answers, None).map_err(|Closed(())| {
            config.context.failure_to_make(EnvFailureCause::Error(EnvError::new("the run is ending")))
        })?;
        match waited {
            Waited::Answer(Reply { group, body: ReplyBody::Made(made), .. }) => specs[group] = Some(made?),
            Waited::CheckForHangs => {
                for (number, group) in groups.iter_mut().enumerate() {
                    if let Some((call, silent_for)) = group.hangs(config.env_hang_timeout) {
                        let cause = EnvFailureCause::Hang { silent_for, last_obs: None };
                        return Err(context_of(config, number).failure(None, call.index, call.place, cause));
                    }
                }
            }
            // No order was sent, and there is no deadline.
            Waited::Answer(_) | Waited::TimedOut => {}
        }
    }
    Ok(specs.into_iter().flatten().collect())
}

fn context_of(config: &PoolConfig, group: usize) -> VectorContext {
    VectorContext { first_env: (group * config.group_size) as u32, ..config.context }
}

/// Which thread of which group.
struct Generation {
    group: usize,
    number: u32,
    /// Of its environments; the one before, if they are built at the first reset.
    incarnation: u32,
    begins: Begins,
}

/// When a thread builds its first environments.
enum Begins {
    Now,
    /// For a replacement; the spec is that of the environments before.
    WithTheFirstReset(EnvSpec),
}

impl Group {
    /// The call that it hangs in, and for how long.
    fn hangs(&mut self, env_hang_timeout: Option<Duration>) -> Option<(EnvCall, Duration)> {
        let timeout = env_hang_timeout?;
        self.hang_detector.poll(&self.monitor).filter(|(_, silent_for)| *silent_for >= timeout)
    }

    fn spawn(
        config: &PoolConfig,
        generation: Generation,
        factory: &Arc<dyn EnvFactory>,
        replies: &InqueueSender<Reply>,
        of_worker: &CallMonitor,
    ) -> Result<Self, EnvFailure> {
        let Generation { group, number, incarnation, begins } = generation;
        let (spec, begins_now) = match begins {
            Begins::Now => (None, true),
            Begins::WithTheFirstReset(spec) => (Some(spec), false),
        };
        let first = format!("rollout-{}-envs-{group}", config.context.worker);
        let name = if number == 0 { first.clone() } else { format!("{first}.{number}") };
        let monitor = of_worker.of_another_thread();
        let (orders, received) = bounded::<GroupOrder>(1);
        let (ending, ended) = bounded(0);
        let mut stepper = Stepper {
            context: VectorContext { incarnation, ..context_of(config, group) },
            size: config.group_size,
            factory: Arc::clone(factory),
            monitor: monitor.clone(),
            envs: None,
            spec,
            saves_envs: config.saves_envs,
            clock: StateClock::new(first, EnvThreadState::Waiting),
        };
        let clock = stepper.clock.reader();
        let replies = replies.clone();
        let body = move || {
            let reply = |body| replies.push(Reply { group, generation: number, body }).is_ok();
            let made = !begins_now || reply(ReplyBody::Made(stepper.make()));
            if made {
                stepper.run(&received, |step, outcome| reply(ReplyBody::Done { step, outcome }));
            }
            // A panic in a destructor is contained.
            let _ = catch(|| drop(stepper));
            drop::<Sender<Infallible>>(ending);
        };
        thread::Builder::new().name(name.clone()).spawn(body).map_err(|error| {
            let text = format!("the thread {name} could not be started: {error}");
            config.context.failure_to_make(EnvFailureCause::Error(EnvError::new(text)))
        })?;
        monitor.time().add(clock);
        let hang_detector = HangDetector::new();
        Ok(Self {
            orders: Some(orders),
            ended,
            thread: name,
            generation: number,
            monitor,
            hang_detector,
            is_running: false,
        })
    }
}
