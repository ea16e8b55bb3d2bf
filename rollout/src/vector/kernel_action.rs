use pronk_policy::Space;

use crate::env::{ActionRef, EnvError};

/// The one-dimensional action of a [`Kernel`](crate::Kernel): `u32` if discrete, `f32` if continuous.
pub trait KernelAction: Copy + 'static {
    /// Whether actions of the space have this type.
    fn is_of(space: &Space) -> bool;

    /// The actions of all environments; an error for the other type.
    fn all(actions: ActionRef<'_>) -> Result<&[Self], EnvError>;

    /// The first action that is not in the space, as the index of its environment and an error.
    fn first_refused(actions: &[Self], space: &Space) -> Option<(usize, EnvError)>;
}

impl KernelAction for u32 {
    fn is_of(space: &Space) -> bool {
        space.has_discrete_actions() && space.act_len() == 1
    }

    fn all(actions: ActionRef<'_>) -> Result<&[u32], EnvError> {
        match actions {
            ActionRef::Discrete(actions) => Ok(actions),
            other => Err(EnvError::new(format!("the environment expects discrete actions, got {other:?}"))),
        }
    }

    fn first_refused(actions: &[u32], space: &Space) -> Option<(usize, EnvError)> {
        // The maximum needs no branches; a search follows only on an error.
        let highest = actions.iter().copied().max()?;
        let n = space.dist_len();
        if (highest as usize) < n {
            return None;
        }
        let index = actions.iter().position(|action| *action as usize >= n)?;
        Some((index, EnvError::new(format!("the action is not in {space}: got {}", actions[index]))))
    }
}

impl KernelAction for f32 {
    fn is_of(space: &Space) -> bool {
        !space.has_discrete_actions() && space.act_len() == 1
    }

    fn all(actions: ActionRef<'_>) -> Result<&[f32], EnvError> {
        actions.continuous()
    }

    /// NaN is refused, since no bound could clip it.
    fn first_refused(actions: &[f32], _: &Space) -> Option<(usize, EnvError)> {
        if !actions.iter().fold(false, |any, action| any | action.is_nan()) {
            return None;
        }
        let index = actions.iter().position(|action| action.is_nan())?;
        Some((index, EnvError::new("the action is NaN, which no bound could clip")))
    }
}
