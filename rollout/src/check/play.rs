use std::hash::{DefaultHasher, Hash};

use pronk_buffer::{End, ObsView};
use pronk_policy::{Rng, Space};

use super::error::EnvFault;
use super::instance::Difference;
use crate::env::{ActionRef, mask};

/// Whether an observation is inside its space.
pub(super) fn check_space(row: ObsView<'_>, space: &Space) -> Result<(), EnvFault> {
    let inside = match row {
        ObsView::F32(row) => space.contains_f32(row),
        ObsView::U8(row) => space.contains_u8(row),
    };
    if inside { Ok(()) } else { Err(EnvFault::OutsideSpace { what: outside(row, space) }) }
}

/// Says where an observation leaves its space.
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
pub(super) fn hash_obs(row: ObsView<'_>, hasher: &mut DefaultHasher) {
    match row {
        ObsView::F32(row) => row.iter().for_each(|value| value.to_bits().hash(hasher)),
        ObsView::U8(row) => row.hash(hasher),
    }
}

/// The first element, compared by its bits, that differs between the observations of two instances.
pub(super) fn obs_difference(fresh: ObsView<'_>, used: ObsView<'_>) -> Option<Difference> {
    match (fresh, used) {
        (ObsView::F32(fresh), ObsView::F32(used)) => {
            element_difference("observation", fresh, used, |a, b| a.to_bits() == b.to_bits())
        }
        (ObsView::U8(fresh), ObsView::U8(used)) => element_difference("observation", fresh, used, |a, b| a == b),
        (ObsView::F32(_), _) => Difference::of("the type of the observation", "f32", "u8"),
        (ObsView::U8(_), _) => Difference::of("the type of the observation", "u8", "f32"),
    }
}

pub(super) fn mask_difference(fresh: &[bool], used: &[bool]) -> Option<Difference> {
    element_difference("action mask", fresh, used, |a, b| a == b)
}

pub(super) fn reward_difference(fresh: f32, used: f32) -> Option<Difference> {
    let differs = fresh.to_bits() != used.to_bits();
    differs.then(|| Difference { what: "the reward".to_owned(), fresh: fresh.to_string(), used: used.to_string() })
}

pub(super) fn end_difference(fresh: End, used: End) -> Option<Difference> {
    Difference::of("the end of the episode", format!("`{fresh:?}`"), format!("`{used:?}`"))
}

fn element_difference<T: Copy + ToString>(
    of: &str,
    fresh: &[T],
    used: &[T],
    is_same: impl Fn(T, T) -> bool,
) -> Option<Difference> {
    let mut pairs = fresh.iter().zip(used).enumerate();
    let (element, (fresh, used)) = pairs.find(|(_, (fresh, used))| !is_same(**fresh, **used))?;
    Some(Difference { what: format!("{of} element {element}"), fresh: fresh.to_string(), used: used.to_string() })
}

/// One action, and the mask it is drawn under.
pub(super) struct Action {
    /// Of a discrete action.
    indices: Vec<u32>,
    /// Of a continuous one.
    numbers: Vec<f32>,
    pub(super) mask: Vec<bool>,
}

impl Action {
    pub(super) fn new(space: &Space) -> Self {
        let (indices, numbers) = if space.has_discrete_actions() { (space.act_len(), 0) } else { (0, space.act_len()) };
        Self { indices: vec![0; indices], numbers: vec![0.0; numbers], mask: vec![true; space.dist_len()] }
    }

    /// Draws a possible action.
    pub(super) fn draw(&mut self, space: &Space, rng: &mut Rng) {
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

    pub(super) fn as_ref(&self) -> ActionRef<'_> {
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
