//! The categorical distribution given by logits.
//!
//! [`Categorical`] computes many rows of `f32` at once, at the processor's speed. The functions work on one row and are
//! generic over `f32` and `f64`: they are the formulas in plain words, what gradients are checked with against finite
//! differences, and what [`Categorical`] is checked against, with which it agrees to about 1e-6.
//!
//! All of them subtract the highest logit first: logits of any finite size are fine. A logit of −∞ masks its action:
//! probability zero, no share in the entropy, never sampled.

use num_traits::Float;

use crate::error::check_len;
use crate::ops::Softmax;
use crate::{ActionsMut, ActionsRef, Distribution, PolicyError, Rng};

/// The distribution over `n` actions whose log-probabilities are the logits up to a constant.
///
/// ```
/// use pronk_policy::{ActionsRef, Categorical, Distribution};
///
/// let two = Categorical::new(2)?;
/// let mut logp = [0.0];
/// two.logp(&[0.0, 0.0], ActionsRef::Discrete(&[1]), &mut logp)?;
/// assert_eq!(logp, [0.5_f32.ln()]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categorical {
    n: usize,
}

impl Categorical {
    /// The distribution over actions `0..n`; an error if there are none.
    pub fn new(n: usize) -> Result<Self, PolicyError> {
        crate::Space::discrete(n)?;
        Ok(Self { n })
    }

    fn rows(&self, what: &'static str, inputs: &[f32]) -> Result<usize, PolicyError> {
        let rows = inputs.len() / self.n;
        check_len(what, rows * self.n, inputs.len()).map(|()| rows)
    }

    fn checked<'a>(&self, rows: usize, actions: ActionsRef<'a>) -> Result<&'a [u32], PolicyError> {
        let actions = actions.discrete()?;
        check_len("actions", rows, actions.len())?;
        // A look at all of them takes no branches; which one it is matters only once something is wrong.
        let wrong = |&action: &u32| action as usize >= self.n;
        if actions.iter().fold(false, |any, action| any | wrong(action)) {
            let row = actions.iter().position(wrong).unwrap_or_default();
            return Err(PolicyError::ActionOutOfRange { row, action: actions[row], n: self.n });
        }
        Ok(actions)
    }
}

impl Distribution for Categorical {
    fn dist_len(&self) -> usize {
        self.n
    }

    fn act_len(&self) -> usize {
        1
    }

    /// Uses exactly one uniform number per row, in row order.
    fn sample(
        &self,
        inputs: &[f32],
        rng: &mut Rng,
        actions: ActionsMut<'_>,
        logp: &mut [f32],
    ) -> Result<(), PolicyError> {
        let actions = actions.discrete()?;
        let rows = self.rows("inputs", inputs)?;
        check_len("actions", rows, actions.len())?;
        check_len("logp", rows, logp.len())?;
        Softmax::Sample { logits: inputs, rng, actions, logp }.run(self.n);
        Ok(())
    }

    fn mode(&self, inputs: &[f32], actions: ActionsMut<'_>) -> Result<(), PolicyError> {
        let actions = actions.discrete()?;
        check_len("actions", self.rows("inputs", inputs)?, actions.len())?;
        for (logits, action) in inputs.chunks_exact(self.n).zip(actions) {
            *action = mode(logits) as u32;
        }
        Ok(())
    }

    fn logp(&self, inputs: &[f32], actions: ActionsRef<'_>, out: &mut [f32]) -> Result<(), PolicyError> {
        let rows = self.rows("inputs", inputs)?;
        let actions = self.checked(rows, actions)?;
        check_len("logp", rows, out.len())?;
        Softmax::Logp { logits: inputs, actions, out }.run(self.n);
        Ok(())
    }

    fn entropy(&self, inputs: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        check_len("entropy", self.rows("inputs", inputs)?, out.len())?;
        Softmax::Entropy { logits: inputs, out }.run(self.n);
        Ok(())
    }

    fn logp_and_entropy(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        logp: &mut [f32],
        entropy: &mut [f32],
    ) -> Result<(), PolicyError> {
        let rows = self.rows("inputs", inputs)?;
        let actions = self.checked(rows, actions)?;
        check_len("logp", rows, logp.len())?;
        check_len("entropy", rows, entropy.len())?;
        Softmax::LogpAndEntropy { logits: inputs, actions, logp, entropy }.run(self.n);
        Ok(())
    }

    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        check_len("kl", self.rows("p", p)?, out.len())?;
        check_len("q", p.len(), q.len())?;
        Softmax::Kl { p, q, out }.run(self.n);
        Ok(())
    }

    fn logp_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        weight: &[f32],
        grad: &mut [f32],
    ) -> Result<(), PolicyError> {
        let rows = self.rows("inputs", inputs)?;
        let actions = self.checked(rows, actions)?;
        check_len("weight", rows, weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        Softmax::LogpGrad { logits: inputs, actions, weight, grad }.run(self.n);
        Ok(())
    }

    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("weight", self.rows("inputs", inputs)?, weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        Softmax::EntropyGrad { logits: inputs, weight, grad }.run(self.n);
        Ok(())
    }

    fn logp_and_entropy_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        logp_weight: &[f32],
        entropy_weight: &[f32],
        grad: &mut [f32],
    ) -> Result<(), PolicyError> {
        let rows = self.rows("inputs", inputs)?;
        let actions = self.checked(rows, actions)?;
        check_len("logp_weight", rows, logp_weight.len())?;
        check_len("entropy_weight", rows, entropy_weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        Softmax::LogpAndEntropyGrad { logits: inputs, actions, logp_weight, entropy_weight, grad }.run(self.n);
        Ok(())
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("weight", self.rows("p", p)?, weight.len())?;
        check_len("q", p.len(), q.len())?;
        check_len("grad", p.len(), grad.len())?;
        Softmax::KlGradQ { p, q, weight, grad }.run(self.n);
        Ok(())
    }
}

/// The index of the highest logit; the first of several.
pub fn mode<F: Float>(logits: &[F]) -> usize {
    let higher = |best, i| if logits[i] > logits[best] { i } else { best };
    (1..logits.len()).fold(0, higher)
}

/// The index at which the cumulative probability first exceeds `uniform`, a number in `[0, 1)`.
pub fn sample<F: Float>(logits: &[F], uniform: F) -> usize {
    Normalised::of(logits).index_at(uniform)
}

/// The log-probability of `action`, which must be an index of `logits`; NaN if it is not.
pub fn logp<F: Float>(logits: &[F], action: usize) -> F {
    Normalised::of(logits).logp(action)
}

/// The entropy in nats.
pub fn entropy<F: Float>(logits: &[F]) -> F {
    let row = Normalised::of(logits);
    row.mean_of(|i| -row.logp(i))
}

/// The divergence `KL(p ‖ q)` in nats; infinite where `p` allows what `q` does not.
pub fn kl<F: Float>(p: &[F], q: &[F]) -> F {
    let (p, q) = (Normalised::of(p), Normalised::of(q));
    p.mean_of(|i| p.logp(i) - q.logp(i))
}

/// Adds `weight · ∂ logp(action) / ∂ logits` to `grad`: `[i = action] − p_i`.
pub fn logp_grad<F: Float>(logits: &[F], action: usize, weight: F, grad: &mut [F]) {
    let row = Normalised::of(logits);
    for (i, grad) in grad.iter_mut().enumerate() {
        let chosen = if i == action { F::one() } else { F::zero() };
        *grad = *grad + weight * (chosen - row.probability(i));
    }
}

/// Adds `weight · ∂ entropy / ∂ logits` to `grad`: `−p_i (ln p_i + entropy)`.
pub fn entropy_grad<F: Float>(logits: &[F], weight: F, grad: &mut [F]) {
    let row = Normalised::of(logits);
    let entropy = row.mean_of(|i| -row.logp(i));
    for (i, grad) in grad.iter_mut().enumerate() {
        *grad = *grad - weight * row.share(i, |i| row.logp(i) + entropy);
    }
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ (logits of p)` to `grad`: `p_i (ln p_i − ln q_i − KL)`.
pub fn kl_grad_p<F: Float>(p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    let (p, q) = (Normalised::of(p), Normalised::of(q));
    let log_ratio = |i| p.logp(i) - q.logp(i);
    let kl = p.mean_of(log_ratio);
    for (i, grad) in grad.iter_mut().enumerate() {
        *grad = *grad + weight * p.share(i, |i| log_ratio(i) - kl);
    }
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ (logits of q)` to `grad`: `q_i − p_i`.
pub fn kl_grad_q<F: Float>(p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    let (p, q) = (Normalised::of(p), Normalised::of(q));
    for (i, grad) in grad.iter_mut().enumerate() {
        *grad = *grad + weight * (q.probability(i) - p.probability(i));
    }
}

/// One row of logits with what turns them into probabilities.
struct Normalised<'a, F> {
    logits: &'a [F],
    highest: F,
    /// Σ exp(logit − highest): at least 1, so its logarithm is safe.
    sum: F,
    ln_sum: F,
}

impl<'a, F: Float> Normalised<'a, F> {
    fn of(logits: &'a [F]) -> Self {
        // `Float::max` drops NaN; the sum brings it back.
        let highest = logits.iter().fold(F::neg_infinity(), |highest, &logit| highest.max(logit));
        let sum = logits.iter().fold(F::zero(), |sum, &logit| sum + (logit - highest).exp());
        Self { logits, highest, sum, ln_sum: sum.ln() }
    }

    fn logp(&self, i: usize) -> F {
        self.logits.get(i).map_or(F::nan(), |&logit| logit - self.highest - self.ln_sum)
    }

    fn probability(&self, i: usize) -> F {
        (self.logits[i] - self.highest).exp() / self.sum
    }

    /// `p_i · f(i)`, where an impossible action has no share however infinite its `f`.
    fn share(&self, i: usize, f: impl Fn(usize) -> F) -> F {
        let probability = self.probability(i);
        if probability == F::zero() { probability } else { probability * f(i) }
    }

    fn mean_of(&self, f: impl Fn(usize) -> F) -> F {
        (0..self.logits.len()).fold(F::zero(), |sum, i| sum + self.share(i, &f))
    }

    fn index_at(&self, uniform: F) -> usize {
        // Adds up what `of` added up, in the same order: the last partial sum is `sum` itself, so a uniform below 1 stops
        // in time. Only NaN runs through.
        let goal = uniform * self.sum;
        let mut partial = F::zero();
        for (i, &logit) in self.logits.iter().enumerate() {
            partial = partial + (logit - self.highest).exp();
            if goal < partial {
                return i;
            }
        }
        self.logits.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
