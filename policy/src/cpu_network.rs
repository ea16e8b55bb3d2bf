//! The network for the CPU.

mod conv;
mod dense;
mod image_layout;
mod images;
mod lstm;
mod micro_batch;
mod observations;
mod packing;
mod residual;
mod thread_pool;
mod tower;
mod weights;

use std::num::NonZeroUsize;
use std::sync::Arc;

use self::micro_batch::MicroBatch;
use self::observations::Span;
use self::packing::Packing;
use self::thread_pool::{Job, ThreadPool};
use self::tower::{Keep, Scratch, Tower};
use self::weights::Weights;
use crate::error::check_len;
use crate::network::Kept;
use crate::ops::add;
use crate::params::check_layout;
use crate::{Input, Network, NetworkShape, NetworkSpec, OutputGrads, Outputs, ParamLayout, Params, PolicyError};

/// A [`Network`] for the CPU, for every [`NetworkSpec`]: forward and backward written as matrix products that
/// use what the processor has, chosen at run time.
///
/// *Threads*: acting uses the calling thread, learning the network's own [`CpuNetwork::with_threads`];
/// results are bit-identical for any number of threads.
///
/// *Batches*: the outputs of a row are bit-identical whatever rows are computed with it, and the same acting
/// and learning; another set of instructions may differ in the last bits.
///
/// *Memory*: buffers for observations and activations are reused, so a steady run allocates nothing.
///
/// *Agreement*: with [`CandleNetwork`](crate::CandleNetwork) to about 1e-6, outputs and gradients.
///
/// ```
/// use pronk_policy::{CpuNetwork, Input, Network, NetworkSpec, ObsRef, Outputs, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let params = spec.init_params(0)?;
/// let mut network = CpuNetwork::new(&spec)?;
///
/// let mut out = Outputs::default();
/// network.forward(&params, &Input::new(ObsRef::F32(&[0.1; 3 * 4]), 3), &mut out)?;
/// assert_eq!((out.logits.len(), out.values.len()), (3 * 2, 3));
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub struct CpuNetwork {
    shape: NetworkShape,
    layout: Arc<ParamLayout>,
    layers: Arc<Layers>,
    acting: Weights,
    acting_piece: MicroBatch,
    acting_scratch: Scratch,
    learning: Arc<Weights>,
    threads: ThreadPool<Share>,
    shares: Vec<Share>,
    /// Shares of larger batches, kept for their allocations, the first on top.
    spare: Vec<Share>,
    kept: Option<Kept>,
}

/// The layers of a network, the same for all threads.
#[derive(Debug)]
struct Layers {
    towers: Vec<Tower>,
    packing: Packing,
    obs_len: usize,
    state_len: usize,
    images: bool,
    /// Rows of a micro-batch.
    piece_rows: usize,
}

/// A share of a batch, the same for any number of threads: its micro-batches and the sum of their gradients.
#[derive(Default)]
struct Share {
    pieces: Vec<MicroBatch>,
    /// Micro-batches in use; the rest are from a larger batch.
    used: usize,
    grad: Vec<f32>,
    scratch: Scratch,
    /// The pending pass.
    task: Option<Task>,
}

/// A pass over a share, with its inputs.
struct Task {
    pass: Pass,
    layers: Arc<Layers>,
    weights: Arc<Weights>,
}

#[derive(Clone, Copy)]
enum Pass {
    Forward,
    Backward,
}

impl Job for Share {
    fn run(&mut self) {
        // Taken, so that the weights are released after the pass.
        let Some(Task { pass, layers, weights }) = self.task.take() else { return };
        let Share { pieces, used, grad, scratch, .. } = self;
        let pieces = &mut pieces[..*used];
        match pass {
            Pass::Forward => {
                pieces.iter_mut().for_each(|piece| piece.forward(&layers.towers, &weights, Keep::Everything, scratch));
            }
            Pass::Backward => {
                grad.clear();
                grad.resize(layers.packing.len(), 0.0);
                pieces.iter_mut().for_each(|piece| piece.backward(&layers.towers, &weights, grad, scratch));
            }
        }
    }
}

/// The maximal number of shares, and so of threads. Each has its own gradient.
const SHARES: usize = 16;

/// The maximal number of a micro-batch's activations in its widest layer: with its neighbours and their
/// gradients it fits the L2 cache.
const PIECE_NUMBERS: usize = 16 * 1024;

/// Rows of a micro-batch of images, which pass the convolutions one by one and the dense layers together.
const PIECE_IMAGES: usize = 64;

/// Columns of a recurrent micro-batch: every step reads all weights of the LSTM.
const PIECE_COLUMNS: usize = 16;

impl CpuNetwork {
    /// Builds the network for the calling thread.
    pub fn new(spec: &NetworkSpec) -> Result<Self, PolicyError> {
        Self::with_threads(spec, NonZeroUsize::MIN)
    }

    /// Builds the network with this many threads for learning, including the calling one. A batch has a share
    /// per 256 rows or 64 images, fewer rows for wide layers, and at most 16; more threads idle.
    pub fn with_threads(spec: &NetworkSpec, threads: NonZeroUsize) -> Result<Self, PolicyError> {
        let layout = Arc::new(spec.layout()?);
        let mut packing = Packing::default();
        let (obs_len, state_len) = (spec.obs.obs_len(), spec.state_len());
        let towers = spec.towers();
        let towers = towers.iter().map(|tower| Tower::new(tower, obs_len, &layout, &mut packing));
        let towers = towers.collect::<Result<Vec<_>, _>>()?;
        let images = towers.iter().any(Tower::has_images);
        let widest = towers.iter().map(Tower::widest).max().unwrap_or(1);
        let piece_rows = if images { PIECE_IMAGES } else { (PIECE_NUMBERS / widest).clamp(16, 256) };
        let layers = Layers { towers, packing, obs_len, state_len, images, piece_rows };
        Ok(Self {
            shape: spec.shape(),
            layout,
            layers: Arc::new(layers),
            acting: Weights::default(),
            acting_piece: MicroBatch::default(),
            acting_scratch: Scratch::default(),
            learning: Arc::default(),
            threads: ThreadPool::new(threads.get().min(SHARES), SHARES)?,
            shares: Vec::with_capacity(SHARES),
            spare: Vec::with_capacity(SHARES),
            kept: None,
        })
    }

    fn check(&self, params: &Params, input: &Input<'_>) -> Result<(), PolicyError> {
        check_layout(&self.layout, params.layout())?;
        input.check(&self.shape)
    }

    /// Runs one pass over all shares on the thread pool.
    fn run(&mut self, pass: Pass) -> Result<(), PolicyError> {
        for share in &mut self.shares {
            let (layers, weights) = (Arc::clone(&self.layers), Arc::clone(&self.learning));
            share.task = Some(Task { pass, layers, weights });
        }
        self.threads.run(&mut self.shares)
    }

    /// Copies the batch into the micro-batches of the shares.
    fn share_out(&mut self, input: &Input<'_>) {
        let Layers { obs_len, state_len, images, .. } = *self.layers;
        let spans = self.layers.spans(input);
        let pieces = spans.len();
        let shares = pieces.min(SHARES);
        while self.shares.len() > shares {
            self.spare.extend(self.shares.pop());
        }
        while self.shares.len() < shares {
            self.shares.push(self.spare.pop().unwrap_or_default());
        }
        let mut spans = spans.iter();
        for (i, share) in self.shares.iter_mut().enumerate() {
            share.used = pieces / shares + usize::from(i < pieces % shares);
            let most = share.pieces.len().max(share.used);
            share.pieces.resize_with(most, MicroBatch::default);
            for (piece, span) in share.pieces[..share.used].iter_mut().zip(spans.by_ref()) {
                piece.load(input, span, obs_len, state_len, images);
            }
        }
    }
}

/// The spans of a batch, one for each micro-batch.
#[derive(Clone, Copy)]
struct Spans {
    of: usize,
    steps: usize,
    columns: usize,
}

impl Spans {
    fn len(self) -> usize {
        self.of.div_ceil(self.columns)
    }

    fn iter(self) -> impl Iterator<Item = Span> {
        (0..self.len()).map(move |i| {
            let first_column = i * self.columns;
            let columns = self.columns.min(self.of - first_column);
            Span { first_column, columns, steps: self.steps, of: self.of }
        })
    }
}

impl Layers {
    /// Cuts a batch. The cuts depend on the batch alone, so that sums always have the same order.
    fn spans(&self, input: &Input<'_>) -> Spans {
        match input.memory {
            None => Spans { of: input.rows, steps: 1, columns: self.piece_rows },
            Some(memory) => {
                let of = memory.columns(self.state_len);
                let steps = input.rows.checked_div(of).unwrap_or(0);
                let columns = self.piece_rows.checked_div(steps).unwrap_or(1).max(PIECE_COLUMNS);
                Spans { of, steps, columns }
            }
        }
    }
}

impl Network for CpuNetwork {
    fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.check(params, input)?;
        out.resize_for(input, &self.shape);
        let Layers { towers, packing, obs_len, state_len, images, .. } = &*self.layers;
        let weights = if self.learning.is_of(params) {
            &*self.learning
        } else {
            self.acting.update(packing, params);
            &self.acting
        };
        for span in self.layers.spans(input).iter() {
            self.acting_piece.load(input, span, *obs_len, *state_len, *images);
            self.acting_piece.forward(towers, weights, Keep::Outputs, &mut self.acting_scratch);
            self.acting_piece.put_outputs(towers, out);
        }
        Ok(())
    }

    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError> {
        self.kept = None;
        self.check(params, input)?;
        out.resize_for(input, &self.shape);
        Arc::make_mut(&mut self.learning).update_backward(&self.layers.packing, params);
        self.share_out(input);
        self.run(Pass::Forward)?;
        for piece in self.shares.iter().flat_map(|share| &share.pieces[..share.used]) {
            piece.put_outputs(&self.layers.towers, out);
        }
        self.kept = Some(Kept::of(params, input));
        Ok(())
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("parameter gradient", self.layout.len(), grad.len())?;
        Kept::check(self.kept.take(), params, grads, &self.shape)?;
        for share in &mut self.shares {
            let used = share.used;
            share.pieces[..used].iter_mut().for_each(|piece| piece.take_grads(&self.layers.towers, grads));
        }
        self.run(Pass::Backward)?;
        // In the order of the batch, not of completion, so that results do not depend on threads.
        let Some((sum, others)) = self.shares.split_first_mut() else {
            grad.fill(0.0);
            return Ok(());
        };
        others.iter().for_each(|share| add(&share.grad, &mut sum.grad));
        self.layers.packing.unpack(&sum.grad, grad);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
