use pronk_policy::Space;

use crate::env::{ActionRef, EnvError};

/// The action of a [`Kernel`](crate::Kernel): `u32`, one choice among things, or `f32`, one number.
///
/// ```
/// use pronk_policy::Space;
/// use pronk_rollout::{ActionRef, KernelAction};
///
/// let two = Space::discrete(2)?;
/// let pushes = u32::all(ActionRef::Discrete(&[0, 1, 2]))?;
/// let (index, error) = u32::first_refused(pushes, &two).expect("2 is not one of them");
/// assert_eq!((index, error.to_string().as_str()), (2, "the actions are those of Discrete(2), got 2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KernelAction: Copy + 'static {
    /// Whether an action of the space is one such number.
    fn is_of(space: &Space) -> bool;

    /// The actions of all environments, one number each.
    ///
    /// # Errors
    /// When they are of the other kind.
    fn all(actions: ActionRef<'_>) -> Result<&[Self], EnvError>;

    /// The first that is no action of the space, with its environment.
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
        // A look at all of them takes no branches; which one it is matters only once something is wrong.
        let highest = actions.iter().copied().max()?;
        let n = space.dist_len();
        if (highest as usize) < n {
            return None;
        }
        let index = actions.iter().position(|action| *action as usize >= n)?;
        Some((index, EnvError::new(format!("the actions are those of {space}, got {}", actions[index]))))
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
