//! Gradient clipping.

use num_traits::Float;

use super::pass::{SquareSum, at_full_width};

/// The global L2 norm of gradients, before and after clipping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClippedNorm {
    /// Before clipping.
    pub true_norm: f64,
    /// After clipping.
    pub clipped_norm: f64,
    /// The factor for [`StepOptions`](super::StepOptions).
    pub grad_scale: f64,
}

/// The L2 norm of `grads`, and the factor that clips it to `max_norm`; `None` only measures.
///
/// The factor is `max_norm / (norm + 1e-6)` where that is below 1, as in `torch.nn.utils.clip_grad_norm_`.
/// The norm is summed in `f64`. If it is not finite, the factor is 1; the caller must check.
///
/// # Example
/// ```
/// let norm = pronk_learner::clip_global_norm(&[3.0_f32, 4.0], Some(0.5));
/// assert_eq!((norm.true_norm, norm.clipped_norm), (5.0, 0.5));
/// assert!((norm.grad_scale - 0.1).abs() < 1e-6);
/// ```
pub fn clip_global_norm<F: Float>(grads: &[F], max_norm: Option<f64>) -> ClippedNorm {
    let true_norm = at_full_width(
        #[inline(always)]
        move || {
            let mut squares = SquareSum::new();
            squares.add(grads);
            squares.root()
        },
    );
    let whole = ClippedNorm { true_norm, clipped_norm: true_norm, grad_scale: 1.0 };
    let Some(max_norm) = max_norm.filter(|_| true_norm.is_finite()) else {
        return whole;
    };
    let factor = max_norm / (true_norm + 1e-6);
    if factor < 1.0 {
        return ClippedNorm { clipped_norm: true_norm.min(max_norm), grad_scale: factor, ..whole };
    }
    whole
}
