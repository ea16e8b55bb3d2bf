use pronk_buffer::{ActionColumn, End, ObsView};
use pronk_metrics::catch;
use pronk_policy::Space;

use super::keeps::Keeps;
use crate::env::{
    ActionRef, CallMonitor, Env, EnvContext, EnvError, EnvFailure, EnvFailureCause, Episodes, FailurePlace, Frame,
    ObsMut, SavedEnv, Spec, Step, VectorContext, Way, mask,
};

/// One environment of a vector and the episode it is in.
#[derive(Debug)]
pub(crate) struct Slot<E> {
    pub(crate) env: E,
    pub(crate) episodes: Episodes,
    /// For checkpoints.
    pub(crate) keeps: Keeps<ActionColumn>,
}

impl<E> Slot<E> {
    /// An environment before its first episode.
    pub(crate) fn new(env: E, context: EnvContext) -> Self {
        Self { env, episodes: Episodes::new(context), keeps: Keeps::Nothing }
    }
}

impl<E: Env> Slot<E> {
    /// Begins the episode of a seed.
    pub(crate) fn reset(&mut self, seed: u64, mut obs: ObsMut<'_>) -> Result<(), EnvFailureCause> {
        self.episodes.begin_with(seed);
        call(|| self.env.reset(seed, obs.reborrow()))?;
        let Self { env, keeps, .. } = self;
        keeps.begin(|| catch(|| env.save()).is_ok_and(|state| state.is_some()), || ActionColumn::U32(Vec::new()));
        obs.check_finite()
    }

    /// Takes a step: its reward, and whether it ends the episode.
    #[inline]
    pub(crate) fn step(
        &mut self,
        action: ActionRef<'_>,
        mut obs: ObsMut<'_>,
        max_episode_steps: Option<u32>,
    ) -> Result<Step, EnvFailureCause> {
        if let Some(played) = self.keeps.actions(self.episodes.save().len) {
            played.append(action.view()).map_err(|error| EnvFailureCause::Error(EnvError::new(error)))?;
        }
        let step = call(|| self.env.step(action, obs.reborrow()))?;
        let end = self.episodes.count(step, &obs, max_episode_steps)?;
        Ok(Step { end, ..step })
    }

    /// Draws its present state.
    pub(crate) fn render(&mut self) -> Result<Option<Frame>, EnvFailureCause> {
        call(|| self.env.render())
    }

    /// Where it is, after its newest observation.
    pub(crate) fn save(&mut self, obs: ObsView<'_>) -> Result<SavedEnv, EnvFailureCause> {
        let snapshot = catch(|| self.env.save()).map_err(EnvFailureCause::Panic)?;
        let episodes = self.episodes.save();
        let way = match (snapshot, self.keeps.all_actions(episodes.len)) {
            (Some(state), _) => Way::Snapshot(state),
            (None, Some(actions)) => Way::Rerun(actions.clone()),
            (None, None) => Way::Unknown,
        };
        Ok(SavedEnv::new(episodes, way, obs))
    }

    /// Gets back to where a saved one was; `row` is scratch, `[obs_len]`. Says why, if it cannot.
    pub(crate) fn go_back(
        &mut self,
        saved: &SavedEnv,
        mut row: ObsMut<'_>,
        max_episode_steps: Option<u32>,
    ) -> Result<(), String> {
        match &saved.way {
            Way::Unknown => return Err(saved.episodes.why_unknown()),
            Way::Snapshot(state) => {
                call(|| self.env.load(state)).map_err(|cause| cause.to_string())?;
                self.keeps.begin(|| true, || ActionColumn::U32(Vec::new()));
            }
            Way::Rerun(actions) => {
                let len = saved.episodes.len as usize;
                let act_len = actions.view().len() / len.max(1);
                self.reset(saved.episodes.seed, row.reborrow()).map_err(|cause| cause.to_string())?;
                for step in 0..len {
                    let action = actions.view().row(step, act_len).into();
                    let played = self.step(action, row.reborrow(), max_episode_steps);
                    match played.map_err(|cause| format!("step {}: {cause}", step + 1))?.end {
                        End::No => {}
                        end => return Err(format!("played again, its episode ended with step {}: {end:?}", step + 1)),
                    }
                }
                saved.check(row.as_view(), self.episodes.save().sum)?;
            }
        }
        self.episodes.load(saved.episodes);
        Ok(())
    }

    /// Writes the action mask of the present state, `[dist_len]`.
    pub(crate) fn mask(&self, mask: &mut [bool], action: &Space) -> Result<(), EnvFailureCause> {
        mask.fill(true);
        call(|| self.env.action_mask(mask))?;
        mask::check(mask, action)
    }
}

/// Calls an environment; its errors and panics become causes of a failure.
#[inline]
pub(super) fn call<R>(call: impl FnOnce() -> Result<R, EnvError>) -> Result<R, EnvFailureCause> {
    catch(call).map_err(EnvFailureCause::Panic)?.map_err(EnvFailureCause::Error)
}

/// Makes `n_envs` environments, one after the other; `monitor` shows which one is being made. Errors: a
/// `make` that fails or panics, a spec that is invalid or differs from the first one, or zero environments.
pub(super) fn make_all<E, S: Spec>(
    context: &VectorContext,
    n_envs: usize,
    monitor: &CallMonitor,
    make: impl Fn(&EnvContext) -> Result<E, EnvError>,
    spec_of: impl Fn(&E) -> S,
) -> Result<(S, Vec<Slot<E>>), EnvFailure> {
    let mut slots = Vec::with_capacity(n_envs);
    let mut shared: Option<S> = None;
    for index in 0..n_envs as u32 {
        let env_context = context.env(index);
        monitor.at(index, FailurePlace::Make);
        let made = call(|| {
            let env = make(&env_context)?;
            let spec = spec_of(&env);
            spec.check()?;
            match &shared {
                Some(first) if *first != spec => Err(EnvError::new(format!(
                    "the environments of one worker must have one spec: the first is {first}, this one {spec}"
                ))),
                _ => Ok((env, spec)),
            }
        });
        let (env, spec) = made.map_err(|cause| EnvFailure {
            env: shared.as_ref().map(|spec| spec.name().to_owned()).unwrap_or_default(),
            ..context.failure(None, index, FailurePlace::Make, cause)
        })?;
        slots.push(Slot::new(env, env_context));
        shared.get_or_insert(spec);
    }
    let Some(spec) = shared else {
        let cause = EnvFailureCause::Error(EnvError::new("a vector needs at least one environment, got 0"));
        return Err(context.failure_to_make(cause));
    };
    Ok((spec, slots))
}
