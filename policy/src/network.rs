//! [`Network`]: the interface of a policy and value network, slices in and slices out.

use std::sync::Arc;

use crate::error::check_len;
use crate::obs_ref::ObsRef;
use crate::{LoadedObs, ObsDtype, ObsLoader, ParamLayout, Params, PolicyError, Space};

/// A policy and value network: observations to the inputs of an action distribution and a value, and back.
///
/// Every call takes the weights as [`Params`], of which a network may cache copies by their stamp. Every
/// thread has its own network. A *recurrent* network takes its state as [`Memory`] and returns it as
/// [`Outputs::state`]; nothing else is kept between calls.
///
/// *Rows*, of which there may be none, are independent, except for the steps of a column of a recurrent
/// network. *NaN* propagates to the outputs; callers check.
///
/// *Errors*: slices of a wrong length or type, parameters of another layout, and failures of the device.
pub trait Network: Send {
    /// The sizes of inputs and outputs.
    fn shape(&self) -> &NetworkShape;

    /// The layout of its [`Params`].
    fn layout(&self) -> &Arc<ParamLayout>;

    /// Computes `out`, for acting.
    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError>;

    /// Computes `out` and keeps what [`Network::backward`] needs. Calls of [`Network::forward`] in between
    /// are allowed.
    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError>;

    /// Overwrites `grad`, in the layout of the parameters, with the gradient of a loss whose gradient with
    /// respect to the outputs is `grads`. In a recurrent network it reaches back to the start of an episode
    /// or batch.
    ///
    /// Call it once after `forward_for_learning` of the same parameters and rows. Equal calls give equal
    /// bits.
    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError>;

    /// The initial weights, if the network defines them; `None` leaves it to
    /// [`Init::params`](crate::Init::params). Equal seeds give equal bits.
    fn first_params(&self, seed: u64) -> Option<Params> {
        let _ = seed;
        None
    }

    /// Whether it reads observations by [`Input::row_starts`], and checks them by [`Input::check_shared`].
    /// Others get one row after another.
    fn reads_shared_rows(&self) -> bool {
        false
    }

    /// A loader of observations to the network's device; `None` if it reads them on the host.
    fn obs_loader(&self) -> Option<Arc<dyn ObsLoader>> {
        None
    }
}

/// The sizes of a [`Network`]'s inputs and outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkShape {
    /// The observation space.
    pub obs: Space,
    /// The number of inputs of the action distribution.
    pub dist_len: usize,
    /// The length of the recurrent state; 0 for a feed-forward network.
    pub state_len: usize,
}

/// Identifies the forward pass that `backward` differentiates: the batch's rows and the stamp of its
/// parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) rows: usize,
    pub(crate) stamp: u64,
}

impl Kept {
    pub(crate) fn of(params: &Params, input: &Input<'_>) -> Self {
        Self { rows: input.rows, stamp: params.stamp() }
    }

    /// Checks that `backward` may follow this forward pass.
    pub(crate) fn check(
        kept: Option<Self>,
        params: &Params,
        grads: &OutputGrads,
        shape: &NetworkShape,
    ) -> Result<(), PolicyError> {
        let refuse = |reason: String| Err(PolicyError::NothingToDifferentiate { reason });
        let Some(Self { rows, stamp }) = kept else {
            return refuse("there was none, or its result was used up".into());
        };
        if stamp != params.stamp() {
            return refuse("the parameters have changed since".into());
        }
        if grads.values.len() != rows {
            return refuse(format!("it saw {rows} rows, the gradient has {}", grads.values.len()));
        }
        check_len("gradient of the logits", rows * shape.dist_len, grads.logits.len())
    }
}

/// A batch of observations.
///
/// ```
/// use pronk_policy::{Input, Memory, ObsRef};
///
/// let obs = [0.0; 3 * 2 * 4];
/// let input = Input::new(ObsRef::F32(&obs), 6);
/// // The same rows as 3 steps of 2 columns, for a network with a recurrent state of 8 numbers. An episode starts in row 3: column 1
/// // of step 1.
/// let (state, starts) = ([0.0; 2 * 8], [false, false, false, true, false, false]);
/// let input = input.with_memory(Memory { state: &state, starts: &starts });
/// assert_eq!(input.memory.map(|memory| memory.columns(8)), Some(2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The observations, `[rows, obs_len]`; for a recurrent network time-major: row `step * columns +
    /// column`.
    pub obs: ObsRef<'a>,
    /// The number of rows.
    pub rows: usize,
    /// Where each row begins in `obs`, `[rows]`, if rows may have elements in common, as stacks of frames
    /// have; `None` if one follows another. Only networks that
    /// [read shared rows](Network::reads_shared_rows) get them.
    pub row_starts: Option<&'a [usize]>,
    /// The recurrent state; `None` for a feed-forward network.
    pub memory: Option<Memory<'a>>,
    /// The same observations on the network's device, if loaded ahead.
    pub loaded: Option<&'a LoadedObs>,
}

/// The recurrent state at the start of a batch, and the rows at which it is reset.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// The state before the first step, `[columns, state_len]`.
    pub state: &'a [f32],
    /// The first rows of episodes, `[steps, columns]`: the state before them is zero.
    pub starts: &'a [bool],
}

impl Memory<'_> {
    /// The number of columns, for a network with a state of `state_len` numbers.
    pub fn columns(&self, state_len: usize) -> usize {
        self.state.len().checked_div(state_len).unwrap_or(0)
    }
}

impl<'a> Input<'a> {
    /// Observations for a feed-forward network.
    pub fn new(obs: ObsRef<'a>, rows: usize) -> Self {
        Self { obs, rows, row_starts: None, memory: None, loaded: None }
    }

    /// The same elements, with a row of observations at each of these starts.
    pub fn with_row_starts(self, starts: &'a [usize]) -> Self {
        Self { row_starts: Some(starts), rows: starts.len(), ..self }
    }

    /// The same observations with a recurrent state.
    pub fn with_memory(self, memory: Memory<'a>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// The same observations, loaded into `loaded` by the network's loader.
    pub fn with_loaded(self, loaded: &'a LoadedObs) -> Self {
        Self { loaded: Some(loaded), ..self }
    }

    /// Checks the input for a network of this shape.
    ///
    /// *Errors*: another type or number of observations, loaded ones included; rows that share elements; a
    /// missing, unexpected or incomplete recurrent state.
    pub fn check(&self, shape: &NetworkShape) -> Result<(), PolicyError> {
        if self.row_starts.is_some() {
            let (expected, got) = ("one row after another", "rows with elements in common");
            return Err(PolicyError::Kind { what: "observations", expected, got });
        }
        self.check_shared(shape)
    }

    /// The same for a network that [reads rows that share elements](Network::reads_shared_rows).
    ///
    /// *Errors*: as [`check`](Self::check), but for these; and a row that begins too late.
    pub fn check_shared(&self, shape: &NetworkShape) -> Result<(), PolicyError> {
        let wrong = |expected, got| Err(PolicyError::Kind { what: "observations", expected, got });
        match (shape.obs.obs_dtype(), self.obs) {
            (ObsDtype::F32, ObsRef::U8(_)) => return wrong("f32", "u8"),
            (ObsDtype::U8, ObsRef::F32(_)) => return wrong("u8", "f32"),
            (ObsDtype::F32, ObsRef::F32(_)) | (ObsDtype::U8, ObsRef::U8(_)) => {}
        }
        let obs_len = shape.obs.obs_len();
        match self.row_starts {
            None => check_len("observations", self.rows.saturating_mul(obs_len), self.obs.len())?,
            Some(starts) => {
                check_len("starts of observations", self.rows, starts.len())?;
                let end = starts.iter().max().map_or(0, |last| last.saturating_add(obs_len));
                if end > self.obs.len() {
                    check_len("observations up to the end of the last row", end, self.obs.len())?;
                }
            }
        }
        if let Some(loaded) = self.loaded {
            check_len("loaded observations", self.rows, loaded.rows())?;
        }
        self.check_memory(shape.state_len)
    }

    fn check_memory(&self, state_len: usize) -> Result<(), PolicyError> {
        let refuse = |reason: String| Err(PolicyError::BadMemory { reason });
        let memory = match (self.memory, state_len) {
            (None, 0) => return Ok(()),
            (None, _) => {
                return refuse(format!(
                    "the network has a state of {state_len} numbers, but the input has no state: add it by `with_memory`"
                ));
            }
            (Some(_), 0) => {
                return refuse("the network is not recurrent, but the input has a state: leave it out".into());
            }
            (Some(memory), _) => memory,
        };
        let (state, columns) = (memory.state.len(), memory.columns(state_len));
        if state != columns * state_len {
            return refuse(format!("a state of {state} numbers is not a whole number of columns of {state_len}"));
        }
        let whole = if columns == 0 { self.rows == 0 } else { self.rows.is_multiple_of(columns) };
        if !whole {
            return refuse(format!("{} rows are not a whole number of steps of {columns} columns", self.rows));
        }
        check_len("starts of episodes", self.rows, memory.starts.len())
    }
}

/// The outputs of a network for a batch. The network sets the lengths and reuses the allocations.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The inputs of the action distribution, `[rows, dist_len]`; for discrete actions, logits.
    pub logits: Vec<f32>,
    /// The values, `[rows]`.
    pub values: Vec<f32>,
    /// The recurrent state after the last step, `[columns, state_len]`; empty for a feed-forward network.
    pub state: Vec<f32>,
}

impl Outputs {
    /// Resizes all vectors for an input; the values are unspecified.
    pub fn resize_for(&mut self, input: &Input<'_>, shape: &NetworkShape) {
        self.logits.resize(input.rows * shape.dist_len, 0.0);
        self.values.resize(input.rows, 0.0);
        self.state.resize(input.memory.map_or(0, |memory| memory.state.len()), 0.0);
    }
}

/// The gradient of a loss with respect to [`Outputs`].
#[derive(Clone, Debug, Default)]
pub struct OutputGrads {
    /// With respect to the logits, `[rows, dist_len]`.
    pub logits: Vec<f32>,
    /// With respect to the values, `[rows]`.
    pub values: Vec<f32>,
}

impl OutputGrads {
    /// Resets it to zeros for `rows` rows.
    pub fn reset(&mut self, rows: usize, dist_len: usize) {
        self.logits.clear();
        self.logits.resize(rows * dist_len, 0.0);
        self.values.clear();
        self.values.resize(rows, 0.0);
    }
}

#[cfg(test)]
mod tests;
