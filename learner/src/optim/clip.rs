//! Clipping of the gradient's length.

use num_traits::Float;

/// The L2 norm of all gradients together, before and after clipping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClippedNorm {
    /// As it came.
    pub true_norm: f64,
    /// As it is now.
    pub clipped_norm: f64,
}

/// Shortens `grads` to the L2 norm `max_norm` when they are longer; `None` only measures.
///
/// The factor is `max_norm / (norm + 1e-6)`, applied when it is below 1, as `torch.nn.utils.clip_grad_norm_`. The norm
/// is summed in `f64`. Gradients whose norm is not finite are left as they are, for the caller to refuse.
///
/// # Example
/// ```
/// let mut grads = [3.0_f32, 4.0];
/// let norm = pronk_learner::clip_global_norm(&mut grads, Some(0.5));
/// assert_eq!((norm.true_norm, norm.clipped_norm), (5.0, 0.5));
/// assert!((grads[0] - 0.3).abs() < 1e-6);
/// ```
pub fn clip_global_norm<F: Float>(grads: &mut [F], max_norm: Option<f64>) -> ClippedNorm {
    let true_norm = sum_of_squares(grads).sqrt();
    let Some(max_norm) = max_norm.filter(|_| true_norm.is_finite()) else {
        return ClippedNorm { true_norm, clipped_norm: true_norm };
    };
    let factor = max_norm / (true_norm + 1e-6);
    if factor < 1.0
        && let Some(factor) = F::from(factor)
    {
        grads.iter_mut().for_each(|grad| *grad = *grad * factor);
    }
    ClippedNorm { true_norm, clipped_norm: true_norm.min(max_norm) }
}

/// In `f64`, with independent partial sums in a fixed order: one running sum would wait for each addition.
fn sum_of_squares<F: Float>(values: &[F]) -> f64 {
    const LANES: usize = 8;
    let square = |value: &F| value.to_f64().map_or(f64::NAN, |value| value * value);
    let chunks = values.chunks_exact(LANES);
    let rest: f64 = chunks.remainder().iter().map(square).sum();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += square(value);
        }
    }
    sums.iter().sum::<f64>() + rest
}
