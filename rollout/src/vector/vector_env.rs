use pronk_buffer::{End, FinalObs};

use crate::env::{ActionRef, EnvFailure, EnvSpec, EpisodeStat, ObsMut};

/// `B` environments of one kind that take their steps together.
///
/// # The autoreset rule
/// An episode that ends at step `t` is followed by the next episode's reset *within the same step*:
/// - row `t` of rewards and ends belongs to the old episode;
/// - row `t + 1` of the observations is the first observation of the new one;
/// - when the end is [`End::Truncated`], the observation the old episode would have gone on from is kept in
///   [`VectorStep::final_obs`], because the value of what was cut off still counts. After [`End::Terminated`] nothing
///   follows, so nothing is kept.
///
/// The time limit [`EnvSpec::max_episode_steps`] is enforced here: an environment that goes on past it is truncated.
/// An environment that ends by itself on that very step has terminated.
///
/// Any failure is final for the whole vector: drop it and make another.
///
/// ```
/// use pronk_buffer::{End, FinalObs, ObsKind};
/// use pronk_rollout::{ActionRef, CartPole, ObsMut, SerialVectorEnv, VectorContext, VectorEnv, VectorStep, CallMonitor};
///
/// let context = VectorContext { worker: 0, incarnation: 0, first_env: 0, seed: 7 };
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
    /// The spec that all the environments share.
    fn spec(&self) -> &EnvSpec;

    /// How many environments there are.
    fn n_envs(&self) -> usize;

    /// Begins an episode in every environment and writes the first observations, `[B, obs_len]`.
    ///
    /// # Errors
    /// The environment that failed.
    fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure>;

    /// Takes one step in every environment; `actions` is `[B, act_len]`.
    ///
    /// # Errors
    /// The environment that failed.
    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure>;

    /// Says what is possible in every environment now: writes every element of `masks`, `[B, dist_len]`.
    ///
    /// Asked before every step, if [`EnvSpec::action_mask`] is set. Without a method of its own, everything is possible.
    ///
    /// # Errors
    /// The environment that failed, or in which nothing of a choice is possible.
    fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
        masks.fill(true);
        Ok(())
    }

    /// A fragment begins, with the observations of the last step: `obs`, `[B, obs_len]`, which may be written anew.
    ///
    /// The last step's own observations end the fragment before. Environments that bring theirs to a scale that holds for one
    /// fragment write the same ones on the scale of the next. Without a method of its own, they stay as they are.
    ///
    /// # Errors
    /// The environment that failed.
    fn begin_fragment(&mut self, _obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        Ok(())
    }

    /// Moves the episodes that ended since the last call to the end of `into`.
    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>);
}

/// Where a vector step writes its results.
#[derive(Debug)]
pub struct VectorStep<'a> {
    /// The row of the fragment that the step belongs to: the row of entries in `final_obs`.
    pub t: usize,
    /// `[B, obs_len]`: the observations that follow the step.
    pub obs: ObsMut<'a>,
    /// `[B]`: the rewards of the step.
    pub rewards: &'a mut [f32],
    /// `[B]`: how the step ended each episode, or that it did not.
    pub ends: &'a mut [End],
    /// Takes the final observation of every truncated episode.
    pub final_obs: &'a mut FinalObs,
}
