use pronk_metrics::catch;
use pronk_policy::Space;

use crate::env::{
    ActionRef, CallMonitor, Env, EnvContext, EnvError, EnvFailure, EnvFailureCause, Episodes, FailurePlace, ObsMut,
    Spec, Step, VectorContext, mask,
};

/// One environment of a vector and the episode it is in.
#[derive(Debug)]
pub(crate) struct Slot<E> {
    pub(crate) env: E,
    pub(crate) episodes: Episodes,
}

impl<E: Env> Slot<E> {
    /// Begins the episode of a seed.
    pub(crate) fn reset(&mut self, seed: u64, mut obs: ObsMut<'_>) -> Result<(), EnvFailureCause> {
        self.episodes.begin_with(seed);
        call(|| self.env.reset(seed, obs.reborrow()))?;
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
        let step = call(|| self.env.step(action, obs.reborrow()))?;
        let end = self.episodes.count(step, &obs, max_episode_steps)?;
        Ok(Step { end, ..step })
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
        slots.push(Slot { env, episodes: Episodes::new(env_context) });
        shared.get_or_insert(spec);
    }
    let Some(spec) = shared else {
        let cause = EnvFailureCause::Error(EnvError::new("a vector needs at least one environment, got 0"));
        return Err(context.failure_to_make(cause));
    };
    Ok((spec, slots))
}
