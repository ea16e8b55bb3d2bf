//! The network for the CPU.

mod conv;
mod dense;
mod helping;
mod image_layout;
mod images;
mod lstm;
mod micro_batch;
mod observations;
mod packed;
mod packing;
mod residual;
mod share;
mod sharing;
mod tower;
mod weights;

use std::num::NonZeroUsize;
use std::sync::Arc;

pub use self::helping::{Helper, Helpers};

use self::micro_batch::MicroBatch;
use self::observations::Reading;
use self::packing::Packing;
use self::share::{Layers, Pass, Share};
use self::sharing::{Next, Returns};
use self::tower::{Keep, Scratch, Tower};
use self::weights::Weights;
use crate::error::{check_len, panic_text};
use crate::network::Kept;
use crate::params::check_layout;
use crate::sync;
use crate::{
    Input, Network, NetworkShape, NetworkSpec, OutputGrads, Outputs, ParamLayout, Params, PolicyError, Precision,
};

/// A [`Network`] for the CPU, for every [`NetworkSpec`]: forward and backward written as matrix products that
/// use what the processor has, chosen at run time.
///
/// *Threads*: acting uses the calling thread, learning its [`Helpers`] too; results are bit-identical for any
/// number of threads.
///
/// *Batches*: the outputs of a row are bit-identical whatever rows are computed with it, and the same acting
/// and learning; another set of instructions may differ in the last bits.
///
/// *Memory*: buffers for observations and activations are reused, so a steady run allocates nothing.
///
/// *Agreement*: with [`CandleNetwork`](crate::CandleNetwork) to about 1e-6 in [`Precision::F32`], outputs and
/// gradients.
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
    helpers: Helpers,
    returns: Returns<Share>,
    shares: Vec<Share>,
    /// Shares of larger batches, kept for their allocations, the first on top.
    spare: Vec<Share>,
    kept: Option<Kept>,
}

/// The maximal number of shares, and so of threads. Each has its own gradient.
const SHARES: usize = 16;

/// The maximal number of a micro-batch's activations in its widest layer: with its neighbours and their
/// gradients it fits the L2 cache.
const PIECE_NUMBERS: usize = 16 * 1024;

/// Images of a micro-batch, which pass the convolutions one by one and the dense layers together: 64, and the
/// rows that only bootstrap, one for each column of 16 steps.
const PIECE_IMAGES: usize = 68;

impl CpuNetwork {
    /// Builds the network for the calling thread.
    pub fn new(spec: &NetworkSpec) -> Result<Self, PolicyError> {
        Self::with_threads(spec, NonZeroUsize::MIN)
    }

    /// Builds the network with this many threads for learning, including the calling one. A batch has a share
    /// per 256 rows or 68 images, fewer rows for wide layers, and at most 16; more threads idle.
    pub fn with_threads(spec: &NetworkSpec, threads: NonZeroUsize) -> Result<Self, PolicyError> {
        let helpers = threads.get().min(SHARES) - 1;
        Self::with_helpers(spec, Helpers::new(helpers, helpers)?)
    }

    /// Builds the network for the calling thread and these helpers, as [`with_threads`](Self::with_threads).
    pub fn with_helpers(spec: &NetworkSpec, helpers: Helpers) -> Result<Self, PolicyError> {
        Self::with_precision(spec, Precision::F32, helpers)
    }

    /// Builds the network for products of this precision, as [`with_helpers`](Self::with_helpers).
    pub fn with_precision(spec: &NetworkSpec, precision: Precision, helpers: Helpers) -> Result<Self, PolicyError> {
        let layout = Arc::new(spec.layout()?);
        let mut packing = Packing::new(precision);
        let (obs_len, state_len) = (spec.obs.obs_len(), spec.state_len());
        let towers = spec.towers();
        let towers = towers.iter().map(|tower| Tower::new(tower, obs_len, &layout, &mut packing));
        let towers = towers.collect::<Result<Vec<_>, _>>()?;
        let images = towers.iter().any(Tower::has_images);
        let widest = towers.iter().map(Tower::widest).max().unwrap_or(1);
        let piece_rows = if images { PIECE_IMAGES } else { (PIECE_NUMBERS / widest).clamp(16, 256) };
        let reading = Reading { obs_len, images, byte_scale: spec.obs.byte_scale() };
        let layers = Layers { towers, packing, reading, state_len, piece_rows };
        Ok(Self {
            shape: spec.shape(),
            layout,
            layers: Arc::new(layers),
            acting: Weights::default(),
            acting_piece: MicroBatch::default(),
            acting_scratch: Scratch::default(),
            learning: Arc::default(),
            helpers,
            returns: Returns::new(SHARES),
            shares: Vec::with_capacity(SHARES),
            spare: Vec::with_capacity(SHARES),
            kept: None,
        })
    }

    fn check(&self, params: &Params, input: &Input<'_>) -> Result<(), PolicyError> {
        check_layout(&self.layout, params.layout())?;
        input.check_shared(&self.shape)
    }

    /// Runs one pass over all shares on the thread pool.
    fn run(&mut self, pass: Pass) -> Result<(), PolicyError> {
        let next = match pass {
            Pass::Forward => Next::Soon,
            Pass::Backward => Next::Later,
        };
        for share in &mut self.shares {
            let (layers, weights) = (Arc::clone(&self.layers), Arc::clone(&self.learning));
            share.give(pass, layers, weights);
        }
        self.helpers.0.run(&mut self.shares, next, &mut self.returns)
    }

    /// Copies the batch into the micro-batches of the shares.
    fn share_out(&mut self, input: &Input<'_>) {
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
                piece.load(input, span, &self.layers.reading, self.layers.state_len);
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

    fn reads_shared_rows(&self) -> bool {
        true
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.check(params, input)?;
        out.resize_for(input, &self.shape);
        let Layers { towers, packing, reading, state_len, .. } = &*self.layers;
        let weights = if self.learning.is_of(params) {
            &*self.learning
        } else {
            self.acting.update(packing, params);
            &self.acting
        };
        for span in self.layers.spans(input).iter() {
            self.acting_piece.load(input, span, reading, *state_len);
            self.acting_piece.forward(towers, weights, Keep::Outputs, &mut self.acting_scratch);
            self.acting_piece.put_outputs(out);
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
            piece.put_outputs(out);
        }
        self.kept = Some(Kept::of(params, input));
        Ok(())
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("parameter gradient", self.layout.len(), grad.len())?;
        Kept::check(self.kept.take(), params, grads, &self.shape)?;
        for share in &mut self.shares {
            let used = share.used;
            share.pieces[..used].iter_mut().for_each(|piece| piece.take_grads(grads));
        }
        self.run(Pass::Backward)?;
        // In the order of the batch, not of completion, so that results do not depend on threads.
        self.layers.packing.unpack_sum(self.shares.iter().map(|share| share.grad.as_slice()), grad);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
