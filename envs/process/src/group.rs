//! The environments of one process: what is said with a byte, and where the numbers are then.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use pronk_policy::ObsDtype;
use pronk_rollout::{ActionRef, AgentSpec, CallMonitor, End, EnvError, EnvSpec, MultiAgentSpec, ObsMut};

use crate::child::{Child, GRACE, Patience};
use crate::error::ProcessError;
use crate::greeting::{self, BadLine, Greeting, PROTOCOL, Size};
use crate::layout::{Layout, MAGIC, header, mask_len};
use crate::memory::{Memory, Unmapped};
use crate::settings::ProcessEnvs;

/// What a group can be told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Reset,
    Step,
}

impl Order {
    fn byte(self) -> u8 {
        match self {
            Order::Reset => b'r',
            Order::Step => b's',
        }
    }

    /// As the header has it.
    fn call(self) -> u32 {
        match self {
            Order::Reset => RESET,
            Order::Step => STEP,
        }
    }

    /// With how much patience an order given now is carried out.
    pub(crate) fn patience(self, envs: &ProcessEnvs) -> Patience {
        let doing = match self {
            Order::Reset => "its environments were reset",
            Order::Step => "its environments took a step",
        };
        Patience { doing, since: Instant::now(), limit: envs.step_timeout, setting: "step_timeout" }
    }
}

const RESET: u32 = 1;
const STEP: u32 = 2;

/// A process that makes its environments. Several can do so beside each other.
pub(crate) struct Starting {
    child: Child,
    memory: Unmapped,
    first_env: usize,
    n_envs: usize,
    autoreset: bool,
    close_timeout: Duration,
    patience: Patience,
}

impl Starting {
    /// `first_env` is the number that its first environment has elsewhere.
    pub(crate) fn begin(
        envs: &ProcessEnvs,
        first_env: usize,
        n_envs: usize,
        autoreset: bool,
        monitor: &CallMonitor,
    ) -> Result<Self, ProcessError> {
        let patience = Patience {
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
        let greeting = Greeting { protocol: PROTOCOL, envs: n_envs, autoreset, config: &envs.program.config };
        child.say(&line(&greeting), &patience)?;
        Ok(Self { child, memory, first_env, n_envs, autoreset, close_timeout: envs.close_timeout, patience })
    }

    pub(crate) fn first_env(&self) -> usize {
        self.first_env
    }

    /// Waits until they are made.
    pub(crate) fn finish(self) -> Result<Group, ProcessError> {
        let Self { mut child, memory, first_env, n_envs, autoreset, close_timeout, patience } = self;
        let line_of_theirs = child.line(&patience)?;
        let spec = greeting::hello(&line_of_theirs).map_err(|bad| not_understood(&mut child, bad))?;
        if autoreset && spec.agents.len() != 1 {
            return Err(child.broke(not_one(&spec)));
        }
        let Some(layout) = Layout::of(&spec.agents, n_envs, autoreset) else {
            return Err(child.broke(format!("no memory holds {n_envs} environments of {spec}")));
        };
        let memory = memory.map(layout.bytes).map_err(|error| child.cannot("map the shared memory", error))?;
        memory.write(header::MAGIC, &MAGIC);
        memory.write(header::PROTOCOL, &[PROTOCOL]);
        memory.write(header::ENVS, &[n_envs as u32]);
        memory.write(header::AGENTS, &[spec.agents.len() as u32]);

        child.say(&line(&Size { shared_bytes: layout.bytes }), &patience)?;
        let line_of_theirs = child.line(&patience)?;
        greeting::agreed(&line_of_theirs, layout.bytes).map_err(|bad| not_understood(&mut child, bad))?;
        child.is_ready(close_timeout);
        Ok(Group { child, memory, layout, spec, first_env, n_envs })
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
    // Neither has a key that is no text, which is all that could fail.
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
    first_env: usize,
    n_envs: usize,
}

/// An order that was not carried out.
pub(crate) struct Failed {
    /// Which environment, if that is known; otherwise the first.
    pub(crate) env: usize,
    /// Whether it was beginning an episode.
    pub(crate) resetting: bool,
    pub(crate) error: ProcessError,
}

impl Group {
    pub(crate) fn spec(&self) -> &MultiAgentSpec {
        &self.spec
    }

    /// The number that its first environment has elsewhere.
    pub(crate) fn first_env(&self) -> usize {
        self.first_env
    }

    pub(crate) fn n_envs(&self) -> usize {
        self.n_envs
    }

    /// The seed of the next episode of an environment.
    pub(crate) fn set_seed(&self, env: usize, seed: u64) {
        self.memory.write(self.layout.seeds + env * size_of::<u64>(), &[seed]);
    }

    /// Tells the child to begin.
    pub(crate) fn order(&mut self, order: Order, patience: &Patience) -> Result<(), Failed> {
        // One that has died before is not to be blamed for what it did last.
        self.memory.write(header::ENV, &[0, order.call()]);
        self.child.order(order.byte(), patience).map_err(|error| self.failed(order, error))
    }

    /// Waits until there is something to be heard of the child: its answer, its end, or what it prints.
    pub(crate) fn listen(&self, patience: &Patience) {
        self.child.listen(patience);
    }

    /// Waits until the child is done.
    pub(crate) fn answer(&mut self, order: Order, patience: &Patience) -> Result<(), Failed> {
        let error = match self.child.answer(patience) {
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

    /// What all environments do; only the rows of who acts have a meaning.
    pub(crate) fn act(&self, agent: usize, actions: ActionRef<'_>) -> Result<(), EnvError> {
        let (at, space) = (self.layout.agents[agent].actions, &self.spec.agents[agent].action);
        let due = self.n_envs * space.act_len();
        match (actions, space.has_discrete_actions()) {
            (ActionRef::Discrete(indices), true) if indices.len() == due => self.memory.write(at, indices),
            (ActionRef::Continuous(values), false) if values.len() == due => self.memory.write(at, values),
            (other, _) => return Err(EnvError::new(format!("{due} numbers of {space} are due, got {other:?}"))),
        }
        Ok(())
    }

    /// The observations of so many environments as there is room for, from `first` on.
    pub(crate) fn observe(&self, agent: usize, first: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.copy_obs(self.layout.agents[agent].observations, agent, first, obs)
    }

    /// What the episode that an environment ended had come to.
    pub(crate) fn final_observation(&self, env: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.copy_obs(self.layout.agents[0].final_observations, 0, env, obs)
    }

    /// `[n]`: what the step paid an agent.
    pub(crate) fn rewards(&self, agent: usize, into: &mut [f64]) {
        self.memory.read(self.layout.agents[agent].rewards, into);
    }

    /// `[n]`: how the step ended an agent's episodes.
    pub(crate) fn ends(&mut self, agent: usize, into: &mut [End]) -> Result<(), Failed> {
        let at = self.layout.agents[agent].ends;
        for (env, end) in into.iter_mut().enumerate() {
            *end = match self.memory.get::<u8>(at + env) {
                0 => End::No,
                1 => End::Terminated,
                2 => End::Truncated,
                other => return Err(self.broke(env, format!("it wrote {other} where an end was due: 0, 1 or 2"))),
            };
        }
        Ok(())
    }

    /// Whether an agent acts in the next step, where there is no autoreset.
    pub(crate) fn is_asked(&self, agent: usize, env: usize) -> bool {
        self.memory.get::<u8>(self.layout.agents[agent].asked + env) != 0
    }

    /// What is possible for an agent: all of `masks`, `[n, dist_len]`.
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

    /// What it is to be told that has several agents where there must be one.
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

    /// The error that the child wrote down.
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
    fn broke(&mut self, env: usize, what: String) -> Failed {
        Failed { env, resetting: false, error: self.child.broke(what) }
    }

    #[cold]
    fn failed(&self, order: Order, error: ProcessError) -> Failed {
        let env = self.memory.get::<u32>(header::ENV) as usize;
        let resetting = order == Order::Reset || self.memory.get::<u32>(header::CALL) == RESET;
        Failed { env: if env < self.n_envs { env } else { 0 }, resetting, error }
    }
}

/// The processes of one worker. Dropped, they end beside each other, and a run's reaper waits for them.
pub(crate) struct Groups {
    groups: Vec<Group>,
    monitor: CallMonitor,
    /// Of the thread that waits for their end.
    thread: String,
    close_timeout: Duration,
}

impl Groups {
    /// None so far, of such a worker.
    pub(crate) fn new(envs: &ProcessEnvs, worker: u32, monitor: &CallMonitor) -> Self {
        let thread = format!("rollout-{worker}-closing");
        Self { groups: Vec::new(), monitor: monitor.clone(), thread, close_timeout: envs.close_timeout }
    }

    pub(crate) fn push(&mut self, group: Group) {
        self.groups.push(group);
    }
}

impl Deref for Groups {
    type Target = [Group];

    fn deref(&self) -> &[Group] {
        &self.groups
    }
}

impl DerefMut for Groups {
    fn deref_mut(&mut self) -> &mut [Group] {
        &mut self.groups
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let mut groups = std::mem::take(&mut self.groups);
        if groups.is_empty() {
            return;
        }
        groups.iter_mut().for_each(|group| group.child.hang_up());
        // Those that have to be killed are waited for a moment longer.
        let limit = self.close_timeout.saturating_add(2 * GRACE);
        self.monitor.reap(&self.thread, limit, move || drop(groups));
    }
}

/// As the one agent that there is sees it.
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
