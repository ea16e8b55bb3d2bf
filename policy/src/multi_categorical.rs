//! Several independent choices at once, each with logits of its own.
//!
//! A row of inputs is the logits of all choices, one choice after the other. Log-probability, entropy and divergence are
//! sums over the choices, and each choice is a categorical distribution: see [`categorical`], also for masks.
//!
//! [`MultiCategorical`] computes many rows of `f32` at once, choice by choice. The functions work on one row, are generic
//! over `f32` and `f64`, and take the sizes of the choices as `nvec`, which must add up to the length of the logits.

use num_traits::Float;

use crate::error::check_len;
use crate::ops::Softmax;
use crate::{ActionsMut, ActionsRef, Distribution, PolicyError, Rng, Space, categorical};

/// The distribution over one of `nvec[i]` things for each choice `i`.
///
/// ```
/// use pronk_policy::{ActionsMut, Distribution, MultiCategorical};
///
/// let two = MultiCategorical::new(vec![2, 3])?;
/// let mut action = [0; 2];
/// two.mode(&[0.5, -0.5, 1.0, 2.0, 3.0], ActionsMut::Discrete(&mut action))?;
/// assert_eq!(action, [0, 2]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
///
/// *Errors*, besides those of every [`Distribution`]: [`PolicyError::ChoiceOutOfRange`] names row and choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiCategorical {
    parts: Vec<Part>,
    dist_len: usize,
}

/// Where one choice lies in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    index: usize,
    start: usize,
    n: usize,
}

impl MultiCategorical {
    /// The distribution over choices of such sizes; an error if there is none, or one without anything to choose.
    pub fn new(nvec: Vec<usize>) -> Result<Self, PolicyError> {
        let dist_len = Space::multi_discrete(nvec.clone())?.dist_len();
        Ok(Self { parts: parts(&nvec).collect(), dist_len })
    }

    fn rows(&self, what: &'static str, inputs: &[f32]) -> Result<usize, PolicyError> {
        let rows = inputs.len() / self.dist_len;
        check_len(what, rows * self.dist_len, inputs.len()).map(|()| rows)
    }

    fn checked<'a>(&self, rows: usize, actions: ActionsRef<'a>) -> Result<&'a [u32], PolicyError> {
        let actions = actions.discrete()?;
        check_len("actions", rows * self.parts.len(), actions.len())?;
        for (row, action) in actions.chunks_exact(self.parts.len()).enumerate() {
            for (&action, &Part { index, n, .. }) in action.iter().zip(&self.parts) {
                if action as usize >= n {
                    return Err(PolicyError::ChoiceOutOfRange { row, choice: index, action, n });
                }
            }
        }
        Ok(actions)
    }

    /// One choice of all rows, `[rows, n]`.
    fn logits_of(&self, part: Part, inputs: &[f32]) -> Vec<f32> {
        inputs.chunks_exact(self.dist_len).flat_map(|row| part.of(row)).copied().collect()
    }

    /// What was chosen there, `[rows]`.
    fn actions_of(&self, part: Part, actions: &[u32]) -> Vec<u32> {
        actions.iter().skip(part.index).step_by(self.parts.len()).copied().collect()
    }

    /// Adds up over the choices what `of_part` writes for every row.
    fn add_up(&self, out: &mut [f32], mut of_part: impl FnMut(Part, &mut [f32])) {
        let mut terms = vec![0.0; out.len()];
        out.fill(0.0);
        for &part in &self.parts {
            of_part(part, &mut terms);
            add_terms(&terms, out);
        }
    }

    /// Has `add` add to the gradient of each choice, `[rows, n]`.
    fn add_grads(&self, grad: &mut [f32], mut add: impl FnMut(Part, &mut [f32])) {
        for &part in &self.parts {
            let mut of_part = self.logits_of(part, grad);
            add(part, &mut of_part);
            let rows = grad.chunks_exact_mut(self.dist_len).zip(of_part.chunks_exact(part.n));
            rows.for_each(|(row, sums)| part.of_mut(row).copy_from_slice(sums));
        }
    }
}

impl Part {
    fn of<'r, T>(&self, row: &'r [T]) -> &'r [T] {
        &row[self.start..self.start + self.n]
    }

    fn of_mut<'r, T>(&self, row: &'r mut [T]) -> &'r mut [T] {
        &mut row[self.start..self.start + self.n]
    }
}

impl Distribution for MultiCategorical {
    fn dist_len(&self) -> usize {
        self.dist_len
    }

    fn act_len(&self) -> usize {
        self.parts.len()
    }

    /// Uses exactly one uniform number per choice, row by row.
    fn sample(
        &self,
        inputs: &[f32],
        rng: &mut Rng,
        actions: ActionsMut<'_>,
        logp: &mut [f32],
    ) -> Result<(), PolicyError> {
        let actions = actions.discrete()?;
        let rows = self.rows("inputs", inputs)?;
        check_len("actions", rows * self.parts.len(), actions.len())?;
        check_len("logp", rows, logp.len())?;
        // Choice by choice of all rows would be faster, but draw in another order for many rows than for each alone.
        let given = inputs.chunks_exact(self.dist_len);
        for ((row, actions), logp) in given.zip(actions.chunks_exact_mut(self.parts.len())).zip(logp) {
            *logp = 0.0;
            for (part, action) in self.parts.iter().zip(actions) {
                let (logits, mut term) = (part.of(row), [0.0]);
                let actions = std::slice::from_mut(action);
                Softmax::Sample { logits, rng: &mut *rng, actions, logp: &mut term }.run(part.n);
                *logp += term[0];
            }
        }
        Ok(())
    }

    fn mode(&self, inputs: &[f32], actions: ActionsMut<'_>) -> Result<(), PolicyError> {
        let actions = actions.discrete()?;
        check_len("actions", self.rows("inputs", inputs)? * self.parts.len(), actions.len())?;
        for (row, actions) in inputs.chunks_exact(self.dist_len).zip(actions.chunks_exact_mut(self.parts.len())) {
            for (part, action) in self.parts.iter().zip(actions) {
                *action = categorical::mode(part.of(row)) as u32;
            }
        }
        Ok(())
    }

    fn logp(&self, inputs: &[f32], actions: ActionsRef<'_>, out: &mut [f32]) -> Result<(), PolicyError> {
        let rows = self.rows("inputs", inputs)?;
        let actions = self.checked(rows, actions)?;
        check_len("logp", rows, out.len())?;
        self.add_up(out, |part, out| {
            let (logits, actions) = (&self.logits_of(part, inputs), &self.actions_of(part, actions));
            Softmax::Logp { logits, actions, out }.run(part.n);
        });
        Ok(())
    }

    fn entropy(&self, inputs: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        check_len("entropy", self.rows("inputs", inputs)?, out.len())?;
        self.add_up(out, |part, out| {
            Softmax::Entropy { logits: &self.logits_of(part, inputs), out }.run(part.n);
        });
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
        let mut entropies = vec![0.0; rows];
        entropy.fill(0.0);
        self.add_up(logp, |part, logp| {
            let (logits, actions) = (&self.logits_of(part, inputs), &self.actions_of(part, actions));
            Softmax::LogpAndEntropy { logits, actions, logp, entropy: &mut entropies }.run(part.n);
            add_terms(&entropies, entropy);
        });
        Ok(())
    }

    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        check_len("kl", self.rows("p", p)?, out.len())?;
        check_len("q", p.len(), q.len())?;
        self.add_up(out, |part, out| {
            Softmax::Kl { p: &self.logits_of(part, p), q: &self.logits_of(part, q), out }.run(part.n);
        });
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
        self.add_grads(grad, |part, grad| {
            let (logits, actions) = (&self.logits_of(part, inputs), &self.actions_of(part, actions));
            Softmax::LogpGrad { logits, actions, weight, grad }.run(part.n);
        });
        Ok(())
    }

    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("weight", self.rows("inputs", inputs)?, weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        self.add_grads(grad, |part, grad| {
            Softmax::EntropyGrad { logits: &self.logits_of(part, inputs), weight, grad }.run(part.n);
        });
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
        self.add_grads(grad, |part, grad| {
            let (logits, actions) = (&self.logits_of(part, inputs), &self.actions_of(part, actions));
            Softmax::LogpAndEntropyGrad { logits, actions, logp_weight, entropy_weight, grad }.run(part.n);
        });
        Ok(())
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("weight", self.rows("p", p)?, weight.len())?;
        check_len("q", p.len(), q.len())?;
        check_len("grad", p.len(), grad.len())?;
        self.add_grads(grad, |part, grad| {
            let (p, q) = (&self.logits_of(part, p), &self.logits_of(part, q));
            Softmax::KlGradQ { p, q, weight, grad }.run(part.n);
        });
        Ok(())
    }
}

/// The index of the highest logit of each choice; the first of several.
pub fn mode<F: Float>(nvec: &[usize], logits: &[F]) -> Vec<usize> {
    parts(nvec).map(|part| categorical::mode(part.of(logits))).collect()
}

/// The log-probability of `action`, an index for each choice; NaN if one does not exist.
pub fn logp<F: Float>(nvec: &[usize], logits: &[F], action: &[usize]) -> F {
    sum(parts(nvec).zip(action).map(|(part, &action)| categorical::logp(part.of(logits), action)))
}

/// The entropy in nats.
pub fn entropy<F: Float>(nvec: &[usize], logits: &[F]) -> F {
    sum(parts(nvec).map(|part| categorical::entropy(part.of(logits))))
}

/// The divergence `KL(p ‖ q)` in nats; infinite where `p` allows what `q` does not.
pub fn kl<F: Float>(nvec: &[usize], p: &[F], q: &[F]) -> F {
    sum(parts(nvec).map(|part| categorical::kl(part.of(p), part.of(q))))
}

/// Adds `weight · ∂ logp(action) / ∂ logits` to `grad`.
pub fn logp_grad<F: Float>(nvec: &[usize], logits: &[F], action: &[usize], weight: F, grad: &mut [F]) {
    for (part, &action) in parts(nvec).zip(action) {
        categorical::logp_grad(part.of(logits), action, weight, part.of_mut(grad));
    }
}

/// Adds `weight · ∂ entropy / ∂ logits` to `grad`.
pub fn entropy_grad<F: Float>(nvec: &[usize], logits: &[F], weight: F, grad: &mut [F]) {
    parts(nvec).for_each(|part| categorical::entropy_grad(part.of(logits), weight, part.of_mut(grad)));
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ (logits of p)` to `grad`.
pub fn kl_grad_p<F: Float>(nvec: &[usize], p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    parts(nvec).for_each(|part| categorical::kl_grad_p(part.of(p), part.of(q), weight, part.of_mut(grad)));
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ (logits of q)` to `grad`.
pub fn kl_grad_q<F: Float>(nvec: &[usize], p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    parts(nvec).for_each(|part| categorical::kl_grad_q(part.of(p), part.of(q), weight, part.of_mut(grad)));
}

/// The choices in the order in which their logits lie.
fn parts(nvec: &[usize]) -> impl Iterator<Item = Part> {
    nvec.iter().enumerate().scan(0, |end, (index, &n)| {
        let start = *end;
        *end += n;
        Some(Part { index, start, n })
    })
}

fn add_terms(terms: &[f32], sums: &mut [f32]) {
    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
}

fn sum<F: Float>(terms: impl Iterator<Item = F>) -> F {
    terms.fold(F::zero(), |sum, term| sum + term)
}

#[cfg(test)]
mod tests;
