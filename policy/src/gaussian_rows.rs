//! [`GaussianRows`]: batches of a Gaussian, computed row by row.

use crate::kernel::Kernel;
use crate::{LogStdRange, PolicyError, Rng, Space, normal};

/// A Gaussian over independent numbers, by its formulas for one row. Entropy and divergence are those of the
/// numbers before any squashing, so they are the same for all implementers.
pub(crate) trait GaussianRows: Send + Sync {
    /// How many numbers an action has.
    fn n(&self) -> usize;
    fn log_std_range(&self) -> LogStdRange;
    fn check_actions(&self, actions: &[f32]) -> Result<(), PolicyError>;
    fn sample(&self, inputs: &[f32], normal: impl FnMut() -> f32, action: &mut [f32]);
    fn mode(&self, inputs: &[f32], action: &mut [f32]);
    fn logp(&self, inputs: &[f32], action: &[f32]) -> f32;
    fn logp_grad(&self, inputs: &[f32], action: &[f32], weight: f32, grad: &mut [f32]);
}

/// Refuses an action of no numbers, with the error of the space that it would belong to.
pub(crate) fn check_n(n: usize) -> Result<usize, PolicyError> {
    if n == 0 {
        Space::boxed(Vec::new(), Vec::new(), vec![n])?;
    }
    Ok(n)
}

impl<G: GaussianRows> Kernel for G {
    type Action = f32;

    fn dist_len(&self) -> usize {
        self.n().saturating_mul(2)
    }

    fn act_len(&self) -> usize {
        self.n()
    }

    fn check_actions(&self, actions: &[f32]) -> Result<(), PolicyError> {
        GaussianRows::check_actions(self, actions)
    }

    fn sample(&self, inputs: &[f32], rng: &mut Rng, actions: &mut [f32], logp: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact_mut(self.n()));
        for ((inputs, action), logp) in rows.zip(logp) {
            GaussianRows::sample(self, inputs, || rng.normal() as f32, action);
            // Of the action as it is stored, so that `logp` returns the same bits for it later.
            *logp = GaussianRows::logp(self, inputs, action);
        }
    }

    fn mode(&self, inputs: &[f32], actions: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact_mut(self.n()));
        rows.for_each(|(inputs, action)| GaussianRows::mode(self, inputs, action));
    }

    fn logp(&self, inputs: &[f32], actions: &[f32], out: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.n()));
        rows.zip(out).for_each(|((inputs, action), out)| *out = GaussianRows::logp(self, inputs, action));
    }

    fn entropy(&self, inputs: &[f32], out: &mut [f32]) {
        let (rows, range) = (inputs.chunks_exact(self.dist_len()), self.log_std_range());
        rows.zip(out).for_each(|(inputs, out)| *out = normal::entropy(range, inputs));
    }

    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) {
        let rows = p.chunks_exact(self.dist_len()).zip(q.chunks_exact(self.dist_len()));
        let range = self.log_std_range();
        rows.zip(out).for_each(|((p, q), out)| *out = normal::kl(range, p, q));
    }

    fn logp_grad(&self, inputs: &[f32], actions: &[f32], weight: &[f32], grad: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.n())).zip(weight);
        for (((inputs, action), &weight), grad) in rows.zip(grad.chunks_exact_mut(self.dist_len())) {
            GaussianRows::logp_grad(self, inputs, action, weight, grad);
        }
    }

    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(weight).zip(grad.chunks_exact_mut(self.dist_len()));
        for ((inputs, &weight), grad) in rows {
            normal::entropy_grad(self.log_std_range(), inputs, weight, grad);
        }
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) {
        let rows = p.chunks_exact(self.dist_len()).zip(q.chunks_exact(self.dist_len())).zip(weight);
        for (((p, q), &weight), grad) in rows.zip(grad.chunks_exact_mut(self.dist_len())) {
            normal::kl_grad_q(self.log_std_range(), p, q, weight, grad);
        }
    }
}
