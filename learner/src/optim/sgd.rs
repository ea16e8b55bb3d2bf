//! Plain gradient descent.

use num_traits::Float;

use super::pass::{BLOCK, SquareSum, at_full_width};
use super::{Optimizer, OptimizerState, StepOptions, check_lengths};
use crate::LearnError;

/// `params -= lr * grads`.
///
/// # Example
/// ```
/// use pronk_learner::{Optimizer, Sgd, StepOptions};
///
/// let mut params = [1.0_f32, 2.0];
/// Sgd::new(2).step(&mut params, &[1.0, -1.0], StepOptions::whole(0.5))?;
/// assert_eq!(params, [0.5, 2.5]);
/// # Ok::<(), pronk_learner::LearnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sgd {
    n_params: usize,
    steps: u64,
}

impl Sgd {
    /// For `n_params` parameters.
    pub fn new(n_params: usize) -> Sgd {
        Sgd { n_params, steps: 0 }
    }
}

impl<F: Float + Send> Optimizer<F> for Sgd {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn step(&mut self, params: &mut [F], grads: &[F], options: StepOptions<F>) -> Result<f64, LearnError> {
        check_lengths(self.n_params, params.len(), grads.len())?;
        self.steps += 1;
        let StepOptions { lr, grad_scale } = options;
        let norm = at_full_width(
            #[inline(always)]
            move || {
                let mut squares = SquareSum::new();
                for (params, grads) in params.chunks_mut(BLOCK).zip(grads.chunks(BLOCK)) {
                    for (param, &grad) in params.iter_mut().zip(grads) {
                        *param = *param - lr * (grad * grad_scale);
                    }
                    squares.add(params);
                }
                squares.root()
            },
        );
        Ok(norm)
    }

    fn save(&self, state: &mut OptimizerState<F>) {
        state.set("sgd", self.steps, &[]);
    }

    fn load_state(&mut self, state: OptimizerState<F>) -> Result<(), LearnError> {
        let steps = state.steps;
        let [] = state.take("sgd", self.n_params, [])?;
        self.steps = steps;
        Ok(())
    }
}
