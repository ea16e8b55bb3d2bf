use super::agents::Agents;
use super::error::EnvError;
use super::multi_agent_spec::MultiAgentSpec;

/// An environment with several agents.
///
/// Agents have names and, in the order of [`MultiAgentSpec::agents`], numbers; every call gets an [`Agents`], in which the
/// environment finds what each of them does and says what each sees, earns and has to expect. In every step those act who
/// were *asked* to in the step before, or in the reset. So nothing but the asking tells these apart:
///
/// - agents that act together: ask all of them, every time;
/// - a game in turns: ask the one whose turn it is;
/// - agents that come late: ask them when they are there.
///
/// An agent may end before the others do: [`Agents::terminate`]. The episode is over once all have ended, at the latest when
/// [`MultiAgentSpec::max_episode_steps`] cuts them off. Reward may come at any time before an agent's end, also while it is
/// waiting: it is credited to what the agent did last.
///
/// | | here |
/// |---|---|
/// | PettingZoo parallel: `step(actions)` returns dicts of observations, rewards, terminations, truncations | [`Agents::ask`] everybody who lives; [`reward`](Agents::reward), [`terminate`](Agents::terminate), [`truncate`](Agents::truncate) |
/// | PettingZoo AEC: `agent_selection`, `last()` | [`Agents::ask`] the agent that is selected |
/// | RLlib: who is in the dict of observations acts next | [`Agents::ask`] |
/// | RLlib: `terminateds["__all__"]`, `truncateds["__all__"]` | [`Agents::terminate_all`], [`Agents::truncate_all`] |
/// | an action mask in the observation or the info | [`AgentSpec::action_mask`](crate::AgentSpec::action_mask) and [`action_mask`](Self::action_mask) |
///
/// A whole game, in which two players in turns take one or two of the stones on a heap, and who takes the last one wins:
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
    /// The agents with their spaces, the name and the time limit; the same every time it is asked.
    fn spec(&self) -> MultiAgentSpec;

    /// Begins an episode and asks those who act first.
    ///
    /// The seed decides everything that is random in the episode: the same seed and actions give the same episode. Every
    /// number is a seed, 0 included.
    ///
    /// # Errors
    /// Whatever the environment cannot recover from, and what [`Agents`] refuses; its worker then rebuilds it.
    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError>;

    /// Takes one step with the actions of those who were asked, and asks those who act next.
    ///
    /// It is not called again after an episode is over before [`reset`](Self::reset). Somebody has to be asked in every step
    /// unless the episode is over. A time limit is not the environment's affair: state it as
    /// [`MultiAgentSpec::max_episode_steps`] and all who have not ended are cut off.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError>;

    /// Says what is possible for an agent that was asked: whatever `mask` says false of it will not do.
    ///
    /// Asked before every action of an agent with [`AgentSpec::action_mask`](crate::AgentSpec::action_mask). Every element is true at first. Something must
    /// remain possible of every choice.
    ///
    /// *Shape*: `[n]` for [`Space::Discrete`](pronk_policy::Space::Discrete); for [`Space::MultiDiscrete`](pronk_policy::Space::MultiDiscrete) the things of one choice after the other.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    fn action_mask(&self, _agent: usize, _mask: &mut [bool]) -> Result<(), EnvError> {
        Ok(())
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
}

/// What a factory closure may return: an environment, or a `Result` of one.
pub trait IntoMultiAgentEnv {
    /// The environment.
    type Env: MultiAgentEnv;

    /// The environment, or why there is none.
    ///
    /// # Errors
    /// What the closure returned.
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
