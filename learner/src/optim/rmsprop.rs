//! RMSProp, in its two forms.

use num_traits::Float;
use serde::{Deserialize, Serialize};

use super::pass::{BLOCK, SquareSum, at_full_width, flush, smallest_gradient};
use super::state::MEAN_SQUARE;
use super::{Optimizer, OptimizerState, StepOptions, cast, check_eps, check_lengths, check_setting};
use crate::LearnError;

/// The place of `eps` and the initial mean square. The difference matters: inside the root, IMPALA's `eps =
/// 0.1` acts like 0.32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RmsPropForm {
    /// `grad / sqrt(mean_square + eps)`, starting at one: TensorFlow 1, as in the IMPALA reference.
    #[default]
    EpsInsideRoot,
    /// `grad / (sqrt(mean_square) + eps)`, starting at zero: PyTorch.
    EpsOutsideRoot,
}

/// Settings of [`RmsProp`], with IMPALA's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RmsPropConfig {
    /// Decay of the mean of squared gradients.
    pub decay: f64,
    /// Momentum; 0 for none.
    pub momentum: f64,
    /// Keeps the division finite; see [`RmsPropForm`].
    pub eps: f64,
    /// Weight decay: times the parameter it is added to the gradient.
    pub weight_decay: f64,
    /// The form.
    pub form: RmsPropForm,
}

impl Default for RmsPropConfig {
    fn default() -> Self {
        RmsPropConfig { decay: 0.99, momentum: 0.0, eps: 0.1, weight_decay: 0.0, form: RmsPropForm::EpsInsideRoot }
    }
}

/// RMSProp, by default as the IMPALA reference trained with it.
///
/// With momentum, TensorFlow's buffer holds updates, including the learning rate; PyTorch's holds directions,
/// which the current learning rate multiplies.
///
/// # Example
/// ```
/// use pronk_learner::{Optimizer, RmsProp, RmsPropConfig, StepOptions};
///
/// let mut rmsprop = RmsProp::new(1, RmsPropConfig::default())?;
/// let mut params = [1.0_f32];
/// rmsprop.step(&mut params, &[1.0], StepOptions::whole(0.5))?;
/// assert!((params[0] - (1.0 - 0.5 / 1.1_f32.sqrt())).abs() < 1e-6);
/// # Ok::<(), pronk_learner::LearnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RmsProp<F = f32> {
    config: RmsPropConfig,
    steps: u64,
    mean_square: Vec<F>,
    /// Empty without momentum.
    momentum: Vec<F>,
}

impl<F: Float> RmsProp<F> {
    /// For `n_params` parameters.
    ///
    /// # Errors
    /// A `decay` outside `[0, 1]`, a `momentum` outside `[0, 1)`, an `eps` that is not finite and above 0, or
    /// a `weight_decay` that is negative or not finite.
    pub fn new(n_params: usize, config: RmsPropConfig) -> Result<RmsProp<F>, LearnError> {
        let RmsPropConfig { decay, momentum, eps, weight_decay, form } = config;
        check_setting("decay", decay, (0.0..=1.0).contains(&decay), "from 0 to 1")?;
        check_setting("momentum", momentum, (0.0..1.0).contains(&momentum), "at least 0 and below 1")?;
        check_eps::<F>(eps)?;
        check_setting(
            "weight_decay",
            weight_decay,
            weight_decay >= 0.0 && weight_decay.is_finite(),
            "finite and not negative",
        )?;
        let first_mean_square = match form {
            RmsPropForm::EpsInsideRoot => F::one(),
            RmsPropForm::EpsOutsideRoot => F::zero(),
        };
        let n_momentum = if momentum > 0.0 { n_params } else { 0 };
        Ok(RmsProp {
            config,
            steps: 0,
            mean_square: vec![first_mean_square; n_params],
            momentum: vec![F::zero(); n_momentum],
        })
    }

    /// The pass. `direction` divides a gradient by the root of its mean square.
    fn update(&mut self, params: &mut [F], grads: &[F], options: StepOptions<F>, direction: impl Fn(F, F) -> F) -> f64 {
        let StepOptions { lr, grad_scale } = options;
        let RmsPropConfig { decay, momentum, weight_decay, form, .. } = self.config;
        let (decay, rest): (F, F) = (cast(decay), cast(1.0 - decay));
        let (momentum, weight_decay): (F, F) = (cast(momentum), cast(weight_decay));
        // The learning rate applies before the buffer or after it.
        let (lr_in, lr_out) = match form {
            RmsPropForm::EpsInsideRoot => (lr, F::one()),
            RmsPropForm::EpsOutsideRoot => (F::one(), lr),
        };

        let (smallest_grad, smallest) = (smallest_gradient(), F::min_positive_value());
        let (mean_square, buffer) = (&mut self.mean_square, &mut self.momentum);
        at_full_width(
            #[inline(always)]
            move || {
                let mut squares = SquareSum::new();
                let mut buffers = buffer.chunks_mut(BLOCK);
                for ((params, grads), mean_square) in
                    params.chunks_mut(BLOCK).zip(grads.chunks(BLOCK)).zip(mean_square.chunks_mut(BLOCK))
                {
                    let entries = params.iter_mut().zip(grads).zip(mean_square);
                    let directed = entries.map(|((param, &grad), mean_square)| {
                        let grad = flush(grad * grad_scale + weight_decay * *param, smallest_grad);
                        *mean_square = flush(decay * *mean_square + rest * grad * grad, smallest);
                        (direction(grad, *mean_square), param)
                    });
                    match buffers.next() {
                        None => directed.for_each(|(direction, param)| *param = *param - lr * direction),
                        Some(buffer) => directed.zip(buffer).for_each(|((direction, param), buffer)| {
                            *buffer = flush(momentum * *buffer + lr_in * direction, smallest);
                            *param = *param - lr_out * *buffer;
                        }),
                    }
                    squares.add(params);
                }
                squares.root()
            },
        )
    }
}

impl<F: Float + Send> Optimizer<F> for RmsProp<F> {
    fn name(&self) -> &'static str {
        match self.config.form {
            RmsPropForm::EpsInsideRoot => "rmsprop",
            RmsPropForm::EpsOutsideRoot => "rmsprop_eps_outside_root",
        }
    }

    fn step(&mut self, params: &mut [F], grads: &[F], options: StepOptions<F>) -> Result<f64, LearnError> {
        check_lengths(self.mean_square.len(), params.len(), grads.len())?;
        self.steps += 1;
        let eps: F = cast(self.config.eps);
        Ok(match self.config.form {
            RmsPropForm::EpsInsideRoot => {
                self.update(params, grads, options, |grad, square| grad / (square + eps).sqrt())
            }
            RmsPropForm::EpsOutsideRoot => {
                self.update(params, grads, options, |grad, square| grad / (square.sqrt() + eps))
            }
        })
    }

    fn save(&self, state: &mut OptimizerState<F>) {
        let vectors = [(MEAN_SQUARE, &self.mean_square), ("momentum", &self.momentum)];
        let n_vectors = if self.momentum.is_empty() { 1 } else { 2 };
        state.set(self.name(), self.steps, &vectors[..n_vectors]);
    }

    fn load_state(&mut self, state: OptimizerState<F>) -> Result<(), LearnError> {
        let n = self.mean_square.len();
        let steps = state.steps;
        if self.momentum.is_empty() {
            let [mean_square] = state.take(self.name(), n, [MEAN_SQUARE])?;
            self.mean_square = mean_square;
        } else {
            let [mean_square, momentum] = state.take(self.name(), n, [MEAN_SQUARE, "momentum"])?;
            (self.mean_square, self.momentum) = (mean_square, momentum);
        }
        self.steps = steps;
        Ok(())
    }
}
