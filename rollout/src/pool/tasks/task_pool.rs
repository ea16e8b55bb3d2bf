use std::collections::VecDeque;
use std::time::Duration;

use pronk_buffer::{Closed, ObsColumn, PopError, ShutdownToken};
use pronk_metrics::TimeLedger;

use super::make::EnvTasks;
use super::request::{Reply, TaskRequest};
use super::task_set::Batch;
use super::thread::{Generation, TaskThread};
use crate::env::{EnvCall, EnvError, EnvFailure, EnvFailureCause, EnvSpec, FailurePlace, Restarted, VectorContext};
use crate::pool::{
    Answer, CLOSE_WITHIN, EnvPool, GroupFailure, GroupPosition, GroupStep, HangChecks, PoolConfig, Waited,
};
use crate::sync::Instant;

/// Environments that are tasks of one thread, `rollout-1-tasks`; each is a group of its own.
pub(crate) struct TaskPool {
    config: PoolConfig,
    tasks: EnvTasks,
    token: ShutdownToken,
    time: TimeLedger,
    spec: EnvSpec,
    /// `None` after one was abandoned, until the next order, and at the end.
    thread: Option<TaskThread>,
    /// Of the current thread, or the next.
    generation: Generation,
    /// How often each environment was rebuilt.
    incarnations: Vec<u32>,
    /// Environments with an unanswered order.
    running: Vec<bool>,
    /// Orders not yet sent to the thread, which is woken once for all of them.
    outbox: Batch,
    /// Answers for environments that were lost.
    lost: VecDeque<Answer>,
    checks: HangChecks,
}

impl TaskPool {
    /// Starts the thread and builds the first environment, whose spec all others must have. The others are
    /// built at their first reset.
    /// Errors: a first environment that cannot be built in time, or a thread that cannot be spawned.
    pub(crate) fn new(
        config: PoolConfig,
        tasks: EnvTasks,
        (token, time): (&ShutdownToken, &TimeLedger),
    ) -> Result<Self, EnvFailure> {
        let failure = |cause| config.context.failure_to_make(cause);
        if config.n_groups == 0 {
            return Err(failure(EnvFailureCause::Error(EnvError::new(
                "a vector needs at least one environment, got 0",
            ))));
        }
        let mut generation = Generation { number: 0, spec: None, blocked_by: None };
        let (token, time) = (token.clone(), time.clone());
        let thread = TaskThread::start(&config, &tasks, (&token, &time), generation.clone());
        let thread = thread.map_err(|error| failure(EnvFailureCause::Error(error)))?;
        let spec = loop {
            match thread.answers.pop(config.env_hang_timeout.unwrap_or(Duration::MAX)) {
                Ok(Reply::Made(made)) => break made?,
                // No order was sent.
                Ok(Reply::Done(_)) => {}
                Err(PopError::TimedOut) => {
                    let silent_for = config.env_hang_timeout.unwrap_or_default();
                    return Err(failure(EnvFailureCause::Hang { silent_for, last_obs: None }));
                }
                Err(PopError::Closed) => {
                    return Err(failure(EnvFailureCause::Error(EnvError::new("the run is ending"))));
                }
            }
        };
        generation.spec = Some(spec.clone());
        Ok(Self {
            tasks,
            token,
            time,
            spec,
            thread: Some(thread),
            generation,
            incarnations: vec![config.context.incarnation; config.n_groups],
            running: vec![false; config.n_groups],
            outbox: Batch::default(),
            lost: VecDeque::new(),
            checks: HangChecks::new(config.env_hang_timeout),
            config,
        })
    }

    /// Sends the queued orders to the thread, which is started first if there is none.
    fn post(&mut self) {
        if self.outbox.0.is_empty() {
            return;
        }
        let orders = std::mem::take(&mut self.outbox);
        let Err((refused, why)) = self.give(orders) else { return };
        for (group, TaskRequest { step, .. }) in refused.0 {
            self.lose(group, step, FailurePlace::Unknown, EnvFailureCause::Error(EnvError::new(why.clone())), None);
        }
    }

    /// Sends orders to the thread; returns them with the reason if it cannot.
    fn give(&mut self, orders: Batch) -> Result<(), (Batch, String)> {
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => {
                let next = self.generation.clone();
                match TaskThread::start(&self.config, &self.tasks, (&self.token, &self.time), next) {
                    Ok(thread) => none.insert(thread),
                    Err(error) => return Err((orders, error.to_string())),
                }
            }
        };
        let gone = || format!("the thread {} is gone", thread.name);
        thread.orders.post(orders).map_err(|Closed(orders)| (orders, gone()))
    }

    /// Abandons the thread, and with it all environments, if a call blocks it for longer than the timeout.
    fn find_blocking(&mut self) {
        let Some(timeout) = self.config.env_hang_timeout else { return };
        let Some(thread) = &mut self.thread else { return };
        let Some((call, silent_for)) = thread.hang_detector.poll(&thread.monitor) else { return };
        // Answers from before the call blocked come first.
        if silent_for < timeout || !thread.answers.is_empty() || thread.monitor.take_over(&call).is_none() {
            return;
        }
        let abandoned = thread.name.clone();
        // The next orders start another.
        self.thread = None;
        self.generation.number += 1;
        self.generation.blocked_by = Some(call.index);
        let EnvCall { index, place, .. } = call;
        let blocking = index as usize;
        let step = || Box::new(GroupStep::new(&self.spec, 1));
        let (hanging, others): (Vec<_>, Vec<_>) = (0..self.config.n_groups)
            .filter(|group| self.running[*group])
            .map(|group| (group, step()))
            .partition(|(group, _)| *group == blocking);
        for (group, step) in hanging {
            let cause = EnvFailureCause::Hang { silent_for, last_obs: None };
            self.lose(group, step, place, cause, Some(abandoned.clone()));
        }
        for (group, step) in others {
            self.lose(group, step, FailurePlace::Unknown, EnvFailureCause::Lost { blocked_by: index }, None);
        }
    }

    /// Answers for a lost environment.
    fn lose(
        &mut self,
        group: usize,
        step: Box<GroupStep>,
        place: FailurePlace,
        cause: EnvFailureCause,
        abandoned: Option<String>,
    ) {
        let context = VectorContext { incarnation: self.incarnations[group], ..self.config.context };
        let failure = context.failure(Some(&self.spec), group as u32, place, cause);
        let outcome = Err(GroupFailure { failure, abandoned });
        self.lost.push_back(Answer { group, step, outcome });
    }

    fn answered(&mut self, answer: Answer) -> Answer {
        self.running[answer.group] = false;
        self.incarnations[answer.group] += u32::from(answer.outcome.is_err());
        answer
    }
}

impl EnvPool for TaskPool {
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
        self.outbox.0.push((group, TaskRequest { incarnation: self.incarnations[group], step: order }));
    }

    fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Closed> {
        self.post();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(lost) = self.lost.pop_front() {
                return Ok(Some(self.answered(lost)));
            }
            // Without a thread every order has been answered, so there is nothing to wait for.
            let Some(thread) = &self.thread else { return Ok(None) };
            match self.checks.wait(&thread.answers, deadline)? {
                Waited::Answer(Reply::Done(answer)) => return Ok(Some(self.answered(answer))),
                // The first environment's spec is known.
                Waited::Answer(Reply::Made(_)) => {}
                Waited::CheckForHangs => self.find_blocking(),
                Waited::TimedOut => return Ok(None),
            }
        }
    }

    fn close(&mut self) -> Vec<String> {
        let Some(TaskThread { orders, ended, name, .. }) = self.thread.take() else { return Vec::new() };
        drop(orders);
        // Nothing is ever sent; the channel closes as the thread ends.
        let ended = ended.recv_timeout(CLOSE_WITHIN);
        if ended.is_err_and(|end| end.is_disconnected()) { Vec::new() } else { vec![name] }
    }

    fn save(&mut self, _group: usize, _obs: ObsColumn) -> Result<GroupPosition, String> {
        Err("environments that are tasks cannot be saved".to_owned())
    }

    fn load(&mut self, saved: Vec<GroupPosition>) -> Vec<Vec<Restarted>> {
        let why = "environments that are tasks cannot be brought to a saved position";
        (0..saved.len() as u32).map(|index| vec![Restarted { index, why: why.to_owned() }]).collect()
    }
}
