//! Initial weights by candle's rules, from pronk's generator: candle's cannot be seeded on a CPU.

use candle_core::Shape;
use candle_nn::Init;
use candle_nn::init::NormalOrUniform;

use crate::Rng;

/// Fills a tensor of this shape by `init`.
pub(super) fn draw(init: Init, shape: &[usize], rng: &mut Rng, weights: &mut [f32]) {
    match init {
        Init::Const(value) => weights.fill(value as f32),
        Init::Randn { mean, stdev } => {
            weights.iter_mut().for_each(|weight| *weight = (mean + stdev * rng.normal()) as f32);
        }
        Init::Uniform { lo, up } => {
            weights.iter_mut().for_each(|weight| *weight = (lo + (up - lo) * rng.next_f64()) as f32);
        }
        Init::Kaiming { dist, fan, non_linearity } => {
            let stdev = non_linearity.gain() / (fan.for_shape(&Shape::from(shape)) as f64).sqrt();
            let same = match dist {
                NormalOrUniform::Normal => Init::Randn { mean: 0.0, stdev },
                // A uniform number in [-b, b] has the deviation b / √3.
                NormalOrUniform::Uniform => Init::Uniform { lo: -stdev * 3_f64.sqrt(), up: stdev * 3_f64.sqrt() },
            };
            draw(same, shape, rng, weights);
        }
    }
}

#[cfg(test)]
mod tests;
