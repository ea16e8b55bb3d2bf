//! Categorical distributions over one choice, or several independent ones.
//!
//! A row of inputs holds the logits of all choices in order. Log-probability, entropy and divergence are sums
//! over the choices. Logits may have any finite size; −∞ masks an action.
//!
//! [`Categorical`] computes batches of `f32` with SIMD and agrees to about 1e-6 with the functions, which
//! take one row of `f32` or `f64` and the sizes of the choices as `nvec`; finite differences check those.

use num_traits::Float;

use crate::kernel::Kernel;
use crate::ops::Softmax;
use crate::{KlTerm, PolicyError, Rng, Space};

/// The distribution over `nvec[i]` actions for each choice `i`. Sampling uses one uniform number per choice,
/// row by row.
///
/// ```
/// use pronk_policy::{ActionsMut, ActionsRef, Categorical, Distribution};
///
/// let mut logp = [0.0];
/// Categorical::new(2)?.logp(&[0.0, 0.0], ActionsRef::Discrete(&[1]), &mut logp)?;
/// assert_eq!(logp, [0.5_f32.ln()]);
///
/// let mut action = [0; 2];
/// Categorical::multi(&[2, 3])?.mode(&[0.5, -0.5, 1.0, 2.0, 3.0], ActionsMut::Discrete(&mut action))?;
/// assert_eq!(action, [0, 2]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
///
/// *Errors*, besides those of every [`Distribution`](crate::Distribution): [`PolicyError::ActionOutOfRange`],
/// or [`PolicyError::ChoiceOutOfRange`] with several choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Categorical {
    heads: Vec<Head>,
    dist_len: usize,
}

/// The logits of one choice within a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    index: usize,
    start: usize,
    n: usize,
}

impl Categorical {
    /// The distribution over actions `0..n`; an error if there are none.
    pub fn new(n: usize) -> Result<Self, PolicyError> {
        Space::discrete(n)?;
        Ok(Self::with_heads(&[n]))
    }

    /// The distribution over choices of these sizes; an error if there are none, or one is 0.
    pub fn multi(nvec: &[usize]) -> Result<Self, PolicyError> {
        Space::multi_discrete(nvec.to_vec())?;
        Ok(Self::with_heads(nvec))
    }

    fn with_heads(nvec: &[usize]) -> Self {
        Self { heads: heads(nvec).collect(), dist_len: nvec.iter().sum() }
    }

    /// The number of actions of a single choice, whose slices need no copies.
    #[inline]
    fn single(&self) -> Option<usize> {
        (self.heads.len() == 1).then_some(self.dist_len)
    }

    /// The logits of one choice in all rows, `[rows, n]`.
    fn logits_of(&self, head: Head, inputs: &[f32]) -> Vec<f32> {
        inputs.chunks_exact(self.dist_len).flat_map(|row| head.of(row)).copied().collect()
    }

    /// The actions of one choice in all rows, `[rows]`.
    fn actions_of(&self, head: Head, actions: &[u32]) -> Vec<u32> {
        actions.iter().skip(head.index).step_by(self.heads.len()).copied().collect()
    }

    /// Sums the results of `write`, `[rows]`, over the choices.
    #[inline(never)] // Keeps the path of a single choice short.
    fn sum_heads(&self, out: &mut [f32], mut write: impl FnMut(Head, &mut [f32])) {
        let mut terms = vec![0.0; out.len()];
        out.fill(0.0);
        for &head in &self.heads {
            write(head, &mut terms);
            add_terms(&terms, out);
        }
    }

    /// Calls `add` with the gradient of each choice, `[rows, n]`.
    #[inline(never)]
    fn add_head_grads(&self, grad: &mut [f32], mut add: impl FnMut(Head, &mut [f32])) {
        for &head in &self.heads {
            let mut of_head = self.logits_of(head, grad);
            add(head, &mut of_head);
            let rows = grad.chunks_exact_mut(self.dist_len).zip(of_head.chunks_exact(head.n));
            rows.for_each(|(row, sums)| head.of_mut(row).copy_from_slice(sums));
        }
    }
}

impl Head {
    fn of<'r, T>(&self, row: &'r [T]) -> &'r [T] {
        &row[self.start..self.start + self.n]
    }

    fn of_mut<'r, T>(&self, row: &'r mut [T]) -> &'r mut [T] {
        &mut row[self.start..self.start + self.n]
    }
}

impl Kernel for Categorical {
    type Action = u32;

    fn dist_len(&self) -> usize {
        self.dist_len
    }

    fn act_len(&self) -> usize {
        self.heads.len()
    }

    fn check_actions(&self, actions: &[u32]) -> Result<(), PolicyError> {
        if let Some(n) = self.single() {
            // One pass without branches; the search for the row comes only after a violation.
            let many = u32::try_from(n).unwrap_or(u32::MAX);
            let wrong = |&action: &u32| action >= many;
            if actions.iter().fold(false, |any, action| any | wrong(action)) {
                let row = actions.iter().position(wrong).unwrap_or_default();
                return Err(PolicyError::ActionOutOfRange { row, action: actions[row], n });
            }
            return Ok(());
        }
        for (row, action) in actions.chunks_exact(self.heads.len()).enumerate() {
            for (&action, &Head { index, n, .. }) in action.iter().zip(&self.heads) {
                if action as usize >= n {
                    return Err(PolicyError::ChoiceOutOfRange { row, choice: index, action, n });
                }
            }
        }
        Ok(())
    }

    fn sample(&self, inputs: &[f32], rng: &mut Rng, actions: &mut [u32], logp: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::Sample { logits: inputs, rng, actions, logp }.run(n);
        }
        // All rows of a choice at once would be faster, but a batch would draw in another order than its rows
        // alone.
        let rows = inputs.chunks_exact(self.dist_len).zip(actions.chunks_exact_mut(self.heads.len()));
        for ((row, actions), logp) in rows.zip(logp) {
            *logp = 0.0;
            for (head, action) in self.heads.iter().zip(actions) {
                let (logits, mut term) = (head.of(row), [0.0]);
                let actions = std::slice::from_mut(action);
                Softmax::Sample { logits, rng: &mut *rng, actions, logp: &mut term }.run(head.n);
                *logp += term[0];
            }
        }
    }

    fn mode(&self, inputs: &[f32], actions: &mut [u32]) {
        let rows = inputs.chunks_exact(self.dist_len).zip(actions.chunks_exact_mut(self.heads.len()));
        for (row, actions) in rows {
            for (head, action) in self.heads.iter().zip(actions) {
                *action = highest(head.of(row)) as u32;
            }
        }
    }

    fn logp(&self, inputs: &[f32], actions: &[u32], out: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::Logp { logits: inputs, actions, out }.run(n);
        }
        self.sum_heads(out, |head, out| {
            let (logits, actions) = (&self.logits_of(head, inputs), &self.actions_of(head, actions));
            Softmax::Logp { logits, actions, out }.run(head.n);
        });
    }

    fn entropy(&self, inputs: &[f32], out: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::Entropy { logits: inputs, out }.run(n);
        }
        self.sum_heads(out, |head, out| {
            Softmax::Entropy { logits: &self.logits_of(head, inputs), out }.run(head.n);
        });
    }

    fn logp_and_entropy(&self, inputs: &[f32], actions: &[u32], logp: &mut [f32], entropy: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::LogpAndEntropy { logits: inputs, actions, logp, entropy }.run(n);
        }
        let mut entropies = vec![0.0; entropy.len()];
        entropy.fill(0.0);
        self.sum_heads(logp, |head, logp| {
            let (logits, actions) = (&self.logits_of(head, inputs), &self.actions_of(head, actions));
            Softmax::LogpAndEntropy { logits, actions, logp, entropy: &mut entropies }.run(head.n);
            add_terms(&entropies, entropy);
        });
    }

    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::Kl { p, q, out }.run(n);
        }
        self.sum_heads(out, |head, out| {
            Softmax::Kl { p: &self.logits_of(head, p), q: &self.logits_of(head, q), out }.run(head.n);
        });
    }

    fn logp_grad(&self, inputs: &[f32], actions: &[u32], weight: &[f32], grad: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::LogpGrad { logits: inputs, actions, weight, grad }.run(n);
        }
        self.add_head_grads(grad, |head, grad| {
            let (logits, actions) = (&self.logits_of(head, inputs), &self.actions_of(head, actions));
            Softmax::LogpGrad { logits, actions, weight, grad }.run(head.n);
        });
    }

    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::EntropyGrad { logits: inputs, weight, grad }.run(n);
        }
        self.add_head_grads(grad, |head, grad| {
            Softmax::EntropyGrad { logits: &self.logits_of(head, inputs), weight, grad }.run(head.n);
        });
    }

    fn logp_and_entropy_grad(
        &self,
        inputs: &[f32],
        actions: &[u32],
        (logp_weight, entropy_weight): (&[f32], &[f32]),
        grad: &mut [f32],
    ) {
        if let Some(n) = self.single() {
            return Softmax::LogpAndEntropyGrad { logits: inputs, actions, logp_weight, entropy_weight, grad }.run(n);
        }
        self.add_head_grads(grad, |head, grad| {
            let (logits, actions) = (&self.logits_of(head, inputs), &self.actions_of(head, actions));
            Softmax::LogpAndEntropyGrad { logits, actions, logp_weight, entropy_weight, grad }.run(head.n);
        });
    }

    fn loss_grad(
        &self,
        inputs: &[f32],
        actions: &[u32],
        (logp_weight, entropy_weight): (&[f32], &[f32]),
        kl: KlTerm<'_>,
        grad: &mut [f32],
    ) {
        if let Some(n) = self.single() {
            let KlTerm { p, weight: kl_weight, out: kl } = kl;
            return Softmax::LossGrad { q: inputs, actions, logp_weight, entropy_weight, p, kl_weight, kl, grad }
                .run(n);
        }
        self.logp_and_entropy_grad(inputs, actions, (logp_weight, entropy_weight), grad);
        self.kl(kl.p, inputs, kl.out);
        self.kl_grad_q(kl.p, inputs, kl.weight, grad);
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) {
        if let Some(n) = self.single() {
            return Softmax::KlGradQ { p, q, weight, grad }.run(n);
        }
        self.add_head_grads(grad, |head, grad| {
            let (p, q) = (&self.logits_of(head, p), &self.logits_of(head, q));
            Softmax::KlGradQ { p, q, weight, grad }.run(head.n);
        });
    }
}

/// The index of the highest logit of each choice; the first of equal ones.
pub fn mode<F: Float>(nvec: &[usize], logits: &[F]) -> Vec<usize> {
    heads(nvec).map(|head| highest(head.of(logits))).collect()
}

/// The log-probability of `action`, one index per choice; NaN for an index out of range.
pub fn logp<F: Float>(nvec: &[usize], logits: &[F], action: &[usize]) -> F {
    sum(heads(nvec).zip(action).map(|(head, &action)| Normalised::of(head.of(logits)).logp(action)))
}

/// The entropy in nats.
pub fn entropy<F: Float>(nvec: &[usize], logits: &[F]) -> F {
    sum(heads(nvec).map(|head| Normalised::of(head.of(logits)).entropy()))
}

/// The divergence `KL(p ‖ q)` in nats; infinite if `q` masks an action that `p` allows.
pub fn kl<F: Float>(nvec: &[usize], p: &[F], q: &[F]) -> F {
    sum(pairs(nvec, p, q).map(|(_, p, q)| p.mean_of(|i| p.logp(i) - q.logp(i))))
}

/// Adds `weight · ∂ logp(action) / ∂ logits` to `grad`: `[i = action] − p_i`.
pub fn logp_grad<F: Float>(nvec: &[usize], logits: &[F], action: &[usize], weight: F, grad: &mut [F]) {
    for (head, &action) in heads(nvec).zip(action) {
        let row = Normalised::of(head.of(logits));
        for (i, grad) in head.of_mut(grad).iter_mut().enumerate() {
            let chosen = if i == action { F::one() } else { F::zero() };
            *grad = *grad + weight * (chosen - row.probability(i));
        }
    }
}

/// Adds `weight · ∂ entropy / ∂ logits` to `grad`: `−p_i (ln p_i + entropy)`.
pub fn entropy_grad<F: Float>(nvec: &[usize], logits: &[F], weight: F, grad: &mut [F]) {
    for head in heads(nvec) {
        let row = Normalised::of(head.of(logits));
        let entropy = row.entropy();
        for (i, grad) in head.of_mut(grad).iter_mut().enumerate() {
            *grad = *grad - weight * row.share(i, |i| row.logp(i) + entropy);
        }
    }
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ (logits of p)` to `grad`: `p_i (ln p_i − ln q_i − KL)`.
pub fn kl_grad_p<F: Float>(nvec: &[usize], p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    for (head, p, q) in pairs(nvec, p, q) {
        let log_ratio = |i| p.logp(i) - q.logp(i);
        let kl = p.mean_of(log_ratio);
        for (i, grad) in head.of_mut(grad).iter_mut().enumerate() {
            *grad = *grad + weight * p.share(i, |i| log_ratio(i) - kl);
        }
    }
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ (logits of q)` to `grad`: `q_i − p_i`.
pub fn kl_grad_q<F: Float>(nvec: &[usize], p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    for (head, p, q) in pairs(nvec, p, q) {
        for (i, grad) in head.of_mut(grad).iter_mut().enumerate() {
            *grad = *grad + weight * (q.probability(i) - p.probability(i));
        }
    }
}

fn highest<F: Float>(logits: &[F]) -> usize {
    (1..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
}

/// The choices, with their logits.
fn heads(nvec: &[usize]) -> impl Iterator<Item = Head> {
    nvec.iter().enumerate().scan(0, |end, (index, &n)| {
        let start = *end;
        *end += n;
        Some(Head { index, start, n })
    })
}

/// Each choice with its logits in two rows.
fn pairs<'a, F: Float>(
    nvec: &[usize],
    p: &'a [F],
    q: &'a [F],
) -> impl Iterator<Item = (Head, Normalised<'a, F>, Normalised<'a, F>)> {
    heads(nvec).map(move |head| (head, Normalised::of(head.of(p)), Normalised::of(head.of(q))))
}

fn add_terms(terms: &[f32], sums: &mut [f32]) {
    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
}

fn sum<F: Float>(terms: impl Iterator<Item = F>) -> F {
    terms.fold(F::zero(), |sum, term| sum + term)
}

/// The logits of one choice with their normalising constant.
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

    fn entropy(&self) -> F {
        self.mean_of(|i| -self.logp(i))
    }

    /// `p_i · f(i)`, and zero for a masked action even if `f` is infinite.
    fn share(&self, i: usize, f: impl Fn(usize) -> F) -> F {
        let probability = self.probability(i);
        if probability == F::zero() { probability } else { probability * f(i) }
    }

    fn mean_of(&self, f: impl Fn(usize) -> F) -> F {
        (0..self.logits.len()).fold(F::zero(), |sum, i| sum + self.share(i, &f))
    }
}

#[cfg(test)]
mod tests;
