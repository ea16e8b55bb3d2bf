//! The interface of models on candle's tensors.

use candle_core::{Device, Result, Tensor};
use candle_nn::rnn::LSTMState;
use candle_nn::{LSTM, RNN};

use super::layers::unstack;
use crate::Memory;

/// Your own model, made of modules of `candle_nn` and operations of candle.
///
/// [`CandleNetwork::with_model`](crate::CandleNetwork::with_model) turns a function that builds it from a
/// `VarBuilder` into a [`Network`](crate::Network), and calls that function again whenever the weights
/// change. So a model may cache tensors computed from its parameters, but nothing from batches.
///
/// ```
/// use candle_core::{Device, Result};
/// use candle_nn::{Linear, Module, VarBuilder, linear};
/// use pronk_policy::{CandleInput, CandleModel, CandleNetwork, CandleOutput, NetworkShape, Space};
///
/// /// One hidden layer, with a head for the logits and one for the value.
/// struct Small {
///     hidden: Linear,
///     policy: Linear,
///     value: Linear,
/// }
///
/// impl Small {
///     fn new(vb: VarBuilder) -> Result<Self> {
///         Ok(Self {
///             hidden: linear(4, 8, vb.pp("hidden"))?,
///             policy: linear(8, 2, vb.pp("policy"))?,
///             value: linear(8, 1, vb.pp("value"))?,
///         })
///     }
/// }
///
/// impl CandleModel for Small {
///     fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
///         let x = self.hidden.forward(&input.obs)?.tanh()?;
///         Ok(CandleOutput {
///             logits: self.policy.forward(&x)?,
///             values: self.value.forward(&x)?.squeeze(1)?,
///             state: None,
///         })
///     }
/// }
///
/// let shape = NetworkShape { obs: Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, dist_len: 2, state_len: 0 };
/// let network = CandleNetwork::with_model(shape, Device::Cpu, Small::new)?;
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub trait CandleModel: Send {
    /// The outputs for a batch of at least one row.
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput>;
}

/// The input of a model.
pub struct CandleInput {
    /// The observations as floats, `[rows, …]` with the shape of the observation space; bytes are scaled by
    /// their bounds, from 0 to 1.
    pub obs: Tensor,
    /// The recurrent state; `None` for a feed-forward network.
    pub memory: Option<CandleMemory>,
}

/// The state before the first step, and starts of episodes.
pub struct CandleMemory {
    /// The state before the first step, `[columns, state_len]`, without gradient.
    pub state: Tensor,
    /// The number of steps; the rows of the input are `[steps, columns]`.
    pub steps: usize,
    /// The number of columns.
    pub columns: usize,
    /// For each step, whether an episode starts in any column.
    has_start: Vec<bool>,
    /// Rows that start an episode, `[steps, columns, 1]`.
    starts: Tensor,
}

impl CandleMemory {
    pub(super) fn upload(memory: Memory<'_>, rows: usize, state_len: usize, device: &Device) -> Result<Self> {
        let columns = memory.columns(state_len);
        let steps = rows.checked_div(columns).unwrap_or(0);
        let bytes: Vec<u8> = memory.starts.iter().map(|&start| start.into()).collect();
        Ok(Self {
            state: Tensor::from_slice(memory.state, (columns, state_len), device)?,
            steps,
            columns,
            has_start: memory.starts.chunks(columns.max(1)).map(|starts| starts.contains(&true)).collect(),
            starts: Tensor::from_vec(bytes, (steps, columns, 1), device)?,
        })
    }

    /// The state `[columns, any]` at the start of `step`: zero, without gradient, in columns where the step
    /// starts an episode.
    pub fn before_step(&self, step: usize, state: &Tensor) -> Result<Tensor> {
        // Most steps start no episode, and copying the state would cost as much as the step.
        if !self.has_start[step] {
            return Ok(state.clone());
        }
        let starts = self.starts.get(step)?.broadcast_as(state.shape())?.contiguous()?;
        starts.where_cond(&state.zeros_like()?, state)
    }

    /// Runs an LSTM over the steps from `state`. Returns its outputs for all rows, and its state after the
    /// last step.
    ///
    /// *Shapes*: `x` is `[rows, inputs]`, the outputs are `[rows, width]`, both states `[columns, 2 width]`:
    /// the hidden state, then the cell. A model with one LSTM has a `state_len` of twice its width, and
    /// passes [`state`](Self::state).
    ///
    /// ```
    /// use candle_core::{Device, Result};
    /// use candle_nn::{LSTM, LSTMConfig, Linear, Module, VarBuilder, linear, lstm};
    /// use pronk_policy::{CandleInput, CandleModel, CandleNetwork, CandleOutput, NetworkShape, Space};
    ///
    /// struct Recurrent {
    ///     core: LSTM,
    ///     policy: Linear,
    ///     value: Linear,
    /// }
    ///
    /// impl Recurrent {
    ///     fn new(vb: VarBuilder) -> Result<Self> {
    ///         Ok(Self {
    ///             core: lstm(4, 16, LSTMConfig::default(), vb.pp("core"))?,
    ///             policy: linear(16, 2, vb.pp("policy"))?,
    ///             value: linear(16, 1, vb.pp("value"))?,
    ///         })
    ///     }
    /// }
    ///
    /// impl CandleModel for Recurrent {
    ///     fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
    ///         let Some(memory) = &input.memory else { candle_core::bail!("this model needs a state") };
    ///         let (x, state) = memory.run_lstm(&self.core, &input.obs, &memory.state)?;
    ///         Ok(CandleOutput {
    ///             logits: self.policy.forward(&x)?,
    ///             values: self.value.forward(&x)?.squeeze(1)?,
    ///             state: Some(state),
    ///         })
    ///     }
    /// }
    ///
    /// let shape = NetworkShape { obs: Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, dist_len: 2, state_len: 32 };
    /// let network = CandleNetwork::with_model(shape, Device::Cpu, Recurrent::new)?;
    /// # Ok::<(), pronk_policy::PolicyError>(())
    /// ```
    pub fn run_lstm(&self, lstm: &LSTM, x: &Tensor, state: &Tensor) -> Result<(Tensor, Tensor)> {
        let width = state.dim(1)? / 2;
        let half = |i: usize| state.narrow(1, i * width, width)?.contiguous();
        let mut state = LSTMState::new(half(0)?, half(1)?);
        let mut outputs = Vec::with_capacity(self.steps);
        for (step, x) in unstack(&x.reshape((self.steps, self.columns, ()))?)?.iter().enumerate() {
            let before = LSTMState::new(self.before_step(step, &state.h)?, self.before_step(step, &state.c)?);
            state = lstm.step(x, &before)?;
            outputs.push(state.h.clone());
        }
        Ok((Tensor::cat(&outputs, 0)?, Tensor::cat(&[state.h, state.c], 1)?))
    }
}

/// The outputs of a model for a batch.
pub struct CandleOutput {
    /// The inputs of the action distribution, `[rows, dist_len]`.
    pub logits: Tensor,
    /// The values, `[rows]`.
    pub values: Tensor,
    /// The recurrent state after the last step, `[columns, state_len]`; `None` for a feed-forward model.
    pub state: Option<Tensor>,
}
