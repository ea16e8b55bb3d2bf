//! What a model on candle's tensors is to [`CandleNetwork`](crate::CandleNetwork).

use std::collections::BTreeMap;

use candle_core::{Device, Error, Result, Tensor};

use crate::{Memory, ParamLayout};

/// A network written with candle's operations. [`CandleNetwork::with_model`](crate::CandleNetwork::with_model) makes a
/// [`Network`](crate::Network) of it: candle's automatic differentiation finds the gradients.
///
/// A model holds no weights; it reads them by name. It may use whatever operations have a gradient in candle and run on
/// the device in question. Where a gradient is not wanted, `detach` cuts it off.
///
/// ```
/// use candle_core::Result;
/// use pronk_policy::{CandleInput, CandleModel, CandleOutput, CandleWeights, ParamLayout};
///
/// /// Logits and value straight from four numbers.
/// struct Linear;
///
/// impl CandleModel for Linear {
///     fn layout(&self) -> ParamLayout {
///         ParamLayout::new([("policy.weight", vec![4, 2]), ("value.weight", vec![4, 1])])
///     }
///
///     fn forward(&self, weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput> {
///         let logits = input.obs.matmul(weights.get("policy.weight")?)?;
///         let values = input.obs.matmul(weights.get("value.weight")?)?.squeeze(1)?;
///         Ok(CandleOutput { logits, values, state: None })
///     }
/// }
/// ```
pub trait CandleModel: Send {
    /// The names and shapes of its parameters; no two of one name.
    fn layout(&self) -> ParamLayout;

    /// What it says about a batch of at least one row.
    fn forward(&self, weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput>;
}

/// The parameters of a model as tensors on its device.
pub struct CandleWeights {
    tensors: BTreeMap<String, Tensor>,
}

impl CandleWeights {
    pub(super) fn new(tensors: BTreeMap<String, Tensor>) -> Self {
        Self { tensors }
    }

    /// The tensor of that name.
    ///
    /// *Errors*: the layout has no such name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| Error::Msg(format!("the layout of this model has no tensor `{name}`")))
    }
}

/// A batch as a model sees it.
pub struct CandleInput<'a> {
    /// The observations, `[rows, …]` with the shape of the observation space after the rows, as floats: bytes have been
    /// scaled by 1/255.
    pub obs: Tensor,
    /// What a recurrent model goes on from; nothing for one whose shape has no state.
    pub memory: Option<CandleMemory<'a>>,
}

/// The state before the first step, and where episodes start.
pub struct CandleMemory<'a> {
    /// The state before the first step, `[columns, state_len]`. No gradient goes there.
    pub state: Tensor,
    /// How many steps there are; the rows of the input are `[steps, columns]`.
    pub steps: usize,
    /// How many columns.
    pub columns: usize,
    /// Which rows start an episode, `[steps, columns]`.
    starts: &'a [bool],
    /// The same as bytes, `[steps, columns, 1]`.
    start_bytes: Tensor,
}

impl<'a> CandleMemory<'a> {
    pub(super) fn upload(memory: Memory<'a>, rows: usize, state_len: usize, device: &Device) -> Result<Self> {
        let columns = memory.columns(state_len);
        let steps = rows.checked_div(columns).unwrap_or(0);
        let bytes: Vec<u8> = memory.starts.iter().map(|&start| start.into()).collect();
        Ok(Self {
            state: Tensor::from_slice(memory.state, (columns, state_len), device)?,
            steps,
            columns,
            starts: memory.starts,
            start_bytes: Tensor::from_vec(bytes, (steps, columns, 1), device)?,
        })
    }

    /// A state as `step` sees it: zero in the columns where that step is the first of an episode, without a gradient to
    /// what was there.
    ///
    /// *Shapes*: `state` is `[columns, any]`.
    pub fn before_step(&self, step: usize, state: &Tensor) -> Result<Tensor> {
        if !self.starts[step * self.columns..(step + 1) * self.columns].contains(&true) {
            return Ok(state.clone());
        }
        let starts = self.start_bytes.get(step)?.broadcast_as(state.shape())?.contiguous()?;
        starts.where_cond(&state.zeros_like()?, state)
    }
}

/// What a model says about a batch.
pub struct CandleOutput {
    /// The inputs of the action distribution, `[rows, dist_len]`.
    pub logits: Tensor,
    /// The values, `[rows]`.
    pub values: Tensor,
    /// What a recurrent model remembers after the last step, `[columns, state_len]`.
    pub state: Option<Tensor>,
}
