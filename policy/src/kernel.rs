//! [`Kernel`]: a distribution without checks, which are here for all families.

use crate::error::check_len;
use crate::{ActionsMut, ActionsRef, Distribution, KlTerm, PolicyError, Rng};

/// The arithmetic of a [`Distribution`] on checked slices.
pub(crate) trait Kernel: Send + Sync {
    /// `u32` for discrete actions, `f32` for continuous ones.
    type Action: ActionElement;

    fn dist_len(&self) -> usize;
    fn act_len(&self) -> usize;

    /// Refuses actions that the distribution cannot have produced.
    fn check_actions(&self, actions: &[Self::Action]) -> Result<(), PolicyError>;

    fn sample(&self, inputs: &[f32], rng: &mut Rng, actions: &mut [Self::Action], logp: &mut [f32]);
    fn mode(&self, inputs: &[f32], actions: &mut [Self::Action]);
    fn logp(&self, inputs: &[f32], actions: &[Self::Action], out: &mut [f32]);
    fn entropy(&self, inputs: &[f32], out: &mut [f32]);
    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]);
    fn logp_grad(&self, inputs: &[f32], actions: &[Self::Action], weight: &[f32], grad: &mut [f32]);
    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]);
    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]);

    fn logp_and_entropy(&self, inputs: &[f32], actions: &[Self::Action], logp: &mut [f32], entropy: &mut [f32]) {
        self.logp(inputs, actions, logp);
        self.entropy(inputs, entropy);
    }

    fn logp_and_entropy_grad(
        &self,
        inputs: &[f32],
        actions: &[Self::Action],
        (logp_weight, entropy_weight): (&[f32], &[f32]),
        grad: &mut [f32],
    ) {
        self.logp_grad(inputs, actions, logp_weight, grad);
        self.entropy_grad(inputs, entropy_weight, grad);
    }

    fn loss_grad(
        &self,
        inputs: &[f32],
        actions: &[Self::Action],
        weights: (&[f32], &[f32]),
        kl: KlTerm<'_>,
        grad: &mut [f32],
    ) {
        self.logp_and_entropy_grad(inputs, actions, weights, grad);
        self.kl(kl.p, inputs, kl.out);
        self.kl_grad_q(kl.p, inputs, kl.weight, grad);
    }
}

/// The element type of actions.
pub(crate) trait ActionElement: Sized {
    fn read(actions: ActionsRef<'_>) -> Result<&[Self], PolicyError>;
    fn write(actions: ActionsMut<'_>) -> Result<&mut [Self], PolicyError>;
}

impl ActionElement for u32 {
    fn read(actions: ActionsRef<'_>) -> Result<&[Self], PolicyError> {
        actions.discrete()
    }

    fn write(actions: ActionsMut<'_>) -> Result<&mut [Self], PolicyError> {
        actions.discrete()
    }
}

impl ActionElement for f32 {
    fn read(actions: ActionsRef<'_>) -> Result<&[Self], PolicyError> {
        actions.continuous()
    }

    fn write(actions: ActionsMut<'_>) -> Result<&mut [Self], PolicyError> {
        actions.continuous()
    }
}

/// The number of rows in `inputs`, which the error calls `what`.
fn rows<K: Kernel>(kernel: &K, what: &'static str, inputs: &[f32]) -> Result<usize, PolicyError> {
    let (rows, dist_len) = (inputs.len() / kernel.dist_len(), kernel.dist_len());
    check_len(what, rows * dist_len, inputs.len()).map(|()| rows)
}

/// The number of rows in `inputs`, and their actions.
fn rows_and_actions<'a, K: Kernel>(
    kernel: &K,
    inputs: &[f32],
    actions: ActionsRef<'a>,
) -> Result<(usize, &'a [K::Action]), PolicyError> {
    let rows = rows(kernel, "inputs", inputs)?;
    let actions = K::Action::read(actions)?;
    check_len("actions", rows * kernel.act_len(), actions.len())?;
    kernel.check_actions(actions).map(|()| (rows, actions))
}

impl<K: Kernel> Distribution for K {
    fn dist_len(&self) -> usize {
        Kernel::dist_len(self)
    }

    fn act_len(&self) -> usize {
        Kernel::act_len(self)
    }

    fn sample(
        &self,
        inputs: &[f32],
        rng: &mut Rng,
        actions: ActionsMut<'_>,
        logp: &mut [f32],
    ) -> Result<(), PolicyError> {
        let actions = K::Action::write(actions)?;
        let rows = rows(self, "inputs", inputs)?;
        check_len("actions", rows * Kernel::act_len(self), actions.len())?;
        check_len("logp", rows, logp.len())?;
        Kernel::sample(self, inputs, rng, actions, logp);
        Ok(())
    }

    fn mode(&self, inputs: &[f32], actions: ActionsMut<'_>) -> Result<(), PolicyError> {
        let actions = K::Action::write(actions)?;
        check_len("actions", rows(self, "inputs", inputs)? * Kernel::act_len(self), actions.len())?;
        Kernel::mode(self, inputs, actions);
        Ok(())
    }

    fn logp(&self, inputs: &[f32], actions: ActionsRef<'_>, out: &mut [f32]) -> Result<(), PolicyError> {
        let (rows, actions) = rows_and_actions(self, inputs, actions)?;
        check_len("logp", rows, out.len())?;
        Kernel::logp(self, inputs, actions, out);
        Ok(())
    }

    fn entropy(&self, inputs: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        check_len("entropy", rows(self, "inputs", inputs)?, out.len())?;
        Kernel::entropy(self, inputs, out);
        Ok(())
    }

    fn logp_and_entropy(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        logp: &mut [f32],
        entropy: &mut [f32],
    ) -> Result<(), PolicyError> {
        let (rows, actions) = rows_and_actions(self, inputs, actions)?;
        check_len("logp", rows, logp.len())?;
        check_len("entropy", rows, entropy.len())?;
        Kernel::logp_and_entropy(self, inputs, actions, logp, entropy);
        Ok(())
    }

    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        check_len("kl", rows(self, "p", p)?, out.len())?;
        check_len("q", p.len(), q.len())?;
        Kernel::kl(self, p, q, out);
        Ok(())
    }

    fn logp_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        weight: &[f32],
        grad: &mut [f32],
    ) -> Result<(), PolicyError> {
        let (rows, actions) = rows_and_actions(self, inputs, actions)?;
        check_len("weight", rows, weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        Kernel::logp_grad(self, inputs, actions, weight, grad);
        Ok(())
    }

    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("weight", rows(self, "inputs", inputs)?, weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        Kernel::entropy_grad(self, inputs, weight, grad);
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
        let (rows, actions) = rows_and_actions(self, inputs, actions)?;
        check_len("logp_weight", rows, logp_weight.len())?;
        check_len("entropy_weight", rows, entropy_weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        Kernel::logp_and_entropy_grad(self, inputs, actions, (logp_weight, entropy_weight), grad);
        Ok(())
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("weight", rows(self, "p", p)?, weight.len())?;
        check_len("q", p.len(), q.len())?;
        check_len("grad", p.len(), grad.len())?;
        Kernel::kl_grad_q(self, p, q, weight, grad);
        Ok(())
    }

    fn loss_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        logp_weight: &[f32],
        entropy_weight: &[f32],
        kl: KlTerm<'_>,
        grad: &mut [f32],
    ) -> Result<(), PolicyError> {
        let (rows, actions) = rows_and_actions(self, inputs, actions)?;
        check_len("logp_weight", rows, logp_weight.len())?;
        check_len("entropy_weight", rows, entropy_weight.len())?;
        check_len("p", inputs.len(), kl.p.len())?;
        check_len("weight", rows, kl.weight.len())?;
        check_len("kl", rows, kl.out.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        Kernel::loss_grad(self, inputs, actions, (logp_weight, entropy_weight), kl, grad);
        Ok(())
    }
}
