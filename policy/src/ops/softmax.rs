//! The categorical distribution of many rows at once.
//!
//! Rows of logits are short, so SIMD runs over rows, not actions: a *group* of as many rows as a register has
//! lanes becomes a *column* per action. Each row is summed in the order of its actions, so its results are
//! bit-identical anywhere in a batch.

mod lanes;

use pulp::{Arch, Scalar, Simd, WithSimd};

use self::lanes::{Lanes, MOST};
use crate::Rng;

/// A computation on rows of logits, with checked slices.
pub(crate) enum Softmax<'a> {
    /// An action for each row, by one uniform number in row order, and its log-probability.
    Sample { logits: &'a [f32], rng: &'a mut Rng, actions: &'a mut [u32], logp: &'a mut [f32] },
    /// The log-probability of an action of each row.
    Logp { logits: &'a [f32], actions: &'a [u32], out: &'a mut [f32] },
    /// The entropy of each row.
    Entropy { logits: &'a [f32], out: &'a mut [f32] },
    /// Both.
    LogpAndEntropy { logits: &'a [f32], actions: &'a [u32], logp: &'a mut [f32], entropy: &'a mut [f32] },
    /// The divergence `KL(p ‖ q)` of each row.
    Kl { p: &'a [f32], q: &'a [f32], out: &'a mut [f32] },
    /// `weight · ([i = action] − p_i)`, added to `grad`.
    LogpGrad { logits: &'a [f32], actions: &'a [u32], weight: &'a [f32], grad: &'a mut [f32] },
    /// `−weight · p_i (ln p_i + entropy)`, added to `grad`.
    EntropyGrad { logits: &'a [f32], weight: &'a [f32], grad: &'a mut [f32] },
    /// Both gradients, added to `grad`.
    LogpAndEntropyGrad {
        logits: &'a [f32],
        actions: &'a [u32],
        logp_weight: &'a [f32],
        entropy_weight: &'a [f32],
        grad: &'a mut [f32],
    },
    /// All three gradients, added to `grad`, and the divergence of each row.
    LossGrad {
        q: &'a [f32],
        actions: &'a [u32],
        logp_weight: &'a [f32],
        entropy_weight: &'a [f32],
        p: &'a [f32],
        kl_weight: &'a [f32],
        kl: &'a mut [f32],
        grad: &'a mut [f32],
    },
    /// `weight · (q_i − p_i)`, added to `grad`.
    KlGradQ { p: &'a [f32], q: &'a [f32], weight: &'a [f32], grad: &'a mut [f32] },
}

impl Softmax<'_> {
    /// Computes it for rows of `n` logits.
    pub(crate) fn run(self, n: usize) {
        let (numbers, batches) = match &self {
            Self::Sample { logits, .. }
            | Self::Logp { logits, .. }
            | Self::Entropy { logits, .. }
            | Self::LogpAndEntropy { logits, .. }
            | Self::LogpAndEntropyGrad { logits, .. }
            | Self::LogpGrad { logits, .. }
            | Self::EntropyGrad { logits, .. } => (logits.len(), 1),
            Self::Kl { p, .. } | Self::KlGradQ { p, .. } => (p.len(), 2),
            Self::LossGrad { q, .. } => (q.len(), 2),
        };
        // One or two rows would leave most lanes idle; one at a time is faster, with the same bits.
        let alone = numbers <= 2 * n;
        let lanes = if alone { 1 } else { MOST };
        with_room(batches * ROOM * n * lanes, |room| {
            let run = Run { softmax: self, n, room };
            if alone { Scalar::new().vectorize(run) } else { Arch::new().dispatch(run) }
        });
    }
}

/// Scratch columns per action.
const ROOM: usize = 2;

/// Lends scratch memory, from the stack unless rows are very long. Zeroing it takes time, so short rows and
/// single rows get less.
fn with_room(len: usize, body: impl FnOnce(&mut [f32])) {
    const TINY: usize = 32 * ROOM;
    const SMALL: usize = 8 * ROOM * MOST;
    const LARGE: usize = 128 * ROOM * MOST;
    if len <= TINY {
        body(&mut [0.0; TINY][..len]);
    } else if len <= SMALL {
        body(&mut [0.0; SMALL][..len]);
    } else if len <= LARGE {
        body(&mut [0.0; LARGE][..len]);
    } else {
        body(&mut vec![0.0; len]);
    }
}

struct Run<'a> {
    softmax: Softmax<'a>,
    n: usize,
    room: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { softmax, n, room } = self;
        match softmax {
            Softmax::Sample { logits, rng, actions, logp } => sample(simd, n, room, logits, rng, actions, logp),
            Softmax::Logp { logits, actions, out } => logp(simd, n, room, logits, actions, out),
            Softmax::Entropy { logits, out } => entropy(simd, n, room, logits, out),
            Softmax::LogpAndEntropy { logits, actions, logp, entropy } => {
                logp_and_entropy(simd, n, room, logits, actions, logp, entropy);
            }
            Softmax::LogpAndEntropyGrad { logits, actions, logp_weight, entropy_weight, grad } => {
                let weights = (logp_weight, entropy_weight);
                logp_and_entropy_grad(simd, n, room, logits, actions, weights, grad);
            }
            Softmax::LossGrad { q, actions, logp_weight, entropy_weight, p, kl_weight, kl, grad } => {
                let weights = (logp_weight, entropy_weight, kl_weight);
                loss_grad(simd, n, room, (p, q), actions, weights, (kl, grad));
            }
            Softmax::Kl { p, q, out } => kl(simd, n, room, p, q, out),
            Softmax::LogpGrad { logits, actions, weight, grad } => {
                logp_grad(simd, n, room, logits, actions, weight, grad);
            }
            Softmax::EntropyGrad { logits, weight, grad } => entropy_grad(simd, n, room, logits, weight, grad),
            Softmax::KlGradQ { p, q, weight, grad } => kl_grad_q(simd, n, room, p, q, weight, grad),
        }
    }
}

#[inline(always)]
fn sample<S: Simd>(
    simd: S,
    n: usize,
    room: &mut [f32],
    logits: &[f32],
    rng: &mut Rng,
    actions: &mut [u32],
    logp: &mut [f32],
) {
    let rows = Lanes::<S>::COUNT;
    for ((logits, actions), logp) in logits.chunks(rows * n).zip(actions.chunks_mut(rows)).zip(logp.chunks_mut(rows)) {
        let group = Group::of(simd, logits, n, room);
        let uniform = Lanes::from_each(simd, |row| if row < actions.len() { rng.next_f32() } else { 0.0 });
        // These are the partial sums of `sum`, so a uniform number below 1 stops at or before the last
        // possible action; only NaN runs through. Partial sums never decrease, so the number of those not
        // above the goal is the index.
        let goal = uniform * group.sum;
        let (mut partial, mut index) = (Lanes::all(simd, 0.0), Lanes::all(simd, 0.0));
        for i in 0..n {
            partial = partial + group.weight(i);
            index = index + goal.not_below(partial);
        }
        let (index, ln_sum) = (index.each(), group.ln_sum.each());
        for (row, (action, logp)) in actions.iter_mut().zip(logp).enumerate() {
            let index = (index[row] as usize).min(n - 1);
            *action = index as u32;
            *logp = group.below_at(row, index) - ln_sum[row];
        }
    }
}

#[inline(always)]
fn logp<S: Simd>(simd: S, n: usize, room: &mut [f32], logits: &[f32], actions: &[u32], out: &mut [f32]) {
    let rows = Lanes::<S>::COUNT;
    for ((logits, actions), out) in logits.chunks(rows * n).zip(actions.chunks(rows)).zip(out.chunks_mut(rows)) {
        Group::of(simd, logits, n, room).write_logp(actions, out);
    }
}

#[inline(always)]
fn entropy<S: Simd>(simd: S, n: usize, room: &mut [f32], logits: &[f32], out: &mut [f32]) {
    let rows = Lanes::<S>::COUNT;
    for (logits, out) in logits.chunks(rows * n).zip(out.chunks_mut(rows)) {
        Group::of(simd, logits, n, room).write_entropy(out);
    }
}

#[inline(always)]
fn logp_and_entropy<S: Simd>(
    simd: S,
    n: usize,
    room: &mut [f32],
    logits: &[f32],
    actions: &[u32],
    logp: &mut [f32],
    entropy: &mut [f32],
) {
    let rows = Lanes::<S>::COUNT;
    let given = logits.chunks(rows * n).zip(actions.chunks(rows));
    for ((logits, actions), (logp, entropy)) in given.zip(logp.chunks_mut(rows).zip(entropy.chunks_mut(rows))) {
        let group = Group::of(simd, logits, n, room);
        group.write_logp(actions, logp);
        group.write_entropy(entropy);
    }
}

#[inline(always)]
fn kl<S: Simd>(simd: S, n: usize, room: &mut [f32], p: &[f32], q: &[f32], out: &mut [f32]) {
    let rows = Lanes::<S>::COUNT;
    let (p_room, q_room) = room.split_at_mut(room.len() / 2);
    for ((p, q), out) in p.chunks(rows * n).zip(q.chunks(rows * n)).zip(out.chunks_mut(rows)) {
        Group::of(simd, p, n, p_room).write_kl(&Group::of(simd, q, n, q_room), out);
    }
}

#[inline(always)]
fn logp_grad<S: Simd>(
    simd: S,
    n: usize,
    room: &mut [f32],
    logits: &[f32],
    actions: &[u32],
    weight: &[f32],
    grad: &mut [f32],
) {
    let rows = Lanes::<S>::COUNT;
    let given = logits.chunks(rows * n).zip(actions.chunks(rows)).zip(weight.chunks(rows));
    for (((logits, actions), weight), grad) in given.zip(grad.chunks_mut(rows * n)) {
        Group::of(simd, logits, n, room).add_logp_grad(actions, weight, grad);
    }
}

#[inline(always)]
fn entropy_grad<S: Simd>(simd: S, n: usize, room: &mut [f32], logits: &[f32], weight: &[f32], grad: &mut [f32]) {
    let rows = Lanes::<S>::COUNT;
    let given = logits.chunks(rows * n).zip(weight.chunks(rows));
    for ((logits, weight), grad) in given.zip(grad.chunks_mut(rows * n)) {
        Group::of(simd, logits, n, room).add_entropy_grad(weight, grad);
    }
}

#[inline(always)]
fn logp_and_entropy_grad<S: Simd>(
    simd: S,
    n: usize,
    room: &mut [f32],
    logits: &[f32],
    actions: &[u32],
    (logp_weight, entropy_weight): (&[f32], &[f32]),
    grad: &mut [f32],
) {
    let rows = Lanes::<S>::COUNT;
    let weights = logp_weight.chunks(rows).zip(entropy_weight.chunks(rows));
    let given = logits.chunks(rows * n).zip(actions.chunks(rows)).zip(weights);
    for (((logits, actions), (logp_weight, entropy_weight)), grad) in given.zip(grad.chunks_mut(rows * n)) {
        let group = Group::of(simd, logits, n, room);
        group.add_logp_grad(actions, logp_weight, grad);
        group.add_entropy_grad(entropy_weight, grad);
    }
}

#[inline(always)]
fn kl_grad_q<S: Simd>(simd: S, n: usize, room: &mut [f32], p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) {
    let rows = Lanes::<S>::COUNT;
    let (p_room, q_room) = room.split_at_mut(room.len() / 2);
    let given = p.chunks(rows * n).zip(q.chunks(rows * n)).zip(weight.chunks(rows));
    for (((p, q), weight), grad) in given.zip(grad.chunks_mut(rows * n)) {
        Group::of(simd, p, n, p_room).add_kl_grad(&Group::of(simd, q, n, q_room), weight, grad);
    }
}

#[inline(always)]
fn loss_grad<S: Simd>(
    simd: S,
    n: usize,
    room: &mut [f32],
    (p, q): (&[f32], &[f32]),
    actions: &[u32],
    (logp_weight, entropy_weight, kl_weight): (&[f32], &[f32], &[f32]),
    (kl, grad): (&mut [f32], &mut [f32]),
) {
    let rows = Lanes::<S>::COUNT;
    let (p_room, q_room) = room.split_at_mut(room.len() / 2);
    let weights = logp_weight.chunks(rows).zip(entropy_weight.chunks(rows)).zip(kl_weight.chunks(rows));
    let given = p.chunks(rows * n).zip(q.chunks(rows * n)).zip(actions.chunks(rows)).zip(weights);
    for ((((p, q), actions), ((logp_weight, entropy_weight), kl_weight)), (kl, grad)) in
        given.zip(kl.chunks_mut(rows).zip(grad.chunks_mut(rows * n)))
    {
        let (p, q) = (Group::of(simd, p, n, p_room), Group::of(simd, q, n, q_room));
        q.add_logp_grad(actions, logp_weight, grad);
        q.add_entropy_grad(entropy_weight, grad);
        p.write_kl(&q, kl);
        p.add_kl_grad(&q, kl_weight, grad);
    }
}

/// Adds a column to what rows of `n` numbers have for action `i`.
#[inline(always)]
fn add_column<S: Simd>(column: Lanes<S>, i: usize, n: usize, rows: &mut [f32]) {
    for (row, term) in rows.chunks_exact_mut(n).zip(column.each()) {
        row[i] += term;
    }
}

/// A group of rows. Lanes beyond the last row repeat it.
struct Group<'r, S: Simd> {
    simd: S,
    n: usize,
    /// A column per action: its logit minus the row's highest.
    below: &'r [f32],
    /// A column per action: `exp(below)`, the unnormalised probability.
    weights: &'r [f32],
    /// The sum of a row's weights, at least 1, so its logarithm is safe.
    sum: Lanes<S>,
    ln_sum: Lanes<S>,
}

impl<'r, S: Simd> Group<'r, S> {
    #[inline(always)]
    fn of(simd: S, logits: &[f32], n: usize, room: &'r mut [f32]) -> Self {
        let lanes = Lanes::<S>::COUNT;
        let (below, weights) = room.split_at_mut(room.len() / ROOM);
        let last = logits.len() / n - 1;
        let mut rows: [&[f32]; MOST] = [&[]; MOST];
        for (row, place) in rows.iter_mut().enumerate().take(lanes) {
            *place = &logits[row.min(last) * n..][..n];
        }
        // The comparison drops NaN; the sum brings it back.
        let mut highest = Lanes::all(simd, f32::NEG_INFINITY);
        for (i, below) in below.chunks_exact_mut(lanes).enumerate().take(n) {
            let column = Lanes::from_each(simd, |row| rows[row][i]);
            column.write(below);
            highest = highest.or_greater(column);
        }
        let mut sum = Lanes::all(simd, 0.0);
        for (below, weights) in below.chunks_exact_mut(lanes).zip(weights.chunks_exact_mut(lanes)).take(n) {
            let column = Lanes::of(simd, below) - highest;
            column.write(below);
            let weight = column.exp();
            weight.write(weights);
            sum = sum + weight;
        }
        Self { simd, n, below, weights, sum, ln_sum: sum.ln() }
    }

    #[inline(always)]
    fn below(&self, i: usize) -> Lanes<S> {
        Lanes::of(self.simd, &self.below[i * Lanes::<S>::COUNT..])
    }

    #[inline(always)]
    fn below_at(&self, row: usize, i: usize) -> f32 {
        self.below[i * Lanes::<S>::COUNT + row]
    }

    #[inline(always)]
    fn weight(&self, i: usize) -> Lanes<S> {
        Lanes::of(self.simd, &self.weights[i * Lanes::<S>::COUNT..])
    }

    /// The log-probabilities of the rows' actions.
    #[inline(always)]
    fn write_logp(&self, actions: &[u32], out: &mut [f32]) {
        let ln_sum = self.ln_sum.each();
        for (row, (&action, out)) in actions.iter().zip(out).enumerate() {
            *out = self.below_at(row, action as usize) - ln_sum[row];
        }
    }

    #[inline(always)]
    fn add_logp_grad(&self, actions: &[u32], weight: &[f32], grad: &mut [f32]) {
        let action = Lanes::from_each(self.simd, |row| actions.get(row).map_or(0.0, |&action| action as f32));
        let (weight, scale) = (Lanes::padded(self.simd, weight), Lanes::all(self.simd, 1.0) / self.sum);
        for i in 0..self.n {
            let chosen = action.ones_where(i as f32);
            add_column(weight * (chosen - self.weight(i) * scale), i, self.n, grad);
        }
    }

    #[inline(always)]
    fn write_entropy(&self, out: &mut [f32]) {
        out.copy_from_slice(&self.entropy().each()[..out.len()]);
    }

    #[inline(always)]
    fn add_entropy_grad(&self, weight: &[f32], grad: &mut [f32]) {
        let offset = self.entropy() - self.ln_sum;
        let scale = Lanes::padded(self.simd, weight) / self.sum * -1.0;
        for i in 0..self.n {
            let share = self.weight(i).share_of(self.below(i) + offset);
            add_column(scale * share, i, self.n, grad);
        }
    }

    /// The divergence from these rows to those of `q`.
    #[inline(always)]
    fn write_kl(&self, q: &Group<'_, S>, out: &mut [f32]) {
        let mut total = Lanes::all(self.simd, 0.0);
        for i in 0..self.n {
            let log_ratio = (self.below(i) - self.ln_sum) - (q.below(i) - q.ln_sum);
            total = total + self.weight(i).share_of(log_ratio);
        }
        out.copy_from_slice(&(total / self.sum).each()[..out.len()]);
    }

    #[inline(always)]
    fn add_kl_grad(&self, q: &Group<'_, S>, weight: &[f32], grad: &mut [f32]) {
        let (weight, one) = (Lanes::padded(self.simd, weight), Lanes::all(self.simd, 1.0));
        let (p_scale, q_scale) = (one / self.sum, one / q.sum);
        for i in 0..self.n {
            add_column(weight * (q.weight(i) * q_scale - self.weight(i) * p_scale), i, self.n, grad);
        }
    }

    /// `ln sum − Σ p_i below_i`: both terms are non-negative, so nothing cancels.
    #[inline(always)]
    fn entropy(&self) -> Lanes<S> {
        let mut total = Lanes::all(self.simd, 0.0);
        for i in 0..self.n {
            total = total + self.weight(i).share_of(self.below(i));
        }
        self.ln_sum - total / self.sum
    }
}
