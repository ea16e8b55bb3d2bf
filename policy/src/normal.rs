//! The normal distribution of one number, which the distributions over many numbers are made of.
//!
//! Standard deviations are given by their logarithms. A deviation of zero stays zero however small the standard deviation
//! is: finite numbers give no NaN, even where a standard deviation is below the least float.

use num_traits::{Float, FloatConst, clamp};

use crate::LogStdRange;

/// A normal distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normal<F> {
    pub(crate) mean: F,
    pub(crate) log_std: F,
}

/// A slope in the mean and one in the logarithm of the standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slopes<F> {
    pub(crate) mean: F,
    pub(crate) log_std: F,
}

impl<F: Float + FloatConst> Normal<F> {
    /// `mean + std · standard`, a draw if `standard` is one with mean 0 and standard deviation 1.
    pub(crate) fn at(self, standard: F) -> F {
        self.mean + self.log_std.exp() * standard
    }

    /// The log-density at `x`.
    pub(crate) fn logp(self, x: F) -> F {
        let deviation = self.deviation(x);
        -half(deviation * deviation) - self.log_std - half(F::TAU().ln())
    }

    /// The entropy in nats.
    pub(crate) fn entropy(self) -> F {
        self.log_std + half(F::TAU().ln() + F::one())
    }

    /// The divergence `KL(self ‖ q)` in nats.
    pub(crate) fn kl(self, q: Self) -> F {
        let (distance, wider) = (q.deviation(self.mean), self.log_std - q.log_std);
        half(twice(wider).exp_m1() + distance * distance) - wider
    }

    /// The slopes of `logp(x)`.
    pub(crate) fn logp_slopes(self, x: F) -> Slopes<F> {
        let deviation = self.deviation(x);
        Slopes { mean: self.in_stds(deviation), log_std: deviation * deviation - F::one() }
    }

    /// The slopes of the entropy, which are the same everywhere.
    pub(crate) fn entropy_slopes() -> Slopes<F> {
        Slopes { mean: F::zero(), log_std: F::one() }
    }

    /// The slopes of `KL(self ‖ q)` in what describes `self`.
    pub(crate) fn kl_slopes(self, q: Self) -> Slopes<F> {
        let wider = self.log_std - q.log_std;
        Slopes { mean: q.in_stds(q.deviation(self.mean)), log_std: twice(wider).exp_m1() }
    }

    /// The slopes of `KL(self ‖ q)` in what describes `q`.
    pub(crate) fn kl_slopes_q(self, q: Self) -> Slopes<F> {
        let (distance, wider) = (q.deviation(self.mean), self.log_std - q.log_std);
        Slopes { mean: -q.in_stds(distance), log_std: -twice(wider).exp_m1() - distance * distance }
    }

    /// How many standard deviations `x` lies above the mean.
    fn deviation(self, x: F) -> F {
        self.in_stds(x - self.mean)
    }

    fn in_stds(self, distance: F) -> F {
        if distance.is_zero() { distance } else { distance / self.log_std.exp() }
    }
}

/// The numbers of a row of inputs, `[means | log_stds]`, with standard deviations in their range. (This clamp lets NaN through,
/// unlike `max` and `min`.)
pub(crate) fn normals<F: Float + From<f32>>(range: LogStdRange, inputs: &[F]) -> impl Iterator<Item = Normal<F>> {
    let (lowest, highest) = (range.lowest().into(), range.highest().into());
    let (means, log_stds) = inputs.split_at(inputs.len() / 2);
    means.iter().zip(log_stds).map(move |(&mean, &log_std)| Normal { mean, log_std: clamp(log_std, lowest, highest) })
}

/// The slopes without those of standard deviations that their range holds.
pub(crate) fn through_clamp<F: Float + From<f32>>(
    range: LogStdRange,
    inputs: &[F],
    slopes: impl Iterator<Item = Slopes<F>>,
) -> impl Iterator<Item = Slopes<F>> {
    let (lowest, highest): (F, F) = (range.lowest().into(), range.highest().into());
    inputs[inputs.len() / 2..].iter().zip(slopes).map(move |(&log_std, slopes)| {
        let held = log_std < lowest || log_std > highest;
        if held { Slopes { log_std: F::zero(), ..slopes } } else { slopes }
    })
}

/// Adds the weighted slopes of each number to a row of gradients, `[means | log_stds]`.
pub(crate) fn add_slopes<F: Float>(weight: F, slopes: impl Iterator<Item = Slopes<F>>, grad: &mut [F]) {
    let (means, log_stds) = grad.split_at_mut(grad.len() / 2);
    for ((mean, log_std), slopes) in means.iter_mut().zip(log_stds).zip(slopes) {
        *mean = *mean + weight * slopes.mean;
        *log_std = *log_std + weight * slopes.log_std;
    }
}

/// The terms of all numbers, added up in order.
pub(crate) fn sum<F: Float>(terms: impl Iterator<Item = F>) -> F {
    terms.fold(F::zero(), |sum, term| sum + term)
}

fn half<F: Float>(x: F) -> F {
    x / (F::one() + F::one())
}

fn twice<F: Float>(x: F) -> F {
    x + x
}
