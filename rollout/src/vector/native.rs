mod columns;

use pronk_buffer::{End, ObsView};
use pronk_policy::ObsDtype;
use pulp::{Arch, NullaryFnOnce};

use columns::{BLOCK, Column, Episodes, States, state_len};

use super::kernel::Kernel;
use super::kernel_action::KernelAction;
use super::last_frame::LastFrame;
use super::vector_env::{VectorEnv, VectorStep};
use crate::env::{
    ActionRef, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, FailurePlace, Frame, ObsMut, Restarted,
    SavedEnv, SavedEnvs, VectorContext, Way, check_finite, first_non_finite, row_sum, snapshot,
};

/// Native environments that step together with SIMD on the calling thread. Seeds, autoreset, time limit and
/// failures are as in [`SerialVectorEnv`](crate::SerialVectorEnv); an invalid action is refused before any
/// environment has moved.
///
/// ```
/// use pronk_rollout::{CartPole, NativeVectorEnv, VectorContext, VectorEnv};
///
/// let context = VectorContext { seed: 7, ..VectorContext::default() };
/// let mut envs = NativeVectorEnv::<CartPole>::new(&context, 3)?;
/// envs.set_state(2, [0.0, 0.0, 0.1, 0.0]);
/// assert_eq!((envs.n_envs(), envs.state(2)), (3, [0.0, 0.0, 0.1, 0.0]));
/// # Ok::<(), pronk_rollout::EnvFailure>(())
/// ```
#[derive(Debug)]
pub struct NativeVectorEnv<K: Kernel> {
    context: VectorContext,
    spec: EnvSpec,
    states: States<K>,
    episodes: Episodes,
    finished: Vec<EpisodeStat>,
    last_frame: LastFrame,
    arch: Arch,
}

impl<K: Kernel> NativeVectorEnv<K> {
    /// Makes `n_envs` environments. An error for 0, and for an invalid spec.
    pub fn new(context: &VectorContext, n_envs: usize) -> Result<Self, EnvFailure> {
        Self::with_time_limit(context, n_envs, K::env_spec().max_episode_steps)
    }

    /// Makes `n_envs` environments with another time limit, or none. Errors as [`new`](Self::new), and for a
    /// limit of 0.
    pub fn with_time_limit(
        context: &VectorContext,
        n_envs: usize,
        max_episode_steps: Option<u32>,
    ) -> Result<Self, EnvFailure> {
        let spec = EnvSpec { max_episode_steps, ..K::env_spec() };
        check::<K>(n_envs, &spec)
            .map_err(|error| context.failure(Some(&spec), 0, FailurePlace::Make, EnvFailureCause::Error(error)))?;
        Ok(Self {
            context: *context,
            spec,
            states: States::new(n_envs),
            episodes: Episodes::new((0..n_envs as u32).map(|index| context.env(index).seed).collect()),
            finished: Vec::new(),
            last_frame: LastFrame::default(),
            arch: Arch::new(),
        })
    }

    /// The state of an environment; panics if there is none.
    pub fn state(&self, index: usize) -> K::State {
        self.states.get(index)
    }

    /// Sets the state of an environment within its episode; panics if there is none.
    pub fn set_state(&mut self, index: usize, state: K::State) {
        self.states.set(index, &state);
    }

    /// Begins the next episode of an environment and writes its first observation.
    fn reset(&mut self, index: usize, row: &mut [f32]) -> Result<(), EnvFailure> {
        let seed = self.episodes.begin(index);
        let state = K::start(seed);
        self.states.set(index, &state);
        row.copy_from_slice(K::observation(&state).as_ref());
        // A cause of failure is large: most episodes begin without one.
        if first_non_finite(row).is_none() {
            return Ok(());
        }
        let place = FailurePlace::Reset { episode_seed: seed };
        check_finite(row).map_err(|cause| self.context.failure(Some(&self.spec), index as u32, place, cause))
    }

    /// The failure of an environment's step.
    #[cold]
    fn failed(&self, index: usize, step: u32, cause: EnvFailureCause) -> EnvFailure {
        let place = FailurePlace::Step { episode_seed: self.episodes.seeds[index], step };
        self.context.failure(Some(&self.spec), index as u32, place, cause)
    }

    /// The failure of an environment's next step.
    #[cold]
    fn failed_next(&self, index: usize, cause: EnvFailureCause) -> EnvFailure {
        self.failed(index, self.episodes.lens[index].saturating_add(1), cause)
    }

    #[cold]
    fn failed_to_draw(&self, index: usize, error: EnvError) -> EnvFailure {
        let (episode_seed, step) = (self.episodes.seeds[index], self.episodes.lens[index]);
        let place = FailurePlace::Render { episode_seed, step };
        self.context.failure(Some(&self.spec), index as u32, place, EnvFailureCause::Error(error))
    }

    /// The actions of all environments, if each is valid.
    fn checked<'a>(&self, actions: ActionRef<'a>) -> Result<&'a [K::Action], EnvFailure> {
        let refused = |index: usize, error| self.failed_next(index, EnvFailureCause::Error(error));
        let n = self.states.n_envs;
        let actions = K::Action::all(actions).map_err(|error| refused(0, error))?;
        if actions.len() != n {
            return Err(refused(0, EnvError::new(format!("{n} environments take {n} actions, got {}", actions.len()))));
        }
        match K::Action::first_refused(actions, &self.spec.action) {
            None => Ok(actions),
            Some((index, error)) => Err(refused(index, error)),
        }
    }

    /// The failure of the first environment whose observation or reward is not finite.
    #[cold]
    fn non_finite(&self, obs: &[f32], rewards: &[f32]) -> Option<EnvFailure> {
        let rows = obs.chunks_exact(obs_len::<K>());
        rows.zip(rewards).enumerate().find_map(|(index, (row, reward))| {
            let cause = match check_finite(row) {
                Err(cause) => cause,
                Ok(()) if !reward.is_finite() => EnvFailureCause::NonFiniteReward { value: *reward },
                Ok(()) => return None,
            };
            let steps_made = self.states.n_envs - 1;
            Some(EnvFailure { steps_made, ..self.failed(index, self.episodes.lens[index], cause) })
        })
    }

    /// The present episode.
    fn stat(&self, index: usize) -> EpisodeStat {
        EpisodeStat {
            worker: self.context.worker,
            index: self.context.first_env + index as u32,
            seed: self.episodes.seeds[index],
            episode_return: self.episodes.sums[index],
            episode_len: self.episodes.lens[index],
        }
    }

    /// Records the episode that ended and begins the next one.
    fn finish(&mut self, index: usize, row: &mut [f32]) -> Result<(), EnvFailure> {
        let drawn = self.last_frame.ended(index, || K::render(&self.states.get(index)));
        drawn.map_err(|error| EnvFailure { steps_made: self.states.n_envs, ..self.failed_to_draw(index, error) })?;
        self.finished.push(self.stat(index));
        self.reset(index, row).map_err(|failure| EnvFailure { steps_made: self.states.n_envs, ..failure })
    }
}

/// Whether the kernel and the spec match.
fn check<K: Kernel>(n_envs: usize, spec: &EnvSpec) -> Result<(), EnvError> {
    if n_envs == 0 {
        return Err(EnvError::new("a vector needs at least one environment, got 0"));
    }
    spec.check()?;
    let (obs_len, observation) = (obs_len::<K>(), &spec.observation);
    if (obs_len, ObsDtype::F32) != (observation.obs_len(), observation.obs_dtype()) {
        return Err(EnvError::new(format!("the kernel writes {obs_len} floats, unlike {spec}")));
    }
    if !K::Action::is_of(&spec.action) {
        let text = format!("the kernel takes a {} as its action, unlike {spec}", std::any::type_name::<K::Action>());
        return Err(EnvError::new(text));
    }
    if spec.action_mask {
        return Err(EnvError::new("action_mask is set, but a kernel has no masks: clear it, or write an Env"));
    }
    Ok(())
}

impl<K: Kernel> VectorEnv for NativeVectorEnv<K> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn n_envs(&self) -> usize {
        self.states.n_envs
    }

    fn reset_all(&mut self, obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        let obs = obs.f32().map_err(|error| self.failed(0, 0, EnvFailureCause::Error(error)))?;
        for (index, row) in obs.chunks_exact_mut(obs_len::<K>()).enumerate() {
            self.reset(index, row)?;
        }
        Ok(())
    }

    fn step(&mut self, actions: ActionRef<'_>, out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let actions = self.checked(actions)?;
        let VectorStep { t, obs, rewards, ends, final_obs } = out;
        let failed_next = |error| self.failed_next(0, EnvFailureCause::Error(error));
        let (n_envs, obs_len) = (self.states.n_envs, obs_len::<K>());
        let obs = &mut obs.f32().map_err(failed_next)?[..n_envs * obs_len];
        let (rewards, ends) = (&mut rewards[..n_envs], &mut ends[..n_envs]);

        let all_finite = self.arch.dispatch(AllBlocks::<K> {
            // A limit is at least 1.
            most_steps: self.spec.max_episode_steps.map_or(u32::MAX, |limit| limit - 1),
            columns: &mut self.states.columns,
            actions,
            episodes: &mut self.episodes,
            obs: &mut *obs,
            rewards: &mut *rewards,
            ends: &mut *ends,
        });
        if !all_finite && let Some(failure) = self.non_finite(obs, rewards) {
            return Err(failure);
        }

        // Most episodes continue, so a few are tested at once.
        for (few, ends) in ends.chunks(FEW).enumerate() {
            if ends.iter().fold(true, |all, end| all & (*end == End::No)) {
                continue;
            }
            for (index, end) in (few * FEW..).zip(ends).filter(|(_, end)| **end != End::No) {
                let row = &mut obs[index * obs_len..(index + 1) * obs_len];
                if *end == End::Truncated {
                    final_obs.push(t, index, &*row).map_err(|error| {
                        let cause = EnvFailureCause::Error(EnvError::new(error));
                        EnvFailure { steps_made: n_envs, ..self.failed(index, self.episodes.lens[index], cause) }
                    })?;
                }
                self.finish(index, row)?;
            }
        }
        Ok(())
    }

    fn present_episode(&self, index: usize) -> Option<EpisodeStat> {
        Some(self.stat(index))
    }

    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        into.append(&mut self.finished);
    }

    fn render(&mut self, index: usize) -> Result<Option<Frame>, EnvFailure> {
        K::render(&self.states.get(index)).map_err(|error| self.failed_to_draw(index, error))
    }

    fn keep_last_frames(&mut self, index: usize) {
        self.last_frame.keep(index);
    }

    fn take_last_frame(&mut self) -> Option<Frame> {
        self.last_frame.take()
    }

    fn save(&mut self, obs: ObsView<'_>) -> Result<Option<SavedEnvs>, EnvFailure> {
        let saved = |index: usize| {
            let state = snapshot::to_bytes(&self.states.get(index).as_ref());
            let way = state.map_or(Way::Unknown, Way::Snapshot);
            let obs_crc32c = row_sum(obs.row(index, obs_len::<K>()));
            SavedEnv { episodes: self.episodes.save(index), way, obs_crc32c }
        };
        let envs = (0..self.states.n_envs).map(saved).collect();
        Ok(Some(SavedEnvs { envs, finished: self.finished.clone() }))
    }

    fn load(&mut self, saved: &SavedEnvs, obs: ObsMut<'_>) -> Result<Vec<Restarted>, EnvFailure> {
        let obs = obs.f32().map_err(|error| self.failed(0, 0, EnvFailureCause::Error(error)))?;
        saved.check_len(self.states.n_envs).map_err(|cause| self.failed(0, 0, cause))?;
        let mut restarted = Vec::new();
        let rows = obs.chunks_exact_mut(obs_len::<K>()).take(self.states.n_envs);
        for (index, (row, saved)) in rows.zip(&saved.envs).enumerate() {
            self.episodes.load(index, saved.episodes);
            match state_of::<K>(&saved.way) {
                Ok(state) => self.states.set(index, &state),
                Err(why) => {
                    self.reset(index, row)?;
                    restarted.push(Restarted { index: self.context.first_env + index as u32, why });
                }
            }
        }
        self.finished.clone_from(&saved.finished);
        Ok(restarted)
    }
}

/// The state of a saved environment.
fn state_of<K: Kernel>(way: &Way) -> Result<K::State, String> {
    let Way::Snapshot(bytes) = way else { return Err("it was saved by another kind of vector".to_owned()) };
    let numbers: Vec<f64> = snapshot::from_bytes(bytes).map_err(|error| error.to_string())?;
    let mut state = K::State::default();
    match state.as_mut() {
        own if own.len() == numbers.len() => own.copy_from_slice(&numbers),
        own => return Err(format!("its state has {} numbers, and {} were saved", own.len(), numbers.len())),
    }
    Ok(state)
}

/// How many ends are tested at once.
const FEW: usize = 8;

#[inline(always)]
fn obs_len<K: Kernel>() -> usize {
    K::observation(&K::State::default()).as_ref().len()
}

/// One step of every environment, compiled for every instruction set. Returns whether all results are finite.
struct AllBlocks<'a, K: Kernel> {
    /// The steps after which an episode goes on for one more at most; `u32::MAX` without a limit, as counts
    /// stay at that.
    most_steps: u32,
    columns: &'a mut [Column],
    actions: &'a [K::Action],
    episodes: &'a mut Episodes,
    obs: &'a mut [f32],
    rewards: &'a mut [f32],
    ends: &'a mut [End],
}

impl<K: Kernel> NullaryFnOnce for AllBlocks<'_, K> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let (n_envs, obs_len) = (self.actions.len(), obs_len::<K>());
        let mut all_finite = true;
        for (block, columns) in self.columns.chunks_exact_mut(state_len::<K>()).enumerate() {
            let first = block * BLOCK;
            let envs = first..n_envs.min(first + BLOCK);
            let obs = &mut self.obs[envs.start * obs_len..envs.end * obs_len];
            let (rewards, ends) = (&mut self.rewards[envs.clone()], &mut self.ends[envs.clone()]);
            step_block::<K>(columns, &self.actions[envs.clone()], obs, rewards, ends);
            let (lens, sums) = (&mut self.episodes.lens[envs.clone()], &mut self.episodes.sums[envs]);
            all_finite &= count(obs, rewards, ends, lens, sums, self.most_steps);
        }
        all_finite
    }
}

/// Steps the environments of a block, without the time limit.
#[inline(always)]
fn step_block<K: Kernel>(
    columns: &mut [Column],
    actions: &[K::Action],
    obs: &mut [f32],
    rewards: &mut [f32],
    ends: &mut [End],
) {
    let n = actions.len().min(BLOCK);
    let (columns, actions) = (&mut columns[..state_len::<K>()], &actions[..n]);
    let (rewards, ends, obs) = (&mut rewards[..n], &mut ends[..n], &mut obs[..n * obs_len::<K>()]);
    for (i, row) in (0..n).zip(obs.chunks_exact_mut(obs_len::<K>())) {
        let mut state = K::State::default();
        for (value, column) in state.as_mut().iter_mut().zip(&*columns) {
            *value = column[i];
        }
        let outcome = K::advance(&mut state, actions[i]);
        for (value, column) in state.as_ref().iter().zip(&mut *columns) {
            column[i] = *value;
        }
        row.copy_from_slice(K::observation(&state).as_ref());
        rewards[i] = outcome.reward;
        ends[i] = if outcome.terminated { End::Terminated } else { End::No };
    }
}

/// Counts a step of each environment and truncates episodes that have more than `most_steps` now. Returns
/// whether all results are finite.
#[inline(always)]
fn count(obs: &[f32], rewards: &[f32], ends: &mut [End], lens: &mut [u32], sums: &mut [f64], most_steps: u32) -> bool {
    for (((end, len), sum), reward) in ends.iter_mut().zip(lens).zip(sums).zip(rewards) {
        *len = len.saturating_add(1);
        *sum += f64::from(*reward);
        let at_limit = (*len > most_steps) & (*end == End::No);
        *end = if at_limit { End::Truncated } else { *end };
    }
    let finite = |numbers: &[f32]| numbers.iter().fold(true, |all, number| all & number.is_finite());
    finite(obs) & finite(rewards)
}

#[cfg(test)]
mod tests;
