use std::hash::{DefaultHasher, Hash, Hasher};

use pronk_buffer::End;
use pronk_policy::{ObsDtype, Rng, Space};

use super::error::{EnvCheckError, EnvFault};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, first_non_finite};
use crate::failure::catch;

/// After so many steps an episode without a time limit counts as never ending.
const PATIENCE_STEPS: u32 = 10_000;

/// What an observation row holds before the environment writes it. For floats it is a NaN that no arithmetic makes; for
/// bytes, where every value is a possible one, the two runs of an episode have different backgrounds, so that a byte which
/// is not written makes them differ.
#[derive(Clone, Copy)]
pub(super) enum Background {
    First,
    Second,
}

const UNWRITTEN: u32 = 0x7fc5_a5a5;

/// A digest of each step of one episode, the reset first.
pub(super) struct Played(Vec<u64>);

impl Played {
    /// The first step in which two episodes differ, 0 being the reset.
    pub(super) fn differs_at(&self, other: &Self) -> Option<u32> {
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
    let fault_at = |step| move |fault| EnvCheckError::in_episode(spec, seed, step, fault);
    let mut row = Row::new(&spec.observation);
    let mut action = Action::new(&spec.action);
    let mut rng = Rng::stream(seed, &[u64::from(u32::MAX)]);

    row.clear(background);
    call(|| env.reset(seed, row.as_mut())).map_err(fault_at(0))?;
    row.check(&spec.observation).map_err(fault_at(0))?;
    let mut played = Played(vec![row.digest(0.0, End::No)]);

    let limit = spec.max_episode_steps.unwrap_or(PATIENCE_STEPS);
    for step in 1..=limit {
        action.draw(&spec.action, &mut rng);
        row.clear(background);
        let made = call(|| env.step(action.as_ref(), row.as_mut())).map_err(fault_at(step))?;
        row.check(&spec.observation).map_err(fault_at(step))?;
        if !made.reward.is_finite() {
            return Err(fault_at(step)(EnvFault::NonFiniteReward { value: made.reward }));
        }
        played.0.push(row.digest(made.reward, made.end));
        if made.end != End::No {
            return Ok(played);
        }
    }
    match spec.max_episode_steps {
        Some(_) => Ok(played),
        None => Err(fault_at(limit)(EnvFault::NeverEnds { steps: limit })),
    }
}

fn call<R>(ask: impl FnOnce() -> Result<R, EnvError>) -> Result<R, EnvFault> {
    catch(ask).map_err(EnvFault::Panic)?.map_err(EnvFault::Error)
}

/// One observation.
enum Row {
    F32(Vec<f32>),
    U8(Vec<u8>),
}

impl Row {
    fn new(space: &Space) -> Self {
        match space.obs_dtype() {
            ObsDtype::F32 => Row::F32(vec![0.0; space.obs_len()]),
            ObsDtype::U8 => Row::U8(vec![0; space.obs_len()]),
        }
    }

    fn clear(&mut self, background: Background) {
        match self {
            Row::F32(row) => row.fill(f32::from_bits(UNWRITTEN)),
            Row::U8(row) => row.fill(match background {
                Background::First => 0x5a,
                Background::Second => 0xa5,
            }),
        }
    }

    fn as_mut(&mut self) -> ObsMut<'_> {
        match self {
            Row::F32(row) => ObsMut::F32(row),
            Row::U8(row) => ObsMut::U8(row),
        }
    }

    fn check(&self, space: &Space) -> Result<(), EnvFault> {
        let inside = match self {
            Row::F32(row) => {
                if let Some(element) = row.iter().position(|value| value.to_bits() == UNWRITTEN) {
                    return Err(EnvFault::NotWritten { element });
                }
                if let Some((element, value)) = first_non_finite(row) {
                    return Err(EnvFault::NonFiniteObservation { element, value });
                }
                space.contains_f32(row)
            }
            Row::U8(row) => space.contains_u8(row),
        };
        if inside { Ok(()) } else { Err(EnvFault::OutsideSpace { what: self.outside(space) }) }
    }

    /// Where a row that is not in the space leaves it.
    fn outside(&self, space: &Space) -> String {
        let value_at = |element: usize| match self {
            Row::F32(row) => row[element],
            Row::U8(row) => f32::from(row[element]),
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

    fn digest(&self, reward: f32, end: End) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Row::F32(row) => row.iter().for_each(|value| value.to_bits().hash(&mut hasher)),
            Row::U8(row) => row.hash(&mut hasher),
        }
        reward.to_bits().hash(&mut hasher);
        (end as u8).hash(&mut hasher);
        hasher.finish()
    }
}

/// One action.
enum Action {
    Discrete(Vec<u32>),
    Continuous(Vec<f32>),
}

impl Action {
    fn new(space: &Space) -> Self {
        if space.has_discrete_actions() {
            Action::Discrete(vec![0; space.act_len()])
        } else {
            Action::Continuous(vec![0.0; space.act_len()])
        }
    }

    fn draw(&mut self, space: &Space, rng: &mut Rng) {
        match (self, space) {
            (Action::Discrete(action), Space::Discrete { n }) => action.fill(rng.below(*n as u64) as u32),
            (Action::Discrete(action), Space::MultiDiscrete { nvec }) => {
                for (part, n) in action.iter_mut().zip(nvec) {
                    *part = rng.below(*n as u64) as u32;
                }
            }
            (Action::Continuous(action), Space::Box { low, high, .. }) => {
                for (part, (low, high)) in action.iter_mut().zip(low.iter().zip(high)) {
                    *part = draw_between(*low, *high, rng);
                }
            }
            // `new` chose the kind by the same space.
            _ => {}
        }
    }

    fn as_ref(&self) -> ActionRef<'_> {
        match self {
            Action::Discrete(action) => ActionRef::Discrete(action),
            Action::Continuous(action) => ActionRef::Continuous(action),
        }
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
