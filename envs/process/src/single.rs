//! Environments without autoreset, each in a process of its own: with one agent and with several.

use pronk_buffer::End;
use pronk_rollout::{
    ActionRef, Agents, CallMonitor, Env, EnvContext, EnvError, EnvSpec, Frame, MultiAgentEnv, MultiAgentSpec, ObsMut,
    Step,
};

use crate::error::ProcessError;
use crate::group::{Failed, Group, Groups, Purpose, Starting, spec_alone};
use crate::order::Order;
use crate::settings::ProcessEnvs;

/// An environment alone in its process, to be stepped by hand or passed to `check_env`.
///
/// For a run, [`ProcessEnvs`] shares processes among environments, which is faster, counts them in the time
/// ledger and closes them in the background; dropping this one blocks until it has closed.
///
/// ```no_run
/// use pronk_env_process::{Gymnasium, ProcessEnvs};
/// use pronk_rollout::check_env;
///
/// let envs = ProcessEnvs::new(Gymnasium::new("my_envs:Gripper-v0"));
/// check_env(envs.env()?, 0)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ProcessEnv {
    one: One,
    spec: EnvSpec,
}

impl ProcessEnv {
    pub(crate) fn start(settings: &ProcessEnvs, render: bool) -> Result<Self, ProcessError> {
        let mut one = One::start(settings, &EnvContext::default(), render, &CallMonitor::new())?;
        match spec_alone(one.group().spec()) {
            Some(spec) => Ok(Self { one, spec }),
            None => Err(one.group_mut().not_alone()),
        }
    }
}

impl Env for ProcessEnv {
    fn spec(&self) -> EnvSpec {
        self.spec.clone()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.one.reset(seed)?;
        self.one.group().shared().observe(0, 0, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.one.group().shared().act(0, 0..1, action)?;
        self.one.carry_out(Order::Step)?;
        self.one.group().shared().observe(0, 0, obs)?;
        let (reward, end) = self.one.came_to(0)?;
        Ok(Step { reward, end })
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        self.one.group().shared().masks(0, mask)
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        if !self.one.group().renders() {
            return Ok(None);
        }
        self.one.carry_out(Order::Render)?;
        self.one.group_mut().frame(0).map_err(|Failed { error, .. }| EnvError::new(error))
    }
}

/// An environment with all its agents.
pub(crate) struct ProcessMultiAgentEnv(One);

impl ProcessMultiAgentEnv {
    pub(crate) fn start(
        settings: &ProcessEnvs,
        context: &EnvContext,
        monitor: &CallMonitor,
    ) -> Result<Self, ProcessError> {
        One::start(settings, context, false, monitor).map(Self)
    }
}

impl MultiAgentEnv for ProcessMultiAgentEnv {
    fn spec(&self) -> MultiAgentSpec {
        self.0.group().spec().clone()
    }

    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        self.0.reset(seed)?;
        for agent in self.0.agents() {
            self.0.ask(agent, agents)?;
        }
        Ok(())
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        for agent in self.0.agents().filter(|agent| agents.acts(*agent)) {
            self.0.group().shared().act(agent, 0..1, agents.action(agent)?)?;
        }
        self.0.carry_out(Order::Step)?;
        for agent in self.0.agents().filter(|agent| !agents.has_ended(*agent)).collect::<Vec<_>>() {
            let (reward, end) = self.0.came_to(agent)?;
            agents.reward(agent, reward)?;
            match end {
                End::No => self.0.ask(agent, agents)?,
                End::Terminated => agents.terminate(agent)?,
                End::Truncated => {
                    self.0.group().shared().observe(agent, 0, agents.show(agent)?)?;
                    agents.truncate(agent)?;
                }
            }
        }
        let goes_on = |agent: usize| !agents.has_ended(agent) && self.0.group().shared().is_asked(agent, 0);
        if !self.0.agents().any(goes_on) {
            // For agents as well that took no part, or left without an end.
            agents.terminate_all()?;
        }
        Ok(())
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        self.0.group().shared().masks(agent, mask)
    }
}

/// A process with one environment, and no autoreset.
struct One {
    settings: ProcessEnvs,
    /// The only process.
    groups: Groups,
}

impl One {
    fn start(
        settings: &ProcessEnvs,
        context: &EnvContext,
        render: bool,
        monitor: &CallMonitor,
    ) -> Result<Self, ProcessError> {
        settings.check()?;
        if settings.clip_rewards.is_some() {
            let reason = "clip_rewards is for what a worker with one agent learns from: leave it out here";
            return Err(ProcessError::Setting { reason: reason.to_owned() });
        }
        let mut groups = Groups::new(settings, context.worker, monitor);
        let purpose = Purpose { autoreset: false, render, seed: context.seed };
        groups.list.push(Starting::begin(settings, 0, 1, purpose, monitor)?.finish()?);
        Ok(Self { settings: settings.clone(), groups })
    }

    fn group(&self) -> &Group {
        &self.groups.list[0]
    }

    fn group_mut(&mut self) -> &mut Group {
        &mut self.groups.list[0]
    }

    fn agents(&self) -> std::ops::Range<usize> {
        0..self.group().spec().agents.len()
    }

    fn reset(&mut self, seed: u64) -> Result<(), EnvError> {
        self.group().shared().set_seed(0, seed);
        self.carry_out(Order::Reset)
    }

    fn carry_out(&mut self, order: Order) -> Result<(), EnvError> {
        let deadline = order.deadline(&self.settings);
        let group = self.group_mut();
        let done = group.order(order, None, &deadline).and_then(|()| group.answer(order, &deadline));
        done.map_err(|Failed { error, .. }| EnvError::new(error))
    }

    /// An agent's reward, and how the step ended its episode.
    fn came_to(&mut self, agent: usize) -> Result<(f32, End), EnvError> {
        let (mut reward, mut end) = ([0.0], [End::No]);
        self.group().shared().rewards(agent, 0, &mut reward);
        self.group_mut().ends(agent, 0, &mut end).map_err(|Failed { error, .. }| EnvError::new(error))?;
        Ok((reward[0] as f32, end[0]))
    }

    /// Lets an agent act in the next step if the environment has it act.
    fn ask(&self, agent: usize, agents: &mut Agents) -> Result<(), EnvError> {
        if self.group().shared().is_asked(agent, 0) {
            self.group().shared().observe(agent, 0, agents.ask(agent)?)
        } else {
            Ok(())
        }
    }
}
