//! The normal distribution of one number, with the logarithm of its standard deviation. Finite numbers give
//! no NaN, even if the standard deviation underflows.

use num_traits::{Float, FloatConst, clamp};

use crate::LogStdRange;

/// A normal distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normal<F> {
    pub(crate) mean: F,
    pub(crate) log_std: F,
}

/// Derivatives by the mean and the logarithm of the standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slopes<F> {
    pub(crate) mean: F,
    pub(crate) log_std: F,
}

impl<F: Float + FloatConst> Normal<F> {
    /// `mean + std · standard`: a sample, if `standard` is one of the standard normal.
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

    /// The derivatives of `logp(x)`.
    pub(crate) fn logp_slopes(self, x: F) -> Slopes<F> {
        let deviation = self.deviation(x);
        Slopes { mean: self.in_stds(deviation), log_std: deviation * deviation - F::one() }
    }

    /// The derivatives of the entropy, which are constant.
    pub(crate) fn entropy_slopes() -> Slopes<F> {
        Slopes { mean: F::zero(), log_std: F::one() }
    }

    /// The derivatives of `KL(self ‖ q)` by `self`.
    pub(crate) fn kl_slopes(self, q: Self) -> Slopes<F> {
        let wider = self.log_std - q.log_std;
        Slopes { mean: q.in_stds(q.deviation(self.mean)), log_std: twice(wider).exp_m1() }
    }

    /// The derivatives of `KL(self ‖ q)` by `q`.
    pub(crate) fn kl_slopes_q(self, q: Self) -> Slopes<F> {
        let (distance, wider) = (q.deviation(self.mean), self.log_std - q.log_std);
        Slopes { mean: -q.in_stds(distance), log_std: -twice(wider).exp_m1() - distance * distance }
    }

    /// The distance of `x` from the mean, in standard deviations.
    fn deviation(self, x: F) -> F {
        self.in_stds(x - self.mean)
    }

    fn in_stds(self, distance: F) -> F {
        if distance.is_zero() { distance } else { distance / self.log_std.exp() }
    }
}

/// The normals of a row of inputs, `[means | log_stds]`, with clamped standard deviations. (`clamp`
/// propagates NaN, unlike `max` and `min`.)
pub(crate) fn normals<F: Float + From<f32>>(range: LogStdRange, inputs: &[F]) -> impl Iterator<Item = Normal<F>> {
    let (lowest, highest) = (range.lowest().into(), range.highest().into());
    let (means, log_stds) = inputs.split_at(inputs.len() / 2);
    means.iter().zip(log_stds).map(move |(&mean, &log_std)| Normal { mean, log_std: clamp(log_std, lowest, highest) })
}

/// Adds the weighted derivatives to a row of gradients of a loss, `[means | log_stds]`, except where a
/// descent would lead a log standard deviation at or beyond a bound further out: there the loss changes no
/// more. One that leads back passes, or what has once left the range would stay outside.
pub(crate) fn add_slopes<F: Float + From<f32>>(
    range: LogStdRange,
    inputs: &[F],
    weight: F,
    slopes: impl Iterator<Item = Slopes<F>>,
    grad: &mut [F],
) {
    let (lowest, highest): (F, F) = (range.lowest().into(), range.highest().into());
    let (means, log_stds) = grad.split_at_mut(grad.len() / 2);
    let grads = means.iter_mut().zip(log_stds);
    for (((mean, log_std), &input), slopes) in grads.zip(&inputs[inputs.len() / 2..]).zip(slopes) {
        *mean = *mean + weight * slopes.mean;
        let slope = weight * slopes.log_std;
        let leads_out = input >= highest && slope < F::zero() || input <= lowest && slope > F::zero();
        if !leads_out {
            *log_std = *log_std + slope;
        }
    }
}

/// The entropy in nats, before any squashing.
pub fn entropy<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F]) -> F {
    sum(normals(range, inputs).map(Normal::entropy))
}

/// The divergence `KL(p ‖ q)` in nats. Squashing both distributions does not change it.
pub fn kl<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F]) -> F {
    sum(normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl(q)))
}

/// Adds `weight · ∂ entropy / ∂ inputs` to `grad`: 0 to the means and 1 to the log standard deviations.
/// Those at or beyond a bound get it only if a descent leads them back.
pub fn entropy_grad<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F], weight: F, grad: &mut [F]) {
    let slopes = inputs.iter().take(inputs.len() / 2).map(|_| Normal::entropy_slopes());
    add_slopes(range, inputs, weight, slopes, grad);
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ p` to `grad`, at bounds as [`entropy_grad`].
pub fn kl_grad_p<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    let slopes = normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl_slopes(q));
    add_slopes(range, p, weight, slopes, grad);
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ q` to `grad`, at bounds as [`entropy_grad`].
pub fn kl_grad_q<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    let slopes = normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl_slopes_q(q));
    add_slopes(range, q, weight, slopes, grad);
}

/// The sum of the terms, in order.
pub(crate) fn sum<F: Float>(terms: impl Iterator<Item = F>) -> F {
    terms.fold(F::zero(), |sum, term| sum + term)
}

fn half<F: Float>(x: F) -> F {
    x / (F::one() + F::one())
}

fn twice<F: Float>(x: F) -> F {
    x + x
}
