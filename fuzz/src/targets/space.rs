//! Observation and action spaces.

use pronk::Space;
use pronk::policy::{ActionScale, GaussianConfig, distribution_with};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "space",
    promise: "The first line is a space, the rest an observation or an action. A space that is accepted reads back \
              the same, its sizes agree, and it holds nothing that is too short, too long or out of bounds.",
    run,
};

/// Larger spaces are only looked at: their observations would be longer than any input.
const LARGE: usize = 1 << 16;

fn run(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (json, values) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let Ok(space) = serde_json::from_slice::<Space>(json) else { return };
    drop(space.to_string());
    if let Err(error) = space.check() {
        return drop(error.to_string());
    }
    let written = serde_json::to_string(&space).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Space>(&written).ok().as_ref(), Some(&space), "{written}");
    contains(&space, values);
    if space.dist_len() <= LARGE {
        acts(&space, values);
    }
}

/// Checks that what the space contains has its length and is within its bounds.
fn contains(space: &Space, values: &[u8]) {
    let numbers: Vec<f32> = values.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let indices: Vec<u32> = values.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
    if space.contains_u8(values) {
        assert_eq!(values.len(), space.obs_len());
    }
    if space.contains_f32(&numbers) {
        assert!(numbers.len() == space.obs_len() && numbers.iter().all(|number| !number.is_nan()), "{numbers:?}");
    }
    if space.contains_discrete(&indices) {
        let below = |&index: &u32| (index as usize) < space.obs_len();
        assert!(space.has_discrete_actions() && indices.len() == space.act_len() && indices.iter().all(below));
    }
    if space.contains_continuous(&numbers) {
        assert!(!space.has_discrete_actions() && numbers.len() == space.act_len());
    }
    assert!(space.frame_len().is_none_or(|frame| space.obs_len().is_multiple_of(frame)), "{space}");
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
