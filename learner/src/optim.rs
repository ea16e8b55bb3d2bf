//! Optimisers: one pass over the flat parameter vector, with exact state. Clipping takes another pass over
//! the gradient, for its norm.

mod adam;
mod clip;
mod pass;
mod rmsprop;
mod sgd;
mod state;
#[cfg(test)]
mod tests;

use num_traits::Float;
use serde::{Deserialize, Serialize};

pub use adam::{Adam, AdamConfig};
pub use clip::{ClippedNorm, clip_global_norm};
pub use rmsprop::{RmsProp, RmsPropConfig, RmsPropForm};
pub use sgd::Sgd;
pub use state::OptimizerState;

use crate::{LearnError, ShapeError};

/// Turns gradients into new parameters, for a fixed number of parameters. Learning runs in `f32`; tests
/// compare the same code in `f64`.
pub trait Optimizer<F = f32>: Send {
    /// Its name in saved states.
    fn name(&self) -> &'static str;

    /// Updates `params` in one pass, because memory bandwidth is the limit, and returns their new L2 norm,
    /// which is not finite if a parameter is not.
    ///
    /// # Errors
    /// A slice of another length; nothing has changed then.
    fn step(&mut self, params: &mut [F], grads: &[F], options: StepOptions<F>) -> Result<f64, LearnError>;

    /// Writes all that the next step depends on into `state`, in the storage of its vectors.
    fn save(&self, state: &mut OptimizerState<F>);

    /// All that the next step depends on.
    fn state(&self) -> OptimizerState<F> {
        let mut state = OptimizerState::empty();
        self.save(&mut state);
        state
    }

    /// Restores `state`.
    ///
    /// # Errors
    /// A state of another optimiser, of other lengths, or not finite; nothing has changed then.
    fn load_state(&mut self, state: OptimizerState<F>) -> Result<(), LearnError>;
}

/// Options of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions<F = f32> {
    /// Learning rate.
    pub lr: F,
    /// Factor on every gradient; see [`clip_global_norm`].
    pub grad_scale: F,
}

impl<F: Float> StepOptions<F> {
    /// A step with the unclipped gradient.
    pub fn whole(lr: F) -> Self {
        StepOptions { lr, grad_scale: F::one() }
    }
}

/// An optimiser, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerConfig {
    /// See [`Adam`].
    Adam(AdamConfig),
    /// See [`RmsProp`].
    RmsProp(RmsPropConfig),
    /// See [`Sgd`].
    Sgd,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        OptimizerConfig::Adam(AdamConfig::default())
    }
}

impl OptimizerConfig {
    /// Makes the optimiser for `n_params` parameters.
    ///
    /// # Errors
    /// An invalid setting.
    pub fn build(&self, n_params: usize) -> Result<Box<dyn Optimizer>, LearnError> {
        Ok(match *self {
            OptimizerConfig::Adam(config) => Box::new(Adam::<f32>::new(n_params, config)?),
            OptimizerConfig::RmsProp(config) => Box::new(RmsProp::<f32>::new(n_params, config)?),
            OptimizerConfig::Sgd => Box::new(Sgd::new(n_params)),
        })
    }
}

fn check_lengths(n_params: usize, params: usize, grads: usize) -> Result<(), LearnError> {
    for (name, got) in [("params", params), ("grads", grads)] {
        ShapeError::check_shape(name, got, n_params, || format!("[parameters] = [{n_params}]"))?;
    }
    Ok(())
}

/// A setting in the float type of the computation.
fn cast<F: Float>(setting: f64) -> F {
    F::from(setting).unwrap_or_else(F::nan)
}

/// Checks `eps` in the float type of the computation: at 0, a gradient of 0 would be divided by 0.
fn check_eps<F: Float>(eps: f64) -> Result<(), LearnError> {
    let cast: F = cast(eps);
    let ok = cast > F::zero() && cast.is_finite();
    check_setting("eps", eps, ok, "above 0 and finite, as the float type of the computation too")
}

fn check_setting(name: &str, value: f64, ok: bool, rule: &str) -> Result<(), LearnError> {
    if ok {
        return Ok(());
    }
    Err(LearnError::Config { reason: format!("{name} of the optimiser is {value}; it must be {rule}") })
}
