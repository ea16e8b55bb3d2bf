//! The network on candle's tensors and automatic differentiation.

mod linear;
mod plan;

use std::sync::Arc;

use candle_core::{CpuStorage, Device, Storage, Tensor};

use self::plan::{Plan, Weights};
use crate::error::check_len;
use crate::{
    Input, Network, NetworkShape, NetworkSpec, ObsRef, OutputGrads, Outputs, ParamLayout, Params, PolicyError,
};

/// A [`Network`] on any candle device: the reference that every other implementation must agree with.
///
/// *Threads*: on the CPU everything runs on the calling thread, as long as no layer has 65,536 weights or more. Workers
/// and learner are threads already, and candle's own pool is shared by the whole process: two threads that enter it at
/// once wait for each other and become slower than one. So batches are cut into pieces of a fixed size that stay below
/// candle's threshold, and matrix products never leave the thread.
///
/// *Memory*: `forward_for_learning` keeps the batch's activations until `backward`.
///
/// ```
/// use pronk_policy::{CandleNetwork, Input, Network, NetworkSpec, ObsRef, Outputs, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let params = spec.init_params(0)?;
/// let mut network = CandleNetwork::cpu(spec)?;
///
/// let mut out = Outputs::default();
/// network.forward(&params, &Input::new(ObsRef::F32(&[0.1; 3 * 4]), 3), &mut out)?;
/// assert_eq!((out.logits.len(), out.values.len()), (3 * 2, 3));
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub struct CandleNetwork {
    shape: NetworkShape,
    layout: Arc<ParamLayout>,
    device: Device,
    plan: Plan,
    /// The most rows that go through the network at once.
    piece_rows: usize,
    acting: Option<Weights>,
    learning: Option<Weights>,
    kept: Option<Kept>,
}

/// What `backward` needs from `forward_for_learning`.
struct Kept {
    stamp: u64,
    rows: usize,
    /// For each piece, its rows and the head of each tower with the graph behind it.
    pieces: Vec<(usize, Vec<Tensor>)>,
}

impl CandleNetwork {
    /// Builds the network on a device.
    pub fn new(spec: NetworkSpec, device: Device) -> Result<Self, PolicyError> {
        let layout = Arc::new(spec.layout()?);
        let plan = Plan::new(&spec, &layout)?;
        let piece_rows = match PIECE_NUMBERS / plan.widest {
            _ if !device.is_cpu() => usize::MAX,
            // Never less than a row, and whole registers of rows when there are many.
            rows @ 0..16 => rows.max(1),
            rows => rows / 16 * 16,
        };
        Ok(Self { shape: spec.shape(), layout, device, plan, piece_rows, acting: None, learning: None, kept: None })
    }

    /// Builds the network on the CPU.
    pub fn cpu(spec: NetworkSpec) -> Result<Self, PolicyError> {
        Self::new(spec, Device::Cpu)
    }

    fn check(&self, params: &Params, input: &Input<'_>) -> Result<(), PolicyError> {
        plan::check_layout(&self.layout, params.layout())?;
        input.check(&self.shape)
    }

    /// The pieces of a batch: first row and number of rows.
    fn pieces(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let piece_rows = self.piece_rows;
        (0..rows).step_by(piece_rows).map(move |start| (start, piece_rows.min(rows - start)))
    }
}

/// How many numbers one activation of a piece may have. Below 32,768 (128 KiB), glibc's malloc would map and unmap pages
/// for every tensor beyond it; below 65,536, where candle turns to its thread pool; and small enough that the dozen
/// tensors of a layer's backward pass stay in a core's cache.
const PIECE_NUMBERS: usize = 16 * 1024;

impl Network for CandleNetwork {
    fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.check(params, input)?;
        out.resize_for(input, &self.shape);
        let fail = failed_while("acting");
        let pieces = self.pieces(input.rows);
        let weights = self.plan.upload_for_acting(params, &self.device, &mut self.acting).map_err(fail)?;
        for (start, rows) in pieces {
            let obs = piece_of(input, start, rows, &self.device).map_err(fail)?;
            for (tower, weights) in self.plan.towers.iter().zip(&weights.towers) {
                let head = tower.act(weights, obs.clone()).map_err(fail)?;
                read(&head, |head| tower.split(head, start, out)).map_err(fail)?;
            }
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
        let fail = failed_while("running forward for learning");
        let pieces = self.pieces(input.rows);
        let weights = self.plan.upload_for_learning(params, &self.device, &mut self.learning).map_err(fail)?;
        let mut kept =
            Kept { stamp: params.stamp(), rows: input.rows, pieces: Vec::with_capacity(pieces.size_hint().0) };
        for (start, rows) in pieces {
            let obs = piece_of(input, start, rows, &self.device).map_err(fail)?;
            let mut heads = Vec::with_capacity(self.plan.towers.len());
            for (tower, weights) in self.plan.towers.iter().zip(&weights.towers) {
                let head = tower.learn(weights, obs.clone()).map_err(fail)?;
                read(&head, |head| tower.split(head, start, out)).map_err(fail)?;
                heads.push(head);
            }
            kept.pieces.push((rows, heads));
        }
        self.kept = Some(kept);
        Ok(())
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("parameter gradient", self.layout.len(), grad.len())?;
        let refuse = |reason: String| Err(PolicyError::NothingToDifferentiate { reason });
        let (Some(kept), Some(weights)) = (self.kept.take(), &self.learning) else {
            return refuse("there was none, or its result was used up".into());
        };
        if kept.stamp != params.stamp() {
            return refuse("the parameters have changed since".into());
        }
        if grads.values.len() != kept.rows {
            return refuse(format!("it saw {} rows, the gradient has {}", kept.rows, grads.values.len()));
        }
        check_len("gradient of the logits", kept.rows * self.shape.dist_len, grads.logits.len())?;

        let fail = failed_while("running backward");
        grad.fill(0.0);
        // Piece by piece in row order: sums of floats depend on their order, and the same calls must give the same bits.
        let mut start = 0;
        for (rows, heads) in kept.pieces {
            for ((tower, weights), head) in self.plan.towers.iter().zip(&weights.towers).zip(heads) {
                let head_grad = tower.join(grads, start, rows);
                tower.backward(weights, head, head_grad, grad).map_err(fail)?;
            }
            start += rows;
        }
        Ok(())
    }
}

fn failed_while(doing: &'static str) -> impl Fn(candle_core::Error) -> PolicyError + Copy {
    move |source| PolicyError::Tensor { doing, source }
}

/// Some rows of the observations as a tensor of floats.
fn piece_of(input: &Input<'_>, start: usize, rows: usize, device: &Device) -> candle_core::Result<Tensor> {
    let width = input.obs.len() / input.rows;
    let numbers = start * width..(start + rows) * width;
    match input.obs {
        ObsRef::F32(obs) => Tensor::from_slice(&obs[numbers], (rows, width), device),
        ObsRef::U8(obs) => {
            let scaled = obs[numbers].iter().map(|&byte| f32::from(byte) * (1.0 / 255.0));
            Tensor::from_vec(scaled.collect(), (rows, width), device)
        }
    }
}

/// Shows a tensor's numbers, without a copy if they lie in main memory.
fn read<R>(tensor: &Tensor, look: impl FnOnce(&[f32]) -> R) -> candle_core::Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(numbers)), Some((start, end))) => Ok(look(&numbers[start..end])),
        _ => {
            // Reading it in another way takes the same lock.
            drop(storage);
            Ok(look(&tensor.flatten_all()?.to_vec1()?))
        }
    }
}

#[cfg(test)]
mod tests;
