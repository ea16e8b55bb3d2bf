//! Observation and action spaces.

use pronk::Space;
use pronk::policy::{ActionScale, GaussianConfig, ObsDtype, distribution_with};

use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "space",
    promise: "The first line is a space, the rest an observation or an action. A space that is accepted reads back \
              the same, its sizes agree, and it holds nothing that is too short, too long or out of bounds.",
    run,
};

/// Larger spaces are only looked at: their observations would be longer than any input.
const LARGE: usize = 1 << 16;

fn run(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (json, values) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let Ok(space) = serde_json::from_slice::<Space>(json) else { return false };
    drop(space.to_string());
    if let Err(error) = space.check() {
        return refused(error);
    }
    let written = serde_json::to_string(&space).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Space>(&written).ok().as_ref(), Some(&space), "{written}");
    contains(&space, values);
    if space.dist_len() <= LARGE {
        acts(&space, values);
    }
    true
}

/// Checks that what the space contains has its length and is within its bounds.
fn contains(space: &Space, values: &[u8]) {
    let numbers: Vec<f32> = values.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let indices: Vec<u32> = values.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
    let (is_u8, is_f32) = (space.contains_u8(values), space.contains_f32(&numbers));
    let (is_discrete, is_continuous) = (space.contains_discrete(&indices), space.contains_continuous(&numbers));
    match space {
        Space::Box { low, high, dtype, .. } => {
            let within = |values: &[f32]| {
                values.len() == low.len() && (0..low.len()).all(|n| low[n] <= values[n] && values[n] <= high[n])
            };
            let bytes: Vec<f32> = values.iter().map(|&byte| byte.into()).collect();
            assert_eq!(is_u8, *dtype == ObsDtype::U8 && within(&bytes), "{values:?}");
            assert_eq!(is_f32, *dtype == ObsDtype::F32 && within(&numbers), "{numbers:?}");
            assert_eq!((is_continuous, is_discrete), (within(&numbers), false), "{numbers:?}");
        }
        Space::Discrete { n } => choices(&[*n], (&numbers, is_f32), (&indices, is_discrete)),
        Space::MultiDiscrete { nvec } => choices(nvec, (&numbers, is_f32), (&indices, is_discrete)),
    }
    assert!(!(is_u8 || is_continuous) || matches!(space, Space::Box { .. }), "{space}");
    assert!(space.frame_len().is_none_or(|frame| space.obs_len().is_multiple_of(frame)), "{space}");
}

/// Checks what was said of choices: an action has one below each number, an observation a single 1 for each.
fn choices(nvec: &[usize], (numbers, is_f32): (&[f32], bool), (indices, is_discrete): (&[u32], bool)) {
    let below = indices.len() == nvec.len() && (0..nvec.len()).all(|choice| (indices[choice] as usize) < nvec[choice]);
    assert_eq!(is_discrete, below, "{indices:?}");
    let chosen = is_f32.then(|| numbers.iter().filter(|&&number| number == 1.0).count());
    let len: usize = nvec.iter().sum();
    assert!(chosen.is_none_or(|chosen| chosen == nvec.len() && numbers.len() == len), "{numbers:?}");
}

/// Checks that a policy over the space has as many inputs as it says, and that actions are scaled into its
/// bounds.
fn acts(space: &Space, values: &[u8]) {
    match distribution_with(space, GaussianConfig::default()) {
        Ok(distribution) => assert_eq!(distribution.dist_len(), space.dist_len(), "{space}"),
        Err(error) => drop(error.to_string()),
    }
    let numbers = values.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
    let mut actions: Vec<f32> = numbers.filter(|number| !number.is_nan()).take(space.act_len()).collect();
    if !space.has_discrete_actions() && actions.len() == space.act_len() {
        ActionScale::new(space).to_env(&mut actions);
        assert!(space.contains_continuous(&actions), "{space} does not hold {actions:?}");
    }
}
