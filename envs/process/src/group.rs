//! [`Group`]: the environments of one process, driven by orders of one byte.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pronk_rollout::{AgentSpec, CallMonitor, End, EnvSpec, Frame, MultiAgentSpec};

use crate::child::{Child, Deadline, GRACE};
use crate::error::ProcessError;
use crate::greeting::{self, BadLine, Greeting, Introduction, PROTOCOL, Size, not_one};
use crate::memory::Unmapped;
use crate::order::Order;
use crate::settings::ProcessEnvs;
use crate::shared::{Broken, Shared};

/// A process that is making its environments. Several can do so in parallel.
pub(crate) struct Starting {
    child: Child,
    memory: Unmapped,
    first_env: usize,
    n_envs: usize,
    autoreset: bool,
    close_timeout: Duration,
    deadline: Deadline,
}

/// What a process is started for.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    /// Whether an environment whose episode ends begins the next one within the same step.
    pub(crate) autoreset: bool,
    /// Whether frames will be asked for.
    pub(crate) render: bool,
    /// For what is random in the construction of its environments.
    pub(crate) seed: u64,
}

impl Starting {
    /// `first_env` is the index of its first environment within the worker.
    pub(crate) fn begin(
        envs: &ProcessEnvs,
        first_env: usize,
        n_envs: usize,
        Purpose { autoreset, render, seed }: Purpose,
        monitor: &CallMonitor,
    ) -> Result<Self, ProcessError> {
        let deadline = Deadline {
            doing: "it made its environments",
            since: Instant::now(),
            // They are made one after the other, and one more may be made to ask whether it can be drawn.
            limit: envs.start_timeout.saturating_mul(n_envs as u32 + u32::from(render)),
            setting: ("start_timeout", envs.start_timeout),
        };
        let (memory, theirs) = Unmapped::create().map_err(|source| ProcessError::System {
            command: envs.program.name(),
            what: "make the shared memory",
            source,
        })?;
        let mut child = Child::start(&envs.program, seed, theirs, envs.output, monitor)?;
        let greeting = Greeting { protocol: PROTOCOL, envs: n_envs, autoreset, config: &envs.program.config, render };
        child.say(&line(&greeting), &deadline)?;
        Ok(Self { child, memory, first_env, n_envs, autoreset, close_timeout: envs.close_timeout, deadline })
    }

    pub(crate) fn first_env(&self) -> usize {
        self.first_env
    }

    /// Waits until they are made.
    pub(crate) fn finish(self) -> Result<Group, ProcessError> {
        let Self { mut child, memory, first_env, n_envs, autoreset, close_timeout, deadline } = self;
        let line_of_theirs = child.line(&deadline)?;
        let introduction = greeting::hello(&line_of_theirs).map_err(|bad| not_understood(&mut child, bad))?;
        let layout = introduction.layout(n_envs, autoreset).map_err(|bad| not_understood(&mut child, bad))?;
        let Introduction { spec, one_by_one, renders } = introduction;
        let shared = Shared::map(memory, spec, layout, n_envs);
        let shared = shared.map_err(|error| child.cannot("map the shared memory", error))?;

        // Other processes of the worker may have had longer, so its own time may be over.
        let deadline = Deadline { since: Instant::now(), ..deadline };
        child.say(&line(&Size { shared_bytes: shared.bytes() }), &deadline)?;
        let line_of_theirs = child.line(&deadline)?;
        greeting::agreed(&line_of_theirs, shared.bytes()).map_err(|bad| not_understood(&mut child, bad))?;
        child.is_ready(close_timeout);
        Ok(Group { child, shared, told: (0, 0), one_by_one, renders, first_env })
    }
}

fn not_understood(child: &mut Child, bad: BadLine) -> ProcessError {
    match bad {
        BadLine::Refused(reason) => ProcessError::Refused { reason },
        BadLine::Broken(what) => child.broke(what),
    }
}

fn line(value: &impl serde::Serialize) -> Vec<u8> {
    // Fails only for keys that are not strings; there are none.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A process with its environments.
pub(crate) struct Group {
    child: Child,
    shared: Shared,
    /// The environment and the call of the newest order.
    told: (usize, u32),
    one_by_one: bool,
    renders: bool,
    first_env: usize,
}

/// An order that failed.
pub(crate) struct Failed {
    /// The environment, or the first if unknown.
    pub(crate) env: usize,
    /// What it was doing, such as a reset within a step.
    pub(crate) call: Order,
    pub(crate) error: ProcessError,
}

impl Group {
    pub(crate) fn spec(&self) -> &MultiAgentSpec {
        self.shared.spec()
    }

    /// What its environments are told, and what they have come to.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether an order can be for one environment alone.
    pub(crate) fn one_by_one(&self) -> bool {
        self.one_by_one
    }

    /// Whether its environments can be drawn.
    pub(crate) fn renders(&self) -> bool {
        self.renders
    }

    /// The index of its first environment within the worker.
    pub(crate) fn first_env(&self) -> usize {
        self.first_env
    }

    pub(crate) fn n_envs(&self) -> usize {
        self.shared.n_envs()
    }

    /// Sends an order to all environments, or to the `only` one.
    pub(crate) fn order(&mut self, order: Order, only: Option<usize>, deadline: &Deadline) -> Result<(), Failed> {
        // Written, so that a failure is not attributed to the child's previous call.
        self.told = (only.unwrap_or(0), order as u32);
        self.shared.set_call(self.told.0, self.told.1);
        self.child.order(order.byte(only), deadline).map_err(|error| self.failed(order, error))
    }

    /// Waits for the child's answer, output or end.
    pub(crate) fn listen(&self, deadline: &Deadline) {
        self.child.listen(deadline);
    }

    /// Waits for the answer to an order. The deadline is for each call of an environment, as far as the child
    /// says which one it calls.
    pub(crate) fn answer(&mut self, order: Order, deadline: &Deadline) -> Result<(), Failed> {
        let Self { child, shared, told, .. } = self;
        // A step and the reset after it, of each environment; a child that says more has lost its way.
        let (mut seen, mut calls) = (*told, 2 * shared.n_envs());
        let mut has_moved = || {
            let before = std::mem::replace(&mut seen, shared.call());
            let has_moved = seen != before && calls > 0;
            calls -= usize::from(has_moved);
            has_moved
        };
        let error = match child.answer(deadline, &mut has_moved) {
            Ok(b'k') => return Ok(()),
            Ok(b'e') => self.raised(),
            Ok(other) => {
                let text = format!("it answered {:?} where `k` or `e` was due", char::from(other));
                self.child.broke(text)
            }
            Err(error) => error,
        };
        Err(self.failed(order, error))
    }

    /// Reads the frame that the child drew last; `None` if the environment drew none.
    pub(crate) fn frame(&mut self, env: usize) -> Result<Option<Frame>, Failed> {
        self.shared.frame(env).map_err(|broken| self.broke(Order::Render, broken))
    }

    /// Reads how the step ended an agent's episodes, from environment `first` on, as many as fit.
    pub(crate) fn ends(&mut self, agent: usize, first: usize, into: &mut [End]) -> Result<(), Failed> {
        self.shared.ends(agent, first, into).map_err(|broken| self.broke(Order::Step, broken))
    }

    /// The error of a group with several agents where one is required.
    pub(crate) fn not_alone(&mut self) -> ProcessError {
        self.child.broke(not_one(self.shared.spec()))
    }

    /// The exception that the child reported.
    #[cold]
    fn raised(&mut self) -> ProcessError {
        match self.shared.message() {
            Ok(message) => {
                self.child.hang_up();
                ProcessError::Raised { message }
            }
            Err(what) => self.child.broke(what),
        }
    }

    #[cold]
    fn broke(&mut self, call: Order, Broken { env, what }: Broken) -> Failed {
        Failed { env, call, error: self.child.broke(what) }
    }

    #[cold]
    fn failed(&self, order: Order, error: ProcessError) -> Failed {
        let (env, call) = self.shared.call();
        let call = match call {
            1 if order == Order::Step => Order::Reset,
            3 if order == Order::Step => Order::Render,
            _ => order,
        };
        Failed { env, call, error }
    }
}

/// The processes of one worker. When dropped, they end in parallel, and the run's reaper waits for them.
pub(crate) struct Groups {
    /// Those that are making their environments.
    pub(crate) starting: VecDeque<Starting>,
    /// Those that have made them.
    pub(crate) list: Vec<Group>,
    monitor: CallMonitor,
    /// Name of the thread that waits for their end.
    thread: String,
    close_timeout: Duration,
}

impl Groups {
    /// No processes yet, for this worker.
    pub(crate) fn new(envs: &ProcessEnvs, worker: u32, monitor: &CallMonitor) -> Self {
        let thread = format!("rollout-{worker}-closing");
        let (starting, list) = (VecDeque::new(), Vec::new());
        Self { starting, list, monitor: monitor.clone(), thread, close_timeout: envs.close_timeout }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let starting = self.starting.drain(..).map(|group| group.child);
        let mut children: Vec<Child> = starting.chain(self.list.drain(..).map(|group| group.child)).collect();
        if children.is_empty() {
            return;
        }
        children.iter_mut().for_each(Child::hang_up);
        // Plus time to kill those that do not close.
        let limit = self.close_timeout.saturating_add(2 * GRACE);
        self.monitor.reap(&self.thread, limit, move || drop(children));
    }
}

/// The spec of its only agent, if there is only one.
pub(crate) fn spec_alone(spec: &MultiAgentSpec) -> Option<EnvSpec> {
    let [AgentSpec { observation, action, action_mask, .. }] = &*spec.agents else { return None };
    Some(EnvSpec {
        name: spec.name.clone(),
        observation: observation.clone(),
        action: action.clone(),
        max_episode_steps: spec.max_episode_steps,
        action_mask: *action_mask,
    })
}
