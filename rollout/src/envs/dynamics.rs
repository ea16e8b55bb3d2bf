use pronk_buffer::End;

use crate::env::{ActionRef, EnvError, EnvSpec, Frame, ObsMut, Step};
use crate::vector::{Kernel, KernelAction, Outcome, sin_cos};

/// The dynamics of a native environment, written once for its [`Env`](crate::Env) and its [`Kernel`].
///
/// It is public, in a private module, because the associated types of a public trait name it. The two differ
/// in sine and cosine: an `Env` takes those of the standard library, whose bits the golden numbers pin, and a
/// `Kernel` takes the branch-free [`sin_cos`] that vectorises.
pub trait Dynamics: 'static {
    type State: Copy + Default + AsRef<[f64]> + AsMut<[f64]> + Send;
    type Action: KernelAction;
    type Obs: AsRef<[f32]>;

    fn env_spec() -> EnvSpec;

    fn start(seed: u64) -> Self::State;

    fn advance(state: &mut Self::State, action: Self::Action, sin_cos: impl SinCos) -> Outcome;

    fn observation(state: &Self::State, sin_cos: impl SinCos) -> Self::Obs;

    /// A picture of the state.
    fn draw(state: &Self::State) -> Result<Frame, EnvError>;
}

/// A function that returns the sine and the cosine of an angle.
pub trait SinCos: Fn(f64) -> (f64, f64) + Copy {}

impl<F: Fn(f64) -> (f64, f64) + Copy> SinCos for F {}

impl<D: Dynamics> Kernel for D {
    type State = D::State;
    type Action = D::Action;
    type Obs = D::Obs;

    fn env_spec() -> EnvSpec {
        D::env_spec()
    }

    #[inline]
    fn start(seed: u64) -> D::State {
        D::start(seed)
    }

    #[inline(always)]
    fn advance(state: &mut D::State, action: D::Action) -> Outcome {
        D::advance(state, action, sin_cos)
    }

    #[inline(always)]
    fn observation(state: &D::State) -> D::Obs {
        D::observation(state, sin_cos)
    }

    fn render(state: &D::State) -> Result<Option<Frame>, EnvError> {
        D::draw(state).map(Some)
    }
}

/// [`Env::reset`](crate::Env::reset) of an environment with these dynamics.
pub(super) fn reset<D: Dynamics>(state: &mut D::State, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
    *state = D::start(seed);
    obs.write(D::observation(state, f64::sin_cos).as_ref())
}

/// [`Env::step`](crate::Env::step) of an environment with these dynamics.
#[inline(always)]
pub(super) fn step<D: Dynamics>(state: &mut D::State, action: D::Action, obs: ObsMut<'_>) -> Result<Step, EnvError> {
    let Outcome { reward, terminated } = D::advance(state, action, f64::sin_cos);
    obs.write(D::observation(state, f64::sin_cos).as_ref())?;
    Ok(Step { reward, end: if terminated { End::Terminated } else { End::No } })
}

/// The index of a discrete action below `n_actions`.
#[inline(always)]
pub(super) fn index_below(n_actions: u32, name: &str, action: ActionRef<'_>) -> Result<u32, EnvError> {
    match action.discrete()? {
        index if index < n_actions => Ok(index),
        other => Err(EnvError::new(format!("{name} has the actions 0 to {}, got {other}", n_actions - 1))),
    }
}

/// The value of a continuous action of one dimension. NaN is an error, since clipping leaves it NaN.
#[inline(always)]
pub(super) fn one_value(name: &str, action: ActionRef<'_>) -> Result<f32, EnvError> {
    match action.continuous()? {
        [value] if !value.is_nan() => Ok(*value),
        other => Err(EnvError::new(format!("{name} takes one number, got {other:?}"))),
    }
}
