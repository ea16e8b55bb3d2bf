//! Many rows of a distribution over numbers, each row by itself: what is left to such a distribution are functions of a row.

use crate::error::check_len;
use crate::{ActionsMut, ActionsRef, PolicyError, Rng, Space};

/// Rows of actions of `n` numbers; each number has a mean and the logarithm of a standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberRows {
    n: usize,
}

impl NumberRows {
    /// Rows of `n` numbers; an error if that is none.
    pub(crate) fn new(n: usize) -> Result<Self, PolicyError> {
        if n == 0 {
            // The space of no number, which says what is wrong with it.
            Space::boxed(Vec::new(), Vec::new(), vec![n])?;
        }
        Ok(Self { n })
    }

    pub(crate) fn act_len(self) -> usize {
        self.n
    }

    pub(crate) fn dist_len(self) -> usize {
        self.n.saturating_mul(2)
    }

    /// The number of rows in `inputs`, and the actions if there are as many.
    pub(crate) fn checked<'a>(
        self,
        inputs: &[f32],
        actions: ActionsRef<'a>,
    ) -> Result<(usize, &'a [f32]), PolicyError> {
        let rows = self.rows("inputs", inputs)?;
        let actions = actions.continuous()?;
        check_len("actions", rows * self.n, actions.len())?;
        Ok((rows, actions))
    }

    /// Has `draw` write an action for every row and `logp` say how likely it was.
    pub(crate) fn sample(
        self,
        inputs: &[f32],
        rng: &mut Rng,
        actions: ActionsMut<'_>,
        out: &mut [f32],
        draw: impl Fn(&[f32], &mut dyn FnMut() -> f32, &mut [f32]),
        logp: impl Fn(&[f32], &[f32]) -> f32,
    ) -> Result<(), PolicyError> {
        let actions = actions.continuous()?;
        let rows = self.rows("inputs", inputs)?;
        check_len("actions", rows * self.n, actions.len())?;
        check_len("logp", rows, out.len())?;
        let given = inputs.chunks_exact(self.dist_len());
        for ((inputs, action), out) in given.zip(actions.chunks_exact_mut(self.n)).zip(out) {
            draw(inputs, &mut || rng.normal() as f32, action);
            // Of the action as it is stored, so that whoever asks again gets the same bits.
            *out = logp(inputs, action);
        }
        Ok(())
    }

    /// Has `mode` write an action for every row.
    pub(crate) fn mode(
        self,
        inputs: &[f32],
        actions: ActionsMut<'_>,
        mode: impl Fn(&[f32], &mut [f32]),
    ) -> Result<(), PolicyError> {
        let actions = actions.continuous()?;
        check_len("actions", self.rows("inputs", inputs)? * self.n, actions.len())?;
        let given = inputs.chunks_exact(self.dist_len());
        given.zip(actions.chunks_exact_mut(self.n)).for_each(|(inputs, action)| mode(inputs, action));
        Ok(())
    }

    /// Writes what `logp` says of every row and its action.
    pub(crate) fn logp(
        self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        out: &mut [f32],
        logp: impl Fn(&[f32], &[f32]) -> f32,
    ) -> Result<(), PolicyError> {
        let (rows, actions) = self.checked(inputs, actions)?;
        check_len("logp", rows, out.len())?;
        let given = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.n));
        given.zip(out).for_each(|((inputs, action), out)| *out = logp(inputs, action));
        Ok(())
    }

    /// Writes what `entropy` says of every row.
    pub(crate) fn entropy(
        self,
        inputs: &[f32],
        out: &mut [f32],
        entropy: impl Fn(&[f32]) -> f32,
    ) -> Result<(), PolicyError> {
        check_len("entropy", self.rows("inputs", inputs)?, out.len())?;
        inputs.chunks_exact(self.dist_len()).zip(out).for_each(|(inputs, out)| *out = entropy(inputs));
        Ok(())
    }

    /// Writes what `kl` says of every row of both.
    pub(crate) fn kl(
        self,
        p: &[f32],
        q: &[f32],
        out: &mut [f32],
        kl: impl Fn(&[f32], &[f32]) -> f32,
    ) -> Result<(), PolicyError> {
        check_len("kl", self.rows("p", p)?, out.len())?;
        check_len("q", p.len(), q.len())?;
        let given = p.chunks_exact(self.dist_len()).zip(q.chunks_exact(self.dist_len()));
        given.zip(out).for_each(|((p, q), out)| *out = kl(p, q));
        Ok(())
    }

    /// Has `add` add the weighted gradient of every row and its action.
    pub(crate) fn logp_grad(
        self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        weight: &[f32],
        grad: &mut [f32],
        add: impl Fn(&[f32], &[f32], f32, &mut [f32]),
    ) -> Result<(), PolicyError> {
        let (rows, actions) = self.checked(inputs, actions)?;
        check_len("weight", rows, weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        let given = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.n)).zip(weight);
        for (((inputs, action), &weight), grad) in given.zip(grad.chunks_exact_mut(self.dist_len())) {
            add(inputs, action, weight, grad);
        }
        Ok(())
    }

    /// Has `add` add the weighted gradient of every row.
    pub(crate) fn entropy_grad(
        self,
        inputs: &[f32],
        weight: &[f32],
        grad: &mut [f32],
        add: impl Fn(&[f32], f32, &mut [f32]),
    ) -> Result<(), PolicyError> {
        check_len("weight", self.rows("inputs", inputs)?, weight.len())?;
        check_len("grad", inputs.len(), grad.len())?;
        let given = inputs.chunks_exact(self.dist_len()).zip(weight);
        for ((inputs, &weight), grad) in given.zip(grad.chunks_exact_mut(self.dist_len())) {
            add(inputs, weight, grad);
        }
        Ok(())
    }

    /// Has `add` add the weighted gradient of every row of both.
    pub(crate) fn kl_grad_q(
        self,
        p: &[f32],
        q: &[f32],
        weight: &[f32],
        grad: &mut [f32],
        add: impl Fn(&[f32], &[f32], f32, &mut [f32]),
    ) -> Result<(), PolicyError> {
        check_len("weight", self.rows("p", p)?, weight.len())?;
        check_len("q", p.len(), q.len())?;
        check_len("grad", p.len(), grad.len())?;
        let given = p.chunks_exact(self.dist_len()).zip(q.chunks_exact(self.dist_len())).zip(weight);
        for (((p, q), &weight), grad) in given.zip(grad.chunks_exact_mut(self.dist_len())) {
            add(p, q, weight, grad);
        }
        Ok(())
    }

    fn rows(self, what: &'static str, inputs: &[f32]) -> Result<usize, PolicyError> {
        let rows = inputs.len() / self.dist_len();
        check_len(what, rows * self.dist_len(), inputs.len()).map(|()| rows)
    }
}
