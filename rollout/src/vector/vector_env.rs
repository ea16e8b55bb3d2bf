use pronk_buffer::{End, FinalObs, ObsView};

use crate::env::{ActionRef, EnvFailure, EnvSpec, EpisodeStat, Frame, ObsMut, Restarted, SavedEnvs};

/// `B` environments of one kind that step together.
///
/// # Autoreset
/// When an episode ends at step `t`, the environment is reset *within the same step*:
/// - row `t` of rewards and ends belongs to the old episode;
/// - row `t + 1` of the observations is the first observation of the new one;
/// - after [`End::Truncated`], the final observation of the old episode goes to [`VectorStep::final_obs`],
///   because the learner bootstraps from its value. After [`End::Terminated`] there is nothing to bootstrap,
///   so nothing is kept.
///
/// The time limit [`EnvSpec::max_episode_steps`] is enforced here: an episode that reaches it is truncated,
/// unless the environment terminates it on that very step.
///
/// An error, of the environment that failed, is final for the whole vector: drop it and make another.
///
/// ```
/// use pronk_buffer::{End, FinalObs, ObsKind};
/// use pronk_rollout::{ActionRef, CallMonitor, CartPole, ObsMut, SerialVectorEnv};
/// use pronk_rollout::{VectorContext, VectorEnv, VectorStep};
///
/// let context = VectorContext { seed: 7, ..VectorContext::default() };
/// let mut envs = SerialVectorEnv::new(&context, 2, &CallMonitor::new(), |_| Ok(CartPole::new()))?;
/// let (mut obs, mut rewards, mut ends) = ([0.0; 8], [0.0; 2], [End::No; 2]);
/// let mut final_obs = FinalObs::new(ObsKind::F32, 4);
/// envs.reset_all(ObsMut::F32(&mut obs))?;
/// envs.step(
///     ActionRef::Discrete(&[0, 1]),
///     VectorStep {
///         t: 0,
///         obs: ObsMut::F32(&mut obs),
///         rewards: &mut rewards,
///         ends: &mut ends,
///         final_obs: &mut final_obs,
///     },
/// )?;
/// assert_eq!(rewards, [1.0, 1.0]);
/// # Ok::<(), pronk_rollout::EnvFailure>(())
/// ```
pub trait VectorEnv: Send {
    /// The spec of all its environments.
    fn spec(&self) -> &EnvSpec;

    /// The number of environments, `B`.
    fn n_envs(&self) -> usize;

    /// Begins an episode in every environment and writes the first observations, `[B, obs_len]`.
    fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure>;

    /// Takes one step in every environment; `actions` is `[B, act_len]`.
    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure>;

    /// Writes all action masks, `[B, dist_len]`, before every step if [`EnvSpec::action_mask`] is set; by
    /// default every action is possible. A choice without a possible action is an error.
    fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
        masks.fill(true);
        Ok(())
    }

    /// Appends the episodes that ended since the last call to `into`.
    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>);

    /// The present episode of environment `index`, so far; `None`, the default, if its return is the sum of
    /// the rewards that [`step`](Self::step) gives.
    ///
    /// # Panics
    /// May do so when there is no environment `index`.
    fn present_episode(&self, _index: usize) -> Option<EpisodeStat> {
        None
    }

    /// Draws the present state of environment `index`, which is that of a new episode once one has ended;
    /// `None`, the default, if there are no pictures. Make environments with
    /// [`EnvFactory::make_vector_to_render`](crate::EnvFactory::make_vector_to_render) to draw them.
    ///
    /// # Errors
    /// The environment that failed.
    ///
    /// # Panics
    /// May do so when there is no environment `index`.
    fn render(&mut self, _index: usize) -> Result<Option<Frame>, EnvFailure> {
        Ok(None)
    }

    /// Draws from now on the state in which each episode of environment `index` ends, before the next one
    /// begins, for [`take_last_frame`](Self::take_last_frame). Called once, before the first reset, where a
    /// video is recorded.
    fn keep_last_frames(&mut self, _index: usize) {}

    /// The last frame of the episode that ended last, once, if [kept](Self::keep_last_frames).
    fn take_last_frame(&mut self) -> Option<Frame> {
        None
    }

    /// Keeps from now on what [`save`](Self::save) needs, such as the actions of running episodes. Called
    /// once, before the first reset, in runs that save checkpoints with the positions of environments.
    fn keep_for_save(&mut self) {}

    /// The positions of all environments between two steps; `obs` are their newest raw observations, `[B,
    /// obs_len]`. `None`, the default, if they cannot be told: a resumed run then makes others, of the next
    /// incarnation.
    ///
    /// # Errors
    /// The environment that failed.
    fn save(&mut self, _obs: ObsView<'_>) -> Result<Option<SavedEnvs>, EnvFailure> {
        Ok(None)
    }

    /// Brings environments that were just made to saved positions, instead of [`reset_all`](Self::reset_all),
    /// and returns those that began a new episode instead. Their first observations are written to their rows
    /// of `obs`, `[B, obs_len]`; the other rows are left alone.
    ///
    /// # Errors
    /// An environment that fails, also while it begins a new episode.
    fn load(&mut self, _saved: &SavedEnvs, obs: ObsMut<'_>) -> Result<Vec<Restarted>, EnvFailure> {
        self.reset_all(obs)?;
        Ok(Restarted::all(0, self.n_envs(), "its vector environment does not implement `VectorEnv::load`"))
    }
}

/// Where a vector step writes its results.
#[derive(Debug)]
pub struct VectorStep<'a> {
    /// The row of the fragment that the step belongs to, for entries in `final_obs`.
    pub t: usize,
    /// `[B, obs_len]`: the observations that follow the step.
    pub obs: ObsMut<'a>,
    /// `[B]`: the rewards of the step.
    pub rewards: &'a mut [f32],
    /// `[B]`: whether and how the step ended each episode, for what is learned from it. An environment may
    /// write [`End::Terminated`] at a lost life, say, in an episode that goes on without a reset:
    /// [`VectorEnv::drain_episodes`] has those that are counted.
    pub ends: &'a mut [End],
    /// Takes the final observation of every truncated episode.
    pub final_obs: &'a mut FinalObs,
}
