//! [`Group`]: the environments of one process, driven by orders of one byte and read through shared memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use pronk_policy::ObsDtype;
use pronk_rollout::{ActionRef, AgentSpec, CallMonitor, End, EnvError, EnvSpec, Frame, MultiAgentSpec, ObsMut};

use crate::child::{Child, Deadline, GRACE};
use crate::error::ProcessError;
use crate::greeting::{self, BadLine, Greeting, Introduction, PROTOCOL, Size};
use crate::layout::{FRAME_BYTES, Layout, MAGIC, header, mask_len};
use crate::memory::{Memory, Unmapped};
use crate::order::Order;
use crate::settings::ProcessEnvs;

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
}

impl Starting {
    /// `first_env` is the index of its first environment within the worker.
    pub(crate) fn begin(
        envs: &ProcessEnvs,
        first_env: usize,
        n_envs: usize,
        Purpose { autoreset, render }: Purpose,
        monitor: &CallMonitor,
    ) -> Result<Self, ProcessError> {
        let deadline = Deadline {
            doing: "it made its environments",
            since: Instant::now(),
            limit: envs.start_timeout,
            setting: "start_timeout",
        };
        let (memory, theirs) = Unmapped::create().map_err(|source| ProcessError::System {
            command: envs.program.name(),
            what: "make the shared memory",
            source,
        })?;
        let mut child = Child::start(&envs.program, theirs, envs.output, monitor.time())?;
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
        let Introduction { spec, one_by_one, renders } = introduction;
        if autoreset && spec.agents.len() != 1 {
            return Err(child.broke(not_one(&spec)));
        }
        let Some(layout) = Layout::of(&spec.agents, n_envs, autoreset, renders) else {
            return Err(child.broke(format!("no memory holds {n_envs} environments of {spec}")));
        };
        let memory = memory.map(layout.bytes).map_err(|error| child.cannot("map the shared memory", error))?;
        memory.write(header::MAGIC, &MAGIC);
        memory.write(header::PROTOCOL, &[PROTOCOL]);
        memory.write(header::ENVS, &[n_envs as u32]);
        memory.write(header::AGENTS, &[spec.agents.len() as u32]);

        child.say(&line(&Size { shared_bytes: layout.bytes }), &deadline)?;
        let line_of_theirs = child.line(&deadline)?;
        greeting::agreed(&line_of_theirs, layout.bytes).map_err(|bad| not_understood(&mut child, bad))?;
        child.is_ready(close_timeout);
        Ok(Group { child, memory, layout, spec, one_by_one, renders, first_env, n_envs })
    }
}

fn not_understood(child: &mut Child, bad: BadLine) -> ProcessError {
    match bad {
        BadLine::Refused(reason) => ProcessError::Refused { reason },
        BadLine::Broken(what) => child.broke(what),
    }
}

fn not_one(spec: &MultiAgentSpec) -> String {
    format!("it has {} agents where one was due", spec.agents.len())
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
    memory: Memory,
    layout: Layout,
    spec: MultiAgentSpec,
    one_by_one: bool,
    renders: bool,
    first_env: usize,
    n_envs: usize,
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
        &self.spec
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
        self.n_envs
    }

    /// Sets the seed of an environment's next episode.
    pub(crate) fn set_seed(&self, env: usize, seed: u64) {
        self.memory.write(self.layout.seeds + env * size_of::<u64>(), &[seed]);
    }

    /// Sends an order to all environments, or to the `only` one.
    pub(crate) fn order(&mut self, order: Order, only: Option<usize>, deadline: &Deadline) -> Result<(), Failed> {
        // Written, so that a failure is not attributed to the child's previous call.
        self.memory.write(header::ENV, &[only.unwrap_or(0) as u32, order as u32]);
        self.child.order(order.byte(only), deadline).map_err(|error| self.failed(order, error))
    }

    /// Has the child draw from now on the state in which each episode of an environment ends.
    pub(crate) fn keep_last_frames(&self, env: usize) {
        self.memory.write(header::KEEP_LAST, &[env as u32 + 1]);
    }

    /// Reads the frame that the child drew last; `None` if the environment drew none.
    pub(crate) fn frame(&mut self, env: usize) -> Result<Option<Frame>, Failed> {
        let mut told = [0u32; 3];
        self.memory.read(header::FRAME, &mut told);
        let [width, height, fps] = told;
        if (width, height) == (0, 0) {
            return Ok(None);
        }
        let bytes = u64::from(width) * u64::from(height) * 3;
        if bytes > FRAME_BYTES as u64 {
            let text =
                format!("it drew {width} × {height} pixels, {bytes} bytes, and a frame has {FRAME_BYTES} at most");
            return Err(self.broke(env, Order::Render, text));
        }
        let mut rgb = vec![0; bytes as usize];
        self.memory.read(self.layout.frame, &mut rgb);
        let fps = if fps == 0 { Frame::DEFAULT_FPS } else { fps.try_into().unwrap_or(u16::MAX) };
        match Frame::new(width, height, rgb) {
            Ok(frame) => Ok(Some(frame.with_fps(fps))),
            Err(error) => Err(self.broke(env, Order::Render, error.to_string())),
        }
    }

    /// Waits for the child's answer, output or end.
    pub(crate) fn listen(&self, deadline: &Deadline) {
        self.child.listen(deadline);
    }

    /// Waits for the answer to an order.
    pub(crate) fn answer(&mut self, order: Order, deadline: &Deadline) -> Result<(), Failed> {
        let error = match self.child.answer(deadline) {
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

    /// Writes the actions of these environments; rows of agents that do not act are ignored.
    pub(crate) fn act(&self, agent: usize, envs: Range<usize>, actions: ActionRef<'_>) -> Result<(), EnvError> {
        let (at, space) = (self.layout.agents[agent].actions, &self.spec.agents[agent].action);
        // An action is a u32 or an f32.
        let at = at + envs.start * space.act_len() * size_of::<u32>();
        let due = envs.len() * space.act_len();
        match (actions, space.has_discrete_actions()) {
            (ActionRef::Discrete(indices), true) if indices.len() == due => self.memory.write(at, indices),
            (ActionRef::Continuous(values), false) if values.len() == due => self.memory.write(at, values),
            (other, _) => return Err(EnvError::new(format!("{due} numbers of {space} are due, got {other:?}"))),
        }
        Ok(())
    }

    /// Reads observations from environment `first` on, as many as fit.
    pub(crate) fn observe(&self, agent: usize, first: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.copy_obs(self.layout.agents[agent].observations, agent, first, obs)
    }

    /// Reads the final observation of the episode that an environment ended.
    pub(crate) fn final_observation(&self, env: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.copy_obs(self.layout.agents[0].final_observations, 0, env, obs)
    }

    /// Reads the rewards of an agent from environment `first` on, as many as fit.
    pub(crate) fn rewards(&self, agent: usize, first: usize, into: &mut [f64]) {
        self.memory.read(self.layout.agents[agent].rewards + first * size_of::<f64>(), into);
    }

    /// Reads how the step ended an agent's episodes, from environment `first` on, as many as fit.
    pub(crate) fn ends(&mut self, agent: usize, first: usize, into: &mut [End]) -> Result<(), Failed> {
        let at = self.layout.agents[agent].ends;
        for (env, end) in (first..).zip(into) {
            *end = match self.memory.get::<u8>(at + env) {
                0 => End::No,
                1 => End::Terminated,
                2 => End::Truncated,
                other => {
                    let text = format!("it wrote {other} where an end was due: 0, 1 or 2");
                    return Err(self.broke(env, Order::Step, text));
                }
            };
        }
        Ok(())
    }

    /// Whether an agent acts in the next step; without autoreset only.
    pub(crate) fn is_asked(&self, agent: usize, env: usize) -> bool {
        self.memory.get::<u8>(self.layout.agents[agent].asked + env) != 0
    }

    /// Reads the action masks of an agent, `[n, dist_len]`.
    pub(crate) fn masks(&self, agent: usize, masks: &mut [bool]) -> Result<(), EnvError> {
        let AgentSpec { action_mask, action, .. } = &self.spec.agents[agent];
        if !action_mask {
            masks.fill(true);
            return Ok(());
        }
        let due = self.n_envs * mask_len(action);
        if masks.len() != due {
            return Err(EnvError::new(format!("a mask has {due} elements, {} are to be written", masks.len())));
        }
        let (mut at, mut bytes) = (self.layout.agents[agent].masks, [0u8; 64]);
        for some in masks.chunks_mut(bytes.len()) {
            let bytes = &mut bytes[..some.len()];
            self.memory.read(at, bytes);
            some.iter_mut().zip(&*bytes).for_each(|(possible, byte)| *possible = *byte != 0);
            at += some.len();
        }
        Ok(())
    }

    /// The error of a group with several agents where one is required.
    pub(crate) fn not_alone(&mut self) -> ProcessError {
        self.child.broke(not_one(&self.spec))
    }

    fn copy_obs(&self, section: usize, agent: usize, first: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        let space = &self.spec.agents[agent].observation;
        let (before, there) = (first * space.obs_len(), (self.n_envs - first) * space.obs_len());
        let fits = obs.len() <= there && obs.len().is_multiple_of(space.obs_len());
        match (obs, space.obs_dtype()) {
            (ObsMut::F32(rows), ObsDtype::F32) if fits => {
                self.memory.read(section + before * size_of::<f32>(), rows);
            }
            (ObsMut::U8(rows), ObsDtype::U8) if fits => self.memory.read(section + before, rows),
            (rows, _) => {
                let kind = if matches!(rows, ObsMut::F32(_)) { "f32" } else { "u8" };
                let text = format!("observations of {space} do not fit into {} numbers of {kind}", rows.len());
                return Err(EnvError::new(text));
            }
        }
        Ok(())
    }

    /// The exception that the child reported.
    #[cold]
    fn raised(&mut self) -> ProcessError {
        let len = self.memory.get::<u32>(header::MESSAGE_LEN) as usize;
        if len > header::END - header::MESSAGE {
            return self.child.broke(format!("its message is said to have {len} bytes"));
        }
        let mut text = vec![0u8; len];
        self.memory.read(header::MESSAGE, &mut text);
        self.child.hang_up();
        ProcessError::Raised { message: String::from_utf8_lossy(&text).trim_end().to_owned() }
    }

    #[cold]
    fn broke(&mut self, env: usize, call: Order, what: String) -> Failed {
        Failed { env, call, error: self.child.broke(what) }
    }

    #[cold]
    fn failed(&self, order: Order, error: ProcessError) -> Failed {
        let env = self.memory.get::<u32>(header::ENV) as usize;
        let call = match self.memory.get::<u32>(header::CALL) {
            1 if order == Order::Step => Order::Reset,
            3 if order == Order::Step => Order::Render,
            _ => order,
        };
        Failed { env: if env < self.n_envs { env } else { 0 }, call, error }
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
