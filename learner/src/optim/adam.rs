//! Adam.

use num_traits::Float;
use serde::{Deserialize, Serialize};

use super::pass::{BLOCK, SquareSum, at_full_width, flush, smallest_gradient};
use super::state::MEAN_SQUARE;
use super::{Optimizer, OptimizerState, StepOptions, cast, check_eps, check_lengths, check_setting};
use crate::LearnError;

/// Settings of [`Adam`], with its paper's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamConfig {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub eps: f64,
}

impl Default for AdamConfig {
    fn default() -> Self {
        AdamConfig { beta1: 0.9, beta2: 0.999, eps: 1e-8 }
    }
}

/// Adam with bias correction.
///
/// # Example
/// ```
/// use pronk_learner::{Adam, AdamConfig, Optimizer, StepOptions};
///
/// let mut adam = Adam::new(2, AdamConfig::default())?;
/// let mut params = [1.0_f32, 1.0];
/// adam.step(&mut params, &[0.5, -20.0], StepOptions::whole(0.1))?;
/// // The length of the first step is the learning rate, whatever the gradient.
/// assert!((params[0] - 0.9).abs() < 1e-6 && (params[1] - 1.1).abs() < 1e-6);
/// # Ok::<(), pronk_learner::LearnError>(())
/// ```
///
/// # Source
/// Kingma & Ba 2015; `eps` outside the root, as `torch.optim.Adam`.
#[derive(Clone, Debug)]
pub struct Adam<F = f32> {
    config: AdamConfig,
    steps: u64,
    mean: Vec<F>,
    mean_square: Vec<F>,
}

impl<F: Float> Adam<F> {
    /// For `n_params` parameters.
    ///
    /// # Errors
    /// A beta outside `[0, 1)`, or an `eps` that is not finite and above 0.
    pub fn new(n_params: usize, config: AdamConfig) -> Result<Adam<F>, LearnError> {
        for (name, beta) in [("beta1", config.beta1), ("beta2", config.beta2)] {
            check_setting(name, beta, (0.0..1.0).contains(&beta), "at least 0 and below 1")?;
        }
        check_eps::<F>(config.eps)?;
        let zeros = vec![F::zero(); n_params];
        Ok(Adam { config, steps: 0, mean: zeros.clone(), mean_square: zeros })
    }
}

impl<F: Float + Send> Optimizer<F> for Adam<F> {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn step(&mut self, params: &mut [F], grads: &[F], options: StepOptions<F>) -> Result<f64, LearnError> {
        check_lengths(self.mean.len(), params.len(), grads.len())?;
        self.steps += 1;
        let AdamConfig { beta1, beta2, eps } = self.config;
        // In f64 and from the step count alone, so that a restored optimiser computes the same bits.
        let steps = self.steps as f64;
        let lr = options.lr / cast(1.0 - beta1.powf(steps));
        let mean_square_scale: F = cast(1.0 / (1.0 - beta2.powf(steps)).sqrt());
        let (beta1, rest1): (F, F) = (cast(beta1), cast(1.0 - beta1));
        let (beta2, rest2): (F, F) = (cast(beta2), cast(1.0 - beta2));
        let (eps, grad_scale) = (cast(eps), options.grad_scale);
        let (smallest_grad, smallest) = (smallest_gradient(), F::min_positive_value());

        let (mean, mean_square) = (&mut self.mean, &mut self.mean_square);
        let norm = at_full_width(
            #[inline(always)]
            move || {
                let mut squares = SquareSum::new();
                let moments = mean.chunks_mut(BLOCK).zip(mean_square.chunks_mut(BLOCK));
                for ((params, grads), (mean, mean_square)) in
                    params.chunks_mut(BLOCK).zip(grads.chunks(BLOCK)).zip(moments)
                {
                    let moments = mean.iter_mut().zip(mean_square);
                    for ((param, &grad), (mean, mean_square)) in params.iter_mut().zip(grads).zip(moments) {
                        let grad = flush(grad * grad_scale, smallest_grad);
                        *mean = flush(beta1 * *mean + rest1 * grad, smallest);
                        *mean_square = flush(beta2 * *mean_square + rest2 * grad * grad, smallest);
                        *param = *param - lr * *mean / (mean_square.sqrt() * mean_square_scale + eps);
                    }
                    squares.add(params);
                }
                squares.root()
            },
        );
        Ok(norm)
    }

    fn save(&self, state: &mut OptimizerState<F>) {
        state.set(self.name(), self.steps, &[("mean", &self.mean), (MEAN_SQUARE, &self.mean_square)]);
    }

    fn load_state(&mut self, state: OptimizerState<F>) -> Result<(), LearnError> {
        let n = self.mean.len();
        let steps = state.steps;
        let [mean, mean_square] = state.take(self.name(), n, ["mean", MEAN_SQUARE])?;
        (self.steps, self.mean, self.mean_square) = (steps, mean, mean_square);
        Ok(())
    }
}
