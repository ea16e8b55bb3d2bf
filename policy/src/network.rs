//! What a network is to the rest of the library: slices in, slices out.

use std::sync::Arc;

use crate::error::check_len;
use crate::{NetworkSpec, ObsDtype, ParamLayout, Params, PolicyError};

/// A policy and value network: observations to the inputs of an action distribution and a value, and back.
///
/// A network holds no weights; it is handed [`Params`] with every call and may keep copies on its device, told apart by
/// their stamp. It is `Send`, not shared: every thread has its own.
///
/// *Rows* are any number, 0 included, and independent of each other. *NaN* in observations or weights comes out as NaN;
/// it is the caller's to notice.
///
/// *Errors*: slices of a wrong length or type, parameters of another layout, and failures of the device.
pub trait Network: Send {
    /// The description that the network was built from.
    fn spec(&self) -> &NetworkSpec;

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
    /// It follows one `forward_for_learning` of the same parameters and rows, and uses up what that kept. The same calls
    /// give the same bits.
    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError>;
}

/// A batch of observations.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The observations, `[rows, obs_len]`.
    pub obs: ObsRef<'a>,
    /// How many.
    pub rows: usize,
}

/// Observations to read, row-major.
#[derive(Clone, Copy, Debug)]
pub enum ObsRef<'a> {
    /// Stored as floats.
    F32(&'a [f32]),
    /// Stored as bytes; networks scale them by 1/255.
    U8(&'a [u8]),
}

impl ObsRef<'_> {
    /// How many numbers.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(obs) => obs.len(),
            Self::U8(obs) => obs.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Input<'_> {
    /// Whether a network with this description can read the input.
    pub fn check(&self, spec: &NetworkSpec) -> Result<(), PolicyError> {
        let wrong = |expected, got| Err(PolicyError::Kind { what: "observations", expected, got });
        match (spec.obs.obs_dtype(), self.obs) {
            (ObsDtype::F32, ObsRef::U8(_)) => return wrong("f32", "u8"),
            (ObsDtype::U8, ObsRef::F32(_)) => return wrong("u8", "f32"),
            (ObsDtype::F32, ObsRef::F32(_)) | (ObsDtype::U8, ObsRef::U8(_)) => {}
        }
        check_len("observations", self.rows.saturating_mul(spec.obs.obs_len()), self.obs.len())
    }
}

/// What a network says about a batch. The network sets the lengths and reuses the memory.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The inputs of the action distribution, `[rows, dist_len]`; for discrete actions, logits.
    pub logits: Vec<f32>,
    /// The values, `[rows]`.
    pub values: Vec<f32>,
}

impl Outputs {
    /// Gives both vectors the length for so many rows, in the memory they have. The values are whatever they were.
    pub fn resize(&mut self, rows: usize, dist_len: usize) {
        self.logits.resize(rows * dist_len, 0.0);
        self.values.resize(rows, 0.0);
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
