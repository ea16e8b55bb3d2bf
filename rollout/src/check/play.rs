use std::hash::{DefaultHasher, Hash, Hasher};

use pronk_buffer::{End, ObsColumn, ObsView};
use pronk_metrics::catch;
use pronk_policy::{Rng, Space};

use super::error::{EnvCheckError, EnvFault};
use super::unwritten::{Background, is_unwritten};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, first_non_finite, mask, obs_kind};

/// After so many steps an episode without a time limit counts as never ending.
pub(crate) const PATIENCE_STEPS: u32 = 10_000;

/// A digest of each step of one episode, the reset first.
pub(crate) struct Played(pub(crate) Vec<u64>);

impl Played {
    /// The first step in which two episodes differ, 0 being the reset.
    pub(crate) fn differs_at(&self, other: &Self) -> Option<u32> {
        let steps = self.0.len().max(other.0.len());
        (0..steps).find(|&step| self.0.get(step) != other.0.get(step)).map(|step| step as u32)
    }
}

/// Plays one episode with random actions that depend on nothing but the seed.
pub(super) fn play(
    env: &mut impl Env,
    spec: &EnvSpec,
    seed: u64,
    background: Background,
) -> Result<Played, EnvCheckError> {
    let fault_at = |step| move |fault| EnvCheckError::in_episode(&spec.name, seed, step, fault);
    let mut row = ObsColumn::zeros(obs_kind(&spec.observation), spec.observation.obs_len());
    let mut action = Action::new(&spec.action);
    let mut rng = Rng::stream(seed, &[u64::from(u32::MAX)]);

    background.fill(row.view_mut().into());
    call(|| env.reset(seed, row.view_mut().into())).map_err(fault_at(0))?;
    check_row(row.view(), &spec.observation).map_err(fault_at(0))?;
    ask_mask(env, spec, &mut action.mask).map_err(fault_at(0))?;
    let mut played = Played(vec![digest(row.view(), 0.0, End::No, &action.mask)]);

    let limit = spec.max_episode_steps.unwrap_or(PATIENCE_STEPS);
    for step in 1..=limit {
        action.draw(&spec.action, &mut rng);
        background.fill(row.view_mut().into());
        let made = call(|| env.step(action.as_ref(), row.view_mut().into())).map_err(fault_at(step))?;
        check_row(row.view(), &spec.observation).map_err(fault_at(step))?;
        if !made.reward.is_finite() {
            return Err(fault_at(step)(EnvFault::NonFiniteReward { value: made.reward }));
        }
        if made.end == End::No {
            ask_mask(env, spec, &mut action.mask).map_err(fault_at(step))?;
        }
        played.0.push(digest(row.view(), made.reward, made.end, &action.mask));
        if made.end != End::No {
            return Ok(played);
        }
    }
    match spec.max_episode_steps {
        Some(_) => Ok(played),
        None => Err(fault_at(limit)(EnvFault::NeverEnds { steps: limit })),
    }
}

/// Calls the environment; a panic in it is a fault like any other.
pub(crate) fn call<R>(ask: impl FnOnce() -> Result<R, EnvError>) -> Result<R, EnvFault> {
    catch(ask).map_err(EnvFault::Panic)?.map_err(EnvFault::Error)
}

/// Whether a row was written and is in its space.
pub(crate) fn check_row(row: ObsView<'_>, space: &Space) -> Result<(), EnvFault> {
    let inside = match row {
        ObsView::F32(row) => {
            if let Some(element) = row.iter().position(|value| is_unwritten(*value)) {
                return Err(EnvFault::NotWritten { element });
            }
            if let Some((element, value)) = first_non_finite(row) {
                return Err(EnvFault::NonFiniteObservation { element, value });
            }
            space.contains_f32(row)
        }
        ObsView::U8(row) => space.contains_u8(row),
    };
    if inside { Ok(()) } else { Err(EnvFault::OutsideSpace { what: outside(row, space) }) }
}

/// Where a row that is not in the space leaves it.
fn outside(row: ObsView<'_>, space: &Space) -> String {
    let value_at = |element: usize| match row {
        ObsView::F32(row) => row[element],
        ObsView::U8(row) => f32::from(row[element]),
    };
    match space {
        Space::Box { low, high, .. } => {
            let element = (0..low.len()).find(|&i| !(low[i]..=high[i]).contains(&value_at(i))).unwrap_or(0);
            format!(
                "observation element {element} is {}, outside its bounds {} to {}",
                value_at(element),
                low[element],
                high[element]
            )
        }
        Space::Discrete { .. } | Space::MultiDiscrete { .. } => {
            format!("the observation is not the one-hot vector that {space} asks for")
        }
    }
}

/// Adds an observation to a digest, bit for bit.
pub(crate) fn hash_obs(row: ObsView<'_>, hasher: &mut DefaultHasher) {
    match row {
        ObsView::F32(row) => row.iter().for_each(|value| value.to_bits().hash(hasher)),
        ObsView::U8(row) => row.hash(hasher),
    }
}

fn digest(row: ObsView<'_>, reward: f32, end: End, mask: &[bool]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_obs(row, &mut hasher);
    reward.to_bits().hash(&mut hasher);
    (end as u8).hash(&mut hasher);
    mask.hash(&mut hasher);
    hasher.finish()
}

fn ask_mask(env: &impl Env, spec: &EnvSpec, mask: &mut [bool]) -> Result<(), EnvFault> {
    if !spec.action_mask {
        return Ok(());
    }
    mask.fill(true);
    call(|| env.action_mask(mask))?;
    match mask::first_fully_masked(mask, &spec.action) {
        None => Ok(()),
        Some(choice) => Err(EnvFault::NothingPossible { choice }),
    }
}

/// One action, and what is possible.
pub(crate) struct Action {
    /// Of an action that is chosen.
    indices: Vec<u32>,
    /// Of one that is numbers.
    numbers: Vec<f32>,
    pub(crate) mask: Vec<bool>,
}

impl Action {
    pub(crate) fn new(space: &Space) -> Self {
        let (indices, numbers) = if space.has_discrete_actions() { (space.act_len(), 0) } else { (0, space.act_len()) };
        Self { indices: vec![0; indices], numbers: vec![0.0; numbers], mask: vec![true; space.dist_len()] }
    }

    /// Draws one of the actions that are possible.
    pub(crate) fn draw(&mut self, space: &Space, rng: &mut Rng) {
        for (index, choice) in self.indices.iter_mut().zip(mask::choices(&self.mask, space)) {
            let possible = (0..).zip(choice).filter(|(_, possible)| **possible);
            let nth = rng.below(possible.clone().count() as u64) as usize;
            *index = possible.map(|(thing, _)| thing).nth(nth).unwrap_or_default();
        }
        if let Space::Box { low, high, .. } = space {
            for (number, (low, high)) in self.numbers.iter_mut().zip(low.iter().zip(high)) {
                *number = draw_between(*low, *high, rng);
            }
        }
    }

    pub(crate) fn as_ref(&self) -> ActionRef<'_> {
        if self.indices.is_empty() { ActionRef::Continuous(&self.numbers) } else { ActionRef::Discrete(&self.indices) }
    }
}

/// Uniform between finite bounds, normal and clipped where one is infinite.
fn draw_between(low: f32, high: f32, rng: &mut Rng) -> f32 {
    if low.is_finite() && high.is_finite() {
        let share = rng.next_f32();
        low * (1.0 - share) + high * share
    } else {
        (rng.normal() as f32).clamp(low, high)
    }
}
