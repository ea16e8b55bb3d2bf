use pronk_buffer::{ActionColumn, BatchError, End, ObsColumn, ObsView};

use super::error::EnvError;
use super::multi_agent_spec::{AgentSpec, MultiAgentSpec};
use super::views::{ActionRef, ObsMut, act_kind, obs_kind};

/// The agents of one environment, as it finds them in [`MultiAgentEnv::step`](crate::MultiAgentEnv::step): what they do, and
/// where to write what they see and earn.
///
/// Agents go by their numbers in [`MultiAgentSpec::agents`]. What the environment does not say of an agent is: it is not
/// asked, earns nothing and goes on.
///
/// ```
/// use pronk_rollout::{Agents, EnvError};
///
/// /// A step of a game of tag: both run; when the runner is caught, it is over for both.
/// fn step(positions: &mut [f32; 2], agents: &mut Agents) -> Result<(), EnvError> {
///     for agent in 0..2 {
///         positions[agent] += agents.action(agent)?.continuous()?[0];
///         agents.reward(agent, -0.01)?;
///     }
///     for agent in 0..2 {
///         agents.ask(agent)?.write(&[positions[agent], positions[1 - agent]])?;
///     }
///     if (positions[0] - positions[1]).abs() < 0.1 {
///         agents.reward(0, 1.0)?;
///         agents.terminate_all()?;
///     }
///     Ok(())
/// }
/// # let _ = step;
/// ```
#[derive(Debug)]
pub struct Agents {
    seats: Vec<Seat>,
    /// While an episode is being begun, nobody can end.
    beginning: bool,
}

/// What passes between the environment and one agent.
#[derive(Debug)]
struct Seat {
    name: String,
    obs: ObsColumn,
    /// As the environment takes it.
    action: ActionColumn,
    /// In this step it acts.
    acts: bool,
    /// In the next step it acts.
    asked: bool,
    /// Whether `obs` was written in this step.
    written: bool,
    /// Whether `obs` was written since the agent last acted.
    fresh: bool,
    /// Whether it has acted in this episode.
    has_acted: bool,
    /// What this step pays.
    reward: f32,
    /// How this step ends it.
    end: End,
    /// Whether an earlier step did.
    has_ended: bool,
}

impl Agents {
    pub(crate) fn new(spec: &MultiAgentSpec) -> Self {
        Self { seats: spec.agents.iter().map(Seat::new).collect(), beginning: false }
    }

    /// Whether the agent acts in this step.
    pub fn acts(&self, agent: usize) -> bool {
        self.seats.get(agent).is_some_and(|seat| seat.acts)
    }

    /// Whether the agent's part in the episode has ended, in this step or before.
    pub fn has_ended(&self, agent: usize) -> bool {
        self.seats.get(agent).is_some_and(|seat| seat.has_ended || seat.end != End::No)
    }

    /// What the agent does in this step.
    ///
    /// *Shape*: `[act_len]` of its action space.
    ///
    /// # Errors
    /// When it does not act in this step: it was not asked in the step before.
    #[inline]
    pub fn action(&self, agent: usize) -> Result<ActionRef<'_>, EnvError> {
        match self.seats.get(agent) {
            Some(seat) if seat.acts => Ok(seat.action.view().into()),
            Some(seat) => Err(refused(seat, "does not act in this step, since it was not asked in the one before")),
            None => Err(self.no_agent(agent)),
        }
    }

    /// Asks the agent to act in the next step, upon the observation that is to be written into the row returned.
    ///
    /// *Shape*: `[obs_len]` of its observation space; write it whole.
    ///
    /// # Errors
    /// When the agent has ended.
    #[inline]
    pub fn ask(&mut self, agent: usize) -> Result<ObsMut<'_>, EnvError> {
        let seat = self.seat(agent)?;
        if seat.has_ended || seat.end != End::No {
            return Err(refused(seat, "is asked to act after its end"));
        }
        seat.asked = true;
        Ok(seat.write())
    }

    /// Shows the agent something without asking it to act: what it goes on from, should it be cut off while it waits.
    ///
    /// Who is cut off must have been shown something since it last acted, by this or by [`ask`](Self::ask): the value of what
    /// would have followed is estimated from that. Where nobody is ever cut off there is no need for it.
    ///
    /// *Shape*: `[obs_len]` of its observation space; write it whole.
    ///
    /// # Errors
    /// When the agent ended in an earlier step.
    #[inline]
    pub fn show(&mut self, agent: usize) -> Result<ObsMut<'_>, EnvError> {
        Ok(self.living(agent, "is shown something after its end")?.write())
    }

    /// Adds to what this step pays the agent. It is credited to what the agent did last, whether it acts in this step or waits.
    /// What comes before its first action of the episode counts in the return of the episode only.
    ///
    /// # Errors
    /// In a reset, and when the agent ended in an earlier step.
    #[inline]
    pub fn reward(&mut self, agent: usize, reward: f32) -> Result<(), EnvError> {
        if self.beginning {
            return Err(EnvError::new(format!("agent {agent} is paid in a reset, before anybody did anything")));
        }
        self.living(agent, "is paid after its end")?.reward += reward;
        Ok(())
    }

    /// Ends the agent's part in the episode: nothing more can be earned. It acts no more, even if it was asked to.
    ///
    /// # Errors
    /// In a reset, and when the agent ended in an earlier step.
    pub fn terminate(&mut self, agent: usize) -> Result<(), EnvError> {
        self.end(agent, End::Terminated)
    }

    /// Cuts the agent off: it would have gone on from what it was shown last. It acts no more, even if it was asked to.
    ///
    /// # Errors
    /// As [`terminate`](Self::terminate).
    pub fn truncate(&mut self, agent: usize) -> Result<(), EnvError> {
        self.end(agent, End::Truncated)
    }

    /// Ends the episode: [`terminate`](Self::terminate) for everybody who has not ended.
    ///
    /// # Errors
    /// In a reset.
    pub fn terminate_all(&mut self) -> Result<(), EnvError> {
        self.end_all(End::Terminated)
    }

    /// Cuts the episode off: [`truncate`](Self::truncate) for everybody who has not ended.
    ///
    /// # Errors
    /// In a reset.
    pub fn truncate_all(&mut self) -> Result<(), EnvError> {
        self.end_all(End::Truncated)
    }

    fn end_all(&mut self, end: End) -> Result<(), EnvError> {
        for agent in 0..self.seats.len() {
            if !self.has_ended(agent) {
                self.end(agent, end)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, agent: usize, end: End) -> Result<(), EnvError> {
        let beginning = self.beginning;
        let seat = self.living(agent, "ends a second time")?;
        if beginning {
            return Err(refused(seat, "ends in the reset, before it could take a step"));
        }
        seat.end = end;
        seat.asked = false;
        Ok(())
    }

    fn seat(&mut self, agent: usize) -> Result<&mut Seat, EnvError> {
        if agent >= self.seats.len() {
            return Err(self.no_agent(agent));
        }
        Ok(&mut self.seats[agent])
    }

    fn living(&mut self, agent: usize, what: &str) -> Result<&mut Seat, EnvError> {
        let seat = self.seat(agent)?;
        if seat.has_ended { Err(refused(seat, what)) } else { Ok(seat) }
    }

    #[cold]
    fn no_agent(&self, agent: usize) -> EnvError {
        EnvError::new(format!(
            "there is no agent {agent}: they are numbered from 0, and there are {}",
            self.seats.len()
        ))
    }
}

/// What the library sees of them.
impl Agents {
    /// Everybody begins anew: nobody is asked, nobody has acted.
    pub(crate) fn begin_episode(&mut self) {
        self.beginning = true;
        for seat in &mut self.seats {
            (seat.acts, seat.asked, seat.fresh, seat.has_acted, seat.has_ended) = (false, false, false, false, false);
            seat.clear_step();
        }
    }

    /// Those who were asked act.
    pub(crate) fn begin_step(&mut self) {
        self.beginning = false;
        for seat in &mut self.seats {
            seat.has_ended |= seat.end != End::No;
            seat.acts = std::mem::take(&mut seat.asked);
            seat.fresh &= !seat.acts;
            seat.has_acted |= seat.acts;
            seat.clear_step();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seats.len()
    }

    pub(crate) fn name(&self, agent: usize) -> &str {
        &self.seats[agent].name
    }

    pub(crate) fn is_asked(&self, agent: usize) -> bool {
        self.seats[agent].asked
    }

    /// Whether it has acted in this episode.
    pub(crate) fn has_acted(&self, agent: usize) -> bool {
        self.seats[agent].has_acted
    }

    /// What the last step paid.
    pub(crate) fn reward_of(&self, agent: usize) -> f32 {
        self.seats[agent].reward
    }

    /// How the last step ended it.
    pub(crate) fn end_of(&self, agent: usize) -> End {
        self.seats[agent].end
    }

    /// What it was shown last.
    pub(crate) fn obs(&self, agent: usize) -> ObsView<'_> {
        self.seats[agent].obs.view()
    }

    /// Whether it was shown something in the last step.
    pub(crate) fn was_shown(&self, agent: usize) -> bool {
        self.seats[agent].written
    }

    /// Whether it was shown nothing since it last acted.
    pub(crate) fn is_stale(&self, agent: usize) -> bool {
        !self.seats[agent].fresh
    }

    /// Sets its action in the next step.
    ///
    /// # Errors
    /// An action of another element type or length than that of its space.
    pub(crate) fn set_action(&mut self, agent: usize, action: ActionRef<'_>) -> Result<(), BatchError> {
        self.seats[agent].action.view_mut().copy_from(action.view())
    }

    /// Every row, to be spoilt before it is written.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = ObsMut<'_>> {
        self.seats.iter_mut().map(|seat| seat.obs.view_mut().into())
    }

    /// Cuts off all who have not ended.
    pub(crate) fn cut_off(&mut self) {
        for seat in self.seats.iter_mut().filter(|seat| !seat.has_ended && seat.end == End::No) {
            seat.end = End::Truncated;
            seat.asked = false;
        }
    }
}

impl Seat {
    fn new(spec: &AgentSpec) -> Self {
        let (obs_kind, act_kind) = (obs_kind(&spec.observation), act_kind(&spec.action));
        Self {
            name: spec.name.clone(),
            obs: ObsColumn::zeros(obs_kind, spec.observation.obs_len()),
            action: ActionColumn::zeros(act_kind, spec.action.act_len()),
            acts: false,
            asked: false,
            written: false,
            fresh: false,
            has_acted: false,
            reward: 0.0,
            end: End::No,
            has_ended: false,
        }
    }

    fn write(&mut self) -> ObsMut<'_> {
        (self.written, self.fresh) = (true, true);
        self.obs.view_mut().into()
    }

    fn clear_step(&mut self) {
        (self.written, self.reward, self.end) = (false, 0.0, End::No);
    }
}

#[cold]
fn refused(seat: &Seat, what: &str) -> EnvError {
    EnvError::new(format!("agent `{}` {what}", seat.name))
}
