//! Generalised advantage estimation.

#[cfg(test)]
mod tests;

use num_traits::Float;

use crate::ShapeError;
use crate::vtrace::row_after;

/// How advantages are estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advantages {
    /// Temporal differences, discounted by `gamma · lambda`.
    #[default]
    Gae,
    /// The return minus the value: GAE at `lambda` 1, summed in another order.
    Return,
    /// The return; value targets are 0. For learning without a critic.
    ReturnAlone,
}

/// The inputs of GAE: time-major slices of `[steps, columns]`, with ends folded in: see
/// [`EpisodeEnds`](crate::EpisodeEnds).
#[derive(Clone, Copy, Debug)]
pub struct GaeInput<'a, F> {
    /// `T`.
    pub steps: usize,
    /// `B`: independent trajectories side by side.
    pub columns: usize,
    /// `[T, B]`; a truncated episode's last reward holds the discounted value of its final observation.
    pub rewards: &'a [F],
    /// `gamma`, and 0 where the episode ended, `[T, B]`.
    pub discounts: &'a [F],
    /// `V(x_t)`, `[T, B]`.
    pub values: &'a [F],
    /// `V(x_T)`, after the last step, `[B]`.
    pub bootstrap: &'a [F],
}

/// The outputs of GAE, `[steps, columns]` each. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct GaeOutput<F> {
    /// Advantages.
    pub advantages: Vec<F>,
    /// Value targets.
    pub value_targets: Vec<F>,
}

/// Computes advantages and value targets:
///
/// ```text
/// delta[t]  = r[t] + discount[t] * V[t+1] - V[t]                 V[T] = bootstrap
/// adv[t]    = delta[t] + discount[t] * lambda * adv[t+1]         adv[T] = 0
/// target[t] = adv[t] + V[t]
/// ```
///
/// An end cuts both recursions, since its discount is 0.
///
/// # Errors
/// A slice of another shape.
///
/// # Example
/// ```
/// use pronk_learner::{Advantages, GaeInput, GaeOutput, gae};
///
/// let input = GaeInput {
///     steps: 2,
///     columns: 1,
///     rewards: &[1.0, 2.0],
///     discounts: &[0.5, 0.5],
///     values: &[7.0, -3.0],
///     bootstrap: &[4.0],
/// };
/// let mut output = GaeOutput::default();
/// gae(1.0, Advantages::Gae, &input, &mut output)?;
/// assert_eq!(output.value_targets, [1.0 + 0.5 * (2.0 + 0.5 * 4.0), 2.0 + 0.5 * 4.0]);
/// # Ok::<(), pronk_learner::ShapeError>(())
/// ```
///
/// # Source
/// Schulman et al. 2016, *High-Dimensional Continuous Control Using Generalized Advantage Estimation*.
pub fn gae<F: Float>(
    lambda: F,
    kind: Advantages,
    input: &GaeInput<'_, F>,
    output: &mut GaeOutput<F>,
) -> Result<(), ShapeError> {
    let GaeInput { steps, columns, rewards, discounts, values, bootstrap } = *input;
    ShapeError::check("rewards", rewards.len(), steps, columns)?;
    ShapeError::check("discounts", discounts.len(), steps, columns)?;
    ShapeError::check("values", values.len(), steps, columns)?;
    ShapeError::check("bootstrap", bootstrap.len(), 1, columns)?;
    let GaeOutput { advantages, value_targets } = output;
    advantages.resize(rewards.len(), F::zero());
    value_targets.resize(rewards.len(), F::zero());
    match kind {
        Advantages::Gae => {
            backwards(input, advantages, |i, b, next| {
                let value_tp1 = row_after(values, bootstrap, i + columns - b)[b];
                let delta = rewards[i] + discounts[i] * value_tp1 - values[i];
                delta + discounts[i] * lambda * next.unwrap_or(F::zero())
            });
            for (i, target) in value_targets.iter_mut().enumerate() {
                *target = advantages[i] + values[i];
            }
        }
        Advantages::Return | Advantages::ReturnAlone => {
            backwards(input, value_targets, |i, b, next| rewards[i] + discounts[i] * next.unwrap_or(bootstrap[b]));
            let alone = kind == Advantages::ReturnAlone;
            for (i, advantage) in advantages.iter_mut().enumerate() {
                *advantage = if alone { value_targets[i] } else { value_targets[i] - values[i] };
            }
            if alone {
                value_targets.fill(F::zero());
            }
        }
    }
    Ok(())
}

/// Fills `numbers` from the last step to the first: `number(i, b, next)` gets the index, the column and the
/// number of the step after.
fn backwards<F: Float>(input: &GaeInput<'_, F>, numbers: &mut [F], number: impl Fn(usize, usize, Option<F>) -> F) {
    let columns = input.columns;
    for t in (0..input.steps).rev() {
        for b in 0..columns {
            let i = t * columns + b;
            numbers[i] = number(i, b, numbers.get(i + columns).copied());
        }
    }
}
