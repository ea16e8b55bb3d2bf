//! What a network is to the rest of the library: slices in, slices out.

use std::sync::Arc;

use crate::error::check_len;
use crate::obs_ref::ObsRef;
use crate::{LoadedObs, ObsDtype, ObsLoader, ParamLayout, Params, PolicyError, Space};

/// A policy and value network: observations to the inputs of an action distribution and a value, and back.
///
/// A network holds no weights; it is handed [`Params`] with every call and may keep copies on its device, told apart by
/// their stamp. It is `Send`, not shared: every thread has its own. Nor does it remember anything from call to call: what
/// a *recurrent* network remembers goes in as [`Memory`] and comes out as [`Outputs::state`].
///
/// *Rows* are any number, 0 included, and independent of each other, save that the steps of one column of a recurrent
/// network follow each other. *NaN* in observations or weights comes out as NaN; it is the caller's to notice.
///
/// *Errors*: slices of a wrong length or type, parameters of another layout, and failures of the device.
pub trait Network: Send {
    /// The sizes of what goes in and comes out.
    fn shape(&self) -> &NetworkShape;

    /// The layout that [`Params`] must have.
    fn layout(&self) -> &Arc<ParamLayout>;

    /// Acting: fills `out`, keeps nothing.
    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError>;

    /// Learning: fills `out` as [`Network::forward`] does and keeps what [`Network::backward`] needs.
    ///
    /// `forward` may be called between the two without harm.
    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError>;

    /// Overwrites `grad`, laid out as the parameters, with the gradient of a loss whose gradient with respect to the
    /// outputs is `grads`.
    ///
    /// The gradient reaches back through the steps of a recurrent network until an episode's first, and never into the
    /// state before the first step: that came from another batch.
    ///
    /// It follows one `forward_for_learning` of the same parameters and rows, and uses up what that kept. The same calls
    /// give the same bits.
    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError>;

    /// The first weights, drawn from a seed, for a network that says how its layers start; `None` for one that leaves it to
    /// [`Init::params`](crate::Init::params). The same seed gives the same bits.
    fn first_params(&self, seed: u64) -> Option<Params> {
        let _ = seed;
        None
    }

    /// What puts observations where the network computes, for threads that do it ahead; `None` for a network that reads them
    /// where they are.
    fn obs_loader(&self) -> Option<Arc<dyn ObsLoader>> {
        None
    }
}

/// The sizes of what goes into a [`Network`] and comes out.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkShape {
    /// The observations.
    pub obs: Space,
    /// How many numbers describe the action distribution.
    pub dist_len: usize,
    /// How many numbers the network remembers from step to step; 0 for one that remembers nothing.
    pub state_len: usize,
}

/// What a network has kept for `backward`: the batch's rows, and the stamp of its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) rows: usize,
    pub(crate) stamp: u64,
}

impl Kept {
    pub(crate) fn of(params: &Params, input: &Input<'_>) -> Self {
        Self { rows: input.rows, stamp: params.stamp() }
    }

    /// Whether `backward` may follow on what was kept.
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
/// // The same rows as 3 steps of 2 columns, for a network that remembers 8 numbers. An episode starts in row 3: column 1
/// // of step 1.
/// let (state, starts) = ([0.0; 2 * 8], [false, false, false, true, false, false]);
/// let input = input.with_memory(Memory { state: &state, starts: &starts });
/// assert_eq!(input.memory.map(|memory| memory.columns(8)), Some(2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The observations, `[rows, obs_len]`. With memory, rows are time-major: row `step * columns + column`.
    pub obs: ObsRef<'a>,
    /// How many.
    pub rows: usize,
    /// What a recurrent network needs besides; nothing for one that is not.
    pub memory: Option<Memory<'a>>,
    /// The same observations where the network computes, if they were put there ahead.
    pub loaded: Option<&'a LoadedObs>,
}

/// What a recurrent network remembers when a batch begins, and where it forgets.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// The state before the first step, `[columns, state_len]`.
    pub state: &'a [f32],
    /// Which rows are the first of an episode, `[steps, columns]`: before them the state is zero, whatever came before.
    pub starts: &'a [bool],
}

impl Memory<'_> {
    /// How many columns there are, for a network that remembers `state_len` numbers.
    pub fn columns(&self, state_len: usize) -> usize {
        self.state.len().checked_div(state_len).unwrap_or(0)
    }
}

impl<'a> Input<'a> {
    /// Observations for a network without memory.
    pub fn new(obs: ObsRef<'a>, rows: usize) -> Self {
        Self { obs, rows, memory: None, loaded: None }
    }

    /// The same observations for a network with memory.
    pub fn with_memory(self, memory: Memory<'a>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// The same observations, which the network's own loader has put into `loaded`.
    pub fn with_loaded(self, loaded: &'a LoadedObs) -> Self {
        Self { loaded: Some(loaded), ..self }
    }

    /// Whether a network of this shape can read the input.
    ///
    /// *Errors*: observations of another type or number, also of those that were loaded; memory missing or out of place, or
    /// not of whole steps.
    pub fn check(&self, shape: &NetworkShape) -> Result<(), PolicyError> {
        let wrong = |expected, got| Err(PolicyError::Kind { what: "observations", expected, got });
        match (shape.obs.obs_dtype(), self.obs) {
            (ObsDtype::F32, ObsRef::U8(_)) => return wrong("f32", "u8"),
            (ObsDtype::U8, ObsRef::F32(_)) => return wrong("u8", "f32"),
            (ObsDtype::F32, ObsRef::F32(_)) | (ObsDtype::U8, ObsRef::U8(_)) => {}
        }
        check_len("observations", self.rows.saturating_mul(shape.obs.obs_len()), self.obs.len())?;
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
                    "the network remembers {state_len} numbers, but the input has no state: add it by `with_memory`"
                ));
            }
            (Some(_), 0) => {
                return refuse("the network remembers nothing, but the input has a state: leave it out".into());
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

/// What a network says about a batch. The network sets the lengths and reuses the memory.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The inputs of the action distribution, `[rows, dist_len]`; for discrete actions, logits.
    pub logits: Vec<f32>,
    /// The values, `[rows]`.
    pub values: Vec<f32>,
    /// What a recurrent network remembers after the last step, `[columns, state_len]`; empty for others.
    pub state: Vec<f32>,
}

impl Outputs {
    /// Gives all vectors the lengths for an input, in the memory they have. The values are whatever they were.
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
    /// Makes it all zero for so many rows, in the memory it has.
    pub fn reset(&mut self, rows: usize, dist_len: usize) {
        self.logits.clear();
        self.logits.resize(rows * dist_len, 0.0);
        self.values.clear();
        self.values.resize(rows, 0.0);
    }
}

#[cfg(test)]
mod tests;
