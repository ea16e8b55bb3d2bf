//! The environments of one worker, in one or several processes.

use pronk_buffer::{ActionColumn, End, ObsColumn, ObsView};
use pronk_policy::ObsDtype;
use pronk_rollout::{
    ActionRef, CallMonitor, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, Episodes, FailurePlace, Frame,
    ObsMut, Restarted, SavedEnv, SavedEnvs, SavedEpisodes, Step, VectorContext, VectorEnv, VectorStep, Way,
};

use crate::child::Deadline;
use crate::error::ProcessError;
use crate::group::{Failed, Group, Groups, Purpose, Starting, spec_alone};
use crate::order::Order;
use crate::rerun::{Rerun, Stopped};
use crate::settings::ProcessEnvs;

/// Environments in processes that step in parallel.
pub(crate) struct ProcessVectorEnv {
    settings: ProcessEnvs,
    context: VectorContext,
    spec: EnvSpec,
    groups: Groups,
    /// `[B]`
    episodes: Vec<Episodes>,
    /// `[B]`, of the last step.
    rewards: Vec<f64>,
    /// `[obs_len]`: the final observation of the episode that ended last.
    final_obs: ObsColumn,
    finished: Vec<EpisodeStat>,
    /// The environment whose last frames are kept, and the newest of them.
    last_frame: (Option<usize>, Option<Frame>),
    /// `[B]`: the actions of the running episodes, in runs that save checkpoints.
    played: Option<Vec<ActionColumn>>,
    monitor: CallMonitor,
}

impl ProcessVectorEnv {
    /// Starts the processes and waits until all have made their environments.
    pub(crate) fn start(
        settings: &ProcessEnvs,
        context: &VectorContext,
        n_envs: usize,
        render: bool,
        monitor: &CallMonitor,
    ) -> Result<Self, EnvFailure> {
        let failed = |first: usize, error: EnvError| {
            context.failure(None, first as u32, FailurePlace::Make, EnvFailureCause::Error(error))
        };
        settings.check().map_err(|error| failed(0, EnvError::new(error)))?;
        let mut groups = Groups::new(settings, context.worker, monitor);
        for first in (0..n_envs).step_by(settings.envs_per_process) {
            monitor.at(first as u32, FailurePlace::Make);
            let size = settings.envs_per_process.min(n_envs - first);
            let purpose = Purpose { autoreset: true, render, seed: context.env(first as u32).seed };
            let group = Starting::begin(settings, first, size, purpose, monitor);
            groups.starting.push_back(group.map_err(|error| failed(first, EnvError::new(error)))?);
        }
        while let Some(group) = groups.starting.pop_front() {
            let first = group.first_env();
            monitor.at(first as u32, FailurePlace::Make);
            let group = group.finish().map_err(|error| failed(first, EnvError::new(error)))?;
            if let Some(before) = groups.list.first()
                && before.spec() != group.spec()
            {
                let (before, other) = (before.spec(), group.spec());
                let text =
                    format!("the processes of one worker must make the same: the first {before}, this one {other}");
                return Err(failed(first, EnvError::new(text)));
            }
            groups.list.push(group);
        }
        let Some(spec) = groups.list.first().and_then(|group| spec_alone(group.spec())) else {
            return Err(failed(0, EnvError::new("a vector needs at least one environment, got 0")));
        };
        let obs_len = spec.observation.obs_len();
        Ok(Self {
            settings: settings.clone(),
            context: *context,
            groups,
            episodes: (0..n_envs as u32).map(|index| Episodes::new(context.env(index))).collect(),
            rewards: vec![0.0; n_envs],
            final_obs: match spec.observation.obs_dtype() {
                ObsDtype::F32 => ObsColumn::F32(vec![0.0; obs_len]),
                ObsDtype::U8 => ObsColumn::U8(vec![0; obs_len]),
            },
            spec,
            finished: Vec::new(),
            last_frame: (None, None),
            played: None,
            monitor: monitor.clone(),
        })
    }

    /// Sends an order to all processes.
    fn tell(&mut self, order: Order) -> Result<Deadline, EnvFailure> {
        let deadline = order.deadline(&self.settings);
        for number in 0..self.groups.list.len() {
            let group = &mut self.groups.list[number];
            for env in 0..group.n_envs() {
                group.shared().set_seed(env, self.episodes[group.first_env() + env].next_seed());
            }
            let told = group.order(order, None, &deadline);
            // No environment has stepped yet.
            told.map_err(|failed| EnvFailure { steps_made: 0, ..self.failure(number, order, failed) })?;
        }
        Ok(deadline)
    }

    /// Waits for the answer of a process.
    fn wait(&mut self, number: usize, order: Order, deadline: &Deadline) -> Result<(), EnvFailure> {
        self.watch_over(number, order);
        let done = self.groups.list[number].answer(order, deadline);
        done.map_err(|failed| self.failure(number, order, failed))
    }

    /// Reports to the monitor which process this thread waits for.
    fn watch_over(&self, number: usize, order: Order) {
        let first = self.groups.list[number].first_env();
        let episodes = &self.episodes[first];
        let place = match order {
            Order::Reset => FailurePlace::Reset { episode_seed: episodes.next_seed() },
            Order::Step => episodes.next_place(),
            Order::Render => episodes.render_place(),
        };
        self.monitor.at(first as u32, place);
    }

    /// Collects the results of a process's step.
    fn collect(&mut self, number: usize, out: &mut VectorStep<'_>) -> Result<(), EnvFailure> {
        let group = &mut self.groups.list[number];
        let (first, n_envs, obs_len) = (group.first_env(), group.n_envs(), self.spec.observation.obs_len());
        group.shared().rewards(0, 0, &mut self.rewards[first..][..n_envs]);
        let seen = group.shared().observe(0, 0, out.obs.part(first * obs_len, n_envs * obs_len));
        if let Err(failed) = group.ends(0, 0, &mut out.ends[first..][..n_envs]) {
            return Err(self.failure(number, Order::Step, failed));
        }
        seen.map_err(|error| self.broken(first, error))?;
        for env in 0..n_envs {
            let index = first + env;
            let step = Step { reward: self.rewards[index] as f32, end: out.ends[index] };
            let row = out.obs.part(index * obs_len, obs_len);
            let episodes = &mut self.episodes[index];
            // The child applies the step limit itself.
            let counted = if step.end == End::No {
                episodes.count(step, &row, None)
            } else {
                let seen = self.groups.list[number].shared().final_observation(env, self.final_obs.view_mut().into());
                seen.map_err(EnvFailureCause::Error)
                    .and_then(|()| episodes.count(step, &self.final_obs.view_mut().into(), None))
            };
            let place = episodes.next_place();
            let failed = |place, cause, steps_made| EnvFailure {
                steps_made,
                ..self.context.failure(Some(&self.spec), index as u32, place, cause)
            };
            counted.map_err(|cause| failed(place, cause, index))?;
            out.rewards[index] =
                self.settings.clip_rewards.map_or(step.reward, |limit| step.reward.clamp(-limit, limit));
            if step.end == End::No {
                if self.groups.list[number].shared().life_lost(0, env) {
                    // What is learned from ends; the episode that is counted goes on.
                    out.ends[index] = End::Terminated;
                }
                continue;
            }
            if step.end == End::Truncated {
                let kept = out.final_obs.push(out.t, index, self.final_obs.view());
                let place = episodes.place();
                kept.map_err(|error| failed(place, EnvFailureCause::Error(EnvError::new(error)), index + 1))?;
            }
            if self.last_frame.0 == Some(index) {
                let place = episodes.render_place();
                let broken = |Failed { error, .. }| EnvFailureCause::Error(EnvError::new(error));
                let frame = self.groups.list[number].frame(env).map_err(broken);
                self.last_frame.1 = frame.map_err(|cause| failed(place, cause, index + 1))?;
            }
            if let Some(played) = &mut self.played {
                played[index].resize(0);
            }
            self.finished.push(episodes.stat());
            episodes.begin();
            row.check_finite().map_err(|cause| failed(episodes.reset_place(), cause, index + 1))?;
        }
        Ok(())
    }

    /// Whether the processes can play the episode of one environment again.
    fn plays_again(&self) -> bool {
        self.groups.list.iter().all(Group::one_by_one)
    }

    /// Brings the environments back into their episodes, or begins others and says why.
    fn go_back(&mut self, saved: &SavedEnvs, mut obs: ObsMut<'_>) -> Result<Vec<Restarted>, EnvFailure> {
        let obs_len = self.spec.observation.obs_len();
        let lost = if self.plays_again() {
            let Self { groups, settings, monitor, final_obs, .. } = self;
            let played = Rerun { groups: &mut groups.list, settings, monitor }.play(&saved.envs, final_obs);
            played.map_err(|Stopped { number, order, place, failed }| EnvFailure {
                place,
                steps_made: 0,
                ..self.failure(number, order, *failed)
            })?
        } else {
            let why = "its process has no orders for one environment alone";
            (0..self.n_envs()).map(|index| (index, why.to_owned())).collect()
        };
        let saved = saved.envs.iter();
        self.episodes.iter_mut().zip(saved.clone()).for_each(|(episodes, saved)| episodes.load(saved.episodes));
        for (played, saved) in self.played.iter_mut().flatten().zip(saved) {
            if let Way::Rerun(actions) = &saved.way {
                played.clone_from(actions);
            }
        }
        if lost.len() == self.n_envs() {
            self.reset_all(obs)?;
        } else {
            for (index, _) in &lost {
                self.begin_alone(*index, obs.part(index * obs_len, obs_len))?;
            }
        }
        let restarted = |(index, why)| Restarted { index: self.context.first_env + index as u32, why };
        Ok(lost.into_iter().map(restarted).collect())
    }

    /// The process of an environment.
    fn group_of(&self, index: usize) -> usize {
        self.groups.list.iter().take_while(|group| group.first_env() <= index).count() - 1
    }

    /// Begins the next episode of one environment.
    fn begin_alone(&mut self, index: usize, row: ObsMut<'_>) -> Result<(), EnvFailure> {
        let number = self.group_of(index);
        let group = &mut self.groups.list[number];
        let (env, deadline) = (index - group.first_env(), Order::Reset.deadline(&self.settings));
        group.shared().set_seed(env, self.episodes[index].next_seed());
        let told = group.order(Order::Reset, Some(env), &deadline);
        told.map_err(|failed| self.failure(number, Order::Reset, failed))?;
        self.wait(number, Order::Reset, &deadline)?;
        self.begun(number, env, row)
    }

    /// Reads the first observation of an environment's next episode.
    fn begun(&mut self, number: usize, env: usize, mut row: ObsMut<'_>) -> Result<(), EnvFailure> {
        let group = &self.groups.list[number];
        let index = group.first_env() + env;
        let seen = group.shared().observe(0, env, row.reborrow()).map_err(EnvFailureCause::Error);
        self.episodes[index].begin();
        if let Some(played) = &mut self.played {
            played[index].resize(0);
        }
        let place = self.episodes[index].reset_place();
        seen.and_then(|()| row.check_finite())
            .map_err(|cause| self.context.failure(Some(&self.spec), index as u32, place, cause))
    }

    /// The caller's actions or buffers are of another space.
    #[cold]
    fn broken(&self, index: usize, error: EnvError) -> EnvFailure {
        let place = self.episodes[index].next_place();
        self.context.failure(Some(&self.spec), index as u32, place, EnvFailureCause::Error(error))
    }

    /// The failure of an environment in a process that failed.
    #[cold]
    fn failure(&self, number: usize, order: Order, failed: Failed) -> EnvFailure {
        let Failed { env, call, error } = failed;
        let group = &self.groups.list[number];
        let index = group.first_env() + env;
        let episodes = &self.episodes[index];
        let cause = match error {
            ProcessError::Silent { waited, .. } => {
                let mut last_obs = self.final_obs.clone();
                let seen = group.shared().observe(0, env, last_obs.view_mut().into());
                let last_obs = (order == Order::Step && seen.is_ok()).then_some(last_obs);
                let hang = EnvFailureCause::Hang { silent_for: waited, last_obs };
                EnvFailureCause::Explained { cause: Box::new(hang), why: EnvError::new(error) }
            }
            error => EnvFailureCause::Error(EnvError::new(error)),
        };
        let (place, began) = match (call, order) {
            (Order::Reset, _) => (FailurePlace::Reset { episode_seed: episodes.next_seed() }, 1),
            (Order::Step, _) => (episodes.next_place(), 0),
            (Order::Render, Order::Step) => {
                // The last frame of an episode, drawn within the step that ends it.
                let SavedEpisodes { seed: episode_seed, len, .. } = episodes.save();
                (FailurePlace::Render { episode_seed, step: len.saturating_add(1) }, 1)
            }
            (Order::Render, _) => (episodes.render_place(), 0),
        };
        let steps_made = if order == Order::Step { index + began } else { 0 };
        EnvFailure { steps_made, ..self.context.failure(Some(&self.spec), index as u32, place, cause) }
    }
}

impl VectorEnv for ProcessVectorEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn n_envs(&self) -> usize {
        self.episodes.len()
    }

    fn reset_all(&mut self, mut obs: ObsMut<'_>) -> Result<(), EnvFailure> {
        let deadline = self.tell(Order::Reset)?;
        let obs_len = self.spec.observation.obs_len();
        for number in 0..self.groups.list.len() {
            self.wait(number, Order::Reset, &deadline)?;
            let (first, n_envs) = (self.groups.list[number].first_env(), self.groups.list[number].n_envs());
            for env in 0..n_envs {
                self.begun(number, env, obs.part((first + env) * obs_len, obs_len))?;
            }
        }
        Ok(())
    }

    fn step(&mut self, actions: ActionRef<'_>, mut out: VectorStep<'_>) -> Result<(), EnvFailure> {
        let act_len = self.spec.action.act_len();
        for group in &self.groups.list {
            let first = group.first_env();
            let acted =
                group.shared().act(0, 0..group.n_envs(), actions.part(first * act_len, group.n_envs() * act_len));
            acted.map_err(|error| self.broken(first, error))?;
        }
        if let Some(played) = &mut self.played {
            let is_kept = |index: usize| self.episodes[index].save().len < SavedEpisodes::LONGEST_REPLAY;
            let mut played = played.iter_mut().enumerate().filter(|(index, _)| is_kept(*index));
            let kept = played.try_for_each(|(index, kept)| kept.append(actions.part(index * act_len, act_len).view()));
            kept.map_err(|error| self.broken(0, EnvError::new(error)))?;
        }
        let deadline = self.tell(Order::Step)?;
        // Waiting for the last process first mostly wakes this thread only once.
        if let [_, .., last] = &self.groups.list[..] {
            self.watch_over(self.groups.list.len() - 1, Order::Step);
            last.listen(&deadline);
        }
        for number in 0..self.groups.list.len() {
            self.wait(number, Order::Step, &deadline)?;
            self.collect(number, &mut out)?;
        }
        Ok(())
    }

    fn action_masks(&mut self, masks: &mut [bool]) -> Result<(), EnvFailure> {
        let len = masks.len() / self.n_envs();
        for group in &self.groups.list {
            let first = group.first_env();
            let written = group.shared().masks(0, &mut masks[first * len..][..group.n_envs() * len]);
            written.map_err(|error| self.broken(first, error))?;
        }
        for (index, mask) in masks.chunks_exact(len).enumerate().filter(|_| self.spec.action_mask) {
            if let Some(choice) = self.spec.nothing_possible(mask) {
                let (place, cause) = (self.episodes[index].mask_place(), EnvFailureCause::NothingPossible { choice });
                return Err(self.context.failure(Some(&self.spec), index as u32, place, cause));
            }
        }
        Ok(())
    }

    fn present_episode(&self, index: usize) -> Option<EpisodeStat> {
        // Before rewards are clipped.
        Some(self.episodes[index].stat())
    }

    fn drain_episodes(&mut self, into: &mut Vec<EpisodeStat>) {
        into.append(&mut self.finished);
    }

    fn render(&mut self, index: usize) -> Result<Option<Frame>, EnvFailure> {
        let number = self.group_of(index);
        let group = &mut self.groups.list[number];
        if !group.renders() {
            return Ok(None);
        }
        let (env, order) = (index - group.first_env(), Order::Render);
        let deadline = order.deadline(&self.settings);
        let told = group.order(order, Some(env), &deadline);
        self.monitor.at(index as u32, self.episodes[index].render_place());
        let group = &mut self.groups.list[number];
        let drawn = told.and_then(|()| group.answer(order, &deadline)).and_then(|()| group.frame(env));
        drawn.map_err(|failed| self.failure(number, order, failed))
    }

    fn keep_last_frames(&mut self, index: usize) {
        let group = &self.groups.list[self.group_of(index)];
        if group.renders() {
            group.shared().keep_last_frames(index - group.first_env());
            self.last_frame.0 = Some(index);
        }
    }

    fn take_last_frame(&mut self) -> Option<Frame> {
        self.last_frame.1.take()
    }

    fn keep_for_save(&mut self) {
        self.played = self.plays_again().then(|| vec![ActionColumn::default(); self.n_envs()]);
    }

    fn save(&mut self, obs: ObsView<'_>) -> Result<Option<SavedEnvs>, EnvFailure> {
        let obs_len = self.spec.observation.obs_len();
        let saved = self.episodes.iter().enumerate().map(|(index, episodes)| {
            let episodes = episodes.save();
            let played = self.played.as_ref().filter(|_| episodes.len <= SavedEpisodes::LONGEST_REPLAY);
            let way = played.map_or(Way::Unknown, |played| Way::Rerun(played[index].clone()));
            SavedEnv::new(episodes, way, obs.row(index, obs_len))
        });
        Ok(Some(SavedEnvs { envs: saved.collect(), finished: self.finished.clone() }))
    }

    fn load(&mut self, saved: &SavedEnvs, obs: ObsMut<'_>) -> Result<Vec<Restarted>, EnvFailure> {
        self.finished.clone_from(&saved.finished);
        self.go_back(saved, obs)
    }
}
