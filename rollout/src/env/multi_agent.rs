use super::agents::Agents;
use super::error::EnvError;
use super::frame::Frame;
use super::multi_agent_spec::MultiAgentSpec;

/// An environment with several agents.
///
/// Every call gets the [`Agents`], to read actions and to write observations, rewards and ends. In a step
/// those agents act that the step before, or the reset, *asked* to act: all of them if they act together, the
/// one whose turn it is, a late one once it is there.
///
/// An agent may end before the others. The episode is over once all have ended, at the latest at
/// [`MultiAgentSpec::max_episode_steps`]. A reward belongs to an agent's last action, even while it waits.
///
/// | | here |
/// |---|---|
/// | PettingZoo parallel: `step(actions)` returns dicts of observations, rewards, terminations, truncations | [`Agents::ask`] every agent that has not ended; [`reward`](Agents::reward), [`terminate`](Agents::terminate), [`truncate`](Agents::truncate) |
/// | PettingZoo AEC: `agent_selection`, `last()` | [`Agents::ask`] the selected agent |
/// | RLlib: agents in the dict of observations act next | [`Agents::ask`] |
/// | RLlib: `terminateds["__all__"]`, `truncateds["__all__"]` | [`Agents::terminate_all`], [`Agents::truncate_all`] |
/// | an action mask in the observation or the info | [`AgentSpec::action_mask`](crate::AgentSpec::action_mask) and [`action_mask`](Self::action_mask) |
///
/// A whole game: two players take turns in removing one or two stones from a heap; taking the last one wins.
///
/// ```
/// use pronk_policy::Space;
/// use pronk_rollout::{AgentSpec, Agents, EnvError, MultiAgentEnv, MultiAgentSpec, check_multi_agent_env};
///
/// struct Heap {
///     stones: u32,
///     turn: usize,
/// }
///
/// impl MultiAgentEnv for Heap {
///     fn spec(&self) -> MultiAgentSpec {
///         let player = |name: &str| AgentSpec {
///             name: name.into(),
///             observation: Space::boxed(vec![0.0], vec![20.0], vec![1]).expect("low <= high"),
///             action: Space::discrete(2).expect("one or two"),
///             action_mask: true,
///         };
///         MultiAgentSpec {
///             name: "Heap".into(),
///             agents: vec![player("first"), player("second")],
///             max_episode_steps: None,
///         }
///     }
///
///     fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
///         self.stones = 10 + (seed % 10) as u32;
///         self.turn = 0;
///         agents.ask(self.turn)?.write(&[self.stones as f32])
///     }
///
///     fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
///         self.stones -= 1 + agents.action(self.turn)?.discrete()?;
///         if self.stones == 0 {
///             agents.reward(self.turn, 1.0)?;
///             agents.reward(1 - self.turn, -1.0)?;
///             return agents.terminate_all();
///         }
///         self.turn = 1 - self.turn;
///         agents.ask(self.turn)?.write(&[self.stones as f32])
///     }
///
///     fn action_mask(&self, _agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
///         mask[1] = self.stones >= 2;
///         Ok(())
///     }
/// }
///
/// check_multi_agent_env(Heap { stones: 0, turn: 0 }, 0).expect("Heap keeps the rules");
/// ```
pub trait MultiAgentEnv: Send {
    /// The agents with their spaces, the name and the time limit; the same in every call.
    fn spec(&self) -> MultiAgentSpec;

    /// Begins the episode of a seed, as [`Env::reset`](crate::Env::reset), and asks the agents that act
    /// first. An error is fatal: the worker rebuilds the environment.
    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError>;

    /// Takes one step with the actions of the agents that were asked, and asks the agents that act next.
    ///
    /// Every step must ask an agent unless it ends the episode; then [`reset`](Self::reset) follows. The
    /// library truncates the remaining agents at [`MultiAgentSpec::max_episode_steps`]. Errors as
    /// [`reset`](Self::reset).
    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError>;

    /// Writes the action mask of an agent that was asked to act, as
    /// [`Env::action_mask`](crate::Env::action_mask). Called if
    /// [`AgentSpec::action_mask`](crate::AgentSpec::action_mask) is set. Errors as [`reset`](Self::reset).
    fn action_mask(&self, _agent: usize, _mask: &mut [bool]) -> Result<(), EnvError> {
        Ok(())
    }

    /// Draws the present state, as [`Env::render`](crate::Env::render).
    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        Ok(None)
    }

    /// The state within the running episode, as [`Env::save`](crate::Env::save). What the [`Agents`] were
    /// last asked and shown is saved by the library.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Continues a saved episode, as [`Env::load`](crate::Env::load).
    ///
    /// # Errors
    /// A state that is not one of this environment.
    fn load(&mut self, _state: &[u8]) -> Result<(), EnvError> {
        Err(EnvError::new("this environment saves no state: implement `MultiAgentEnv::load` beside `save`"))
    }
}

impl<E: MultiAgentEnv + ?Sized> MultiAgentEnv for Box<E> {
    fn spec(&self) -> MultiAgentSpec {
        (**self).spec()
    }

    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        (**self).reset(seed, agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        (**self).step(agents)
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        (**self).action_mask(agent, mask)
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        (**self).render()
    }

    fn save(&self) -> Option<Vec<u8>> {
        (**self).save()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        (**self).load(state)
    }
}

/// What a factory closure may return: an environment, or a `Result` of one.
pub trait IntoMultiAgentEnv {
    /// The environment.
    type Env: MultiAgentEnv;

    /// The environment, or the closure's error.
    fn into_env(self) -> Result<Self::Env, EnvError>;
}

impl<E: MultiAgentEnv> IntoMultiAgentEnv for E {
    type Env = E;

    fn into_env(self) -> Result<E, EnvError> {
        Ok(self)
    }
}

impl<E: MultiAgentEnv> IntoMultiAgentEnv for Result<E, EnvError> {
    type Env = E;

    fn into_env(self) -> Result<E, EnvError> {
        self
    }
}
