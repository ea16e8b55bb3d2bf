//! What can go wrong between an observation and an action.

use crate::{DeviceSpec, Space};

/// Why a space, a network or a distribution refused its input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A slice has another length than its rows and width ask for.
    #[error("{what}: expected {expected} numbers, got {got}")]
    Length {
        /// Which slice.
        what: &'static str,
        /// The length that would have been right.
        expected: usize,
        /// The length that came.
        got: usize,
    },

    /// An action that the distribution cannot have produced.
    #[error("action {action} in row {row} does not exist: this distribution has actions 0 to {}", n - 1)]
    ActionOutOfRange {
        /// The row of the batch.
        row: usize,
        /// The action found there.
        action: u32,
        /// The number of actions.
        n: usize,
    },

    /// A choice among several that the distribution cannot have produced.
    #[error("row {row}, choice {choice}: action {action} does not exist: this choice has actions 0 to {}", n - 1)]
    ChoiceOutOfRange {
        /// The row of the batch.
        row: usize,
        /// Which choice of the row.
        choice: usize,
        /// The action found there.
        action: u32,
        /// The number of actions of this choice.
        n: usize,
    },

    /// A number that the distribution cannot have produced.
    #[error("row {row}, number {number} of the action is {value}: squashed actions lie between -1 and 1")]
    NumberOutOfRange {
        /// The row of the batch.
        row: usize,
        /// Which number of the row.
        number: usize,
        /// What it is.
        value: f32,
    },

    /// A mask that leaves nothing to choose.
    #[error("the mask of row {row} forbids every action of choice {choice}: one at least has to be possible")]
    NothingToChoose {
        /// The row of the batch.
        row: usize,
        /// Which choice of the row; 0 where there is one only.
        choice: usize,
    },

    /// A mask over actions that are numbers.
    #[error("actions of {space} are numbers, which no mask can forbid: masks are for Discrete and MultiDiscrete")]
    MaskOfNumbers {
        /// The action space.
        space: Box<Space>,
    },

    /// Numbers of one type came where the other type is needed.
    #[error("{what}: expected {expected} numbers, got {got}")]
    Kind {
        /// Which data.
        what: &'static str,
        /// The type that would have been right.
        expected: &'static str,
        /// The type that came.
        got: &'static str,
    },

    /// A space that contradicts itself.
    #[error("space {space}: {reason}")]
    BadSpace {
        /// The space.
        space: Box<Space>,
        /// What is wrong with it.
        reason: String,
    },

    /// A network description that cannot be built.
    #[error("network: {reason}")]
    BadSpec {
        /// What is wrong, and what would be right.
        reason: String,
    },

    /// A state that the network cannot go on from.
    #[error("memory: {reason}")]
    BadMemory {
        /// What is wrong, and what would be right.
        reason: String,
    },

    /// Parameters made for another network.
    #[error("parameters do not fit the network: {reason}")]
    WrongParams {
        /// The first difference.
        reason: String,
    },

    /// Parameters that no network can compute with.
    #[error("parameters that are not finite: `{tensor}` holds {value} at element {index}")]
    NonFiniteParams {
        /// The tensor, by name.
        tensor: String,
        /// Which of its values, in row-major order.
        index: usize,
        /// What it is.
        value: f32,
    },

    /// `backward` without a matching `forward_for_learning` before it.
    #[error("backward needs a forward_for_learning of the same parameters and rows just before it: {reason}")]
    NothingToDifferentiate {
        /// What did not match.
        reason: String,
    },

    /// A model put out a tensor of another shape than its network has.
    #[error("the model's {what}: expected {}, got {}", dims(expected), dims(got))]
    ModelOutput {
        /// Which of its outputs.
        what: &'static str,
        /// The shape that would have been right; `None` if there should be no such output.
        expected: Option<Vec<usize>>,
        /// The shape that came, if the output did.
        got: Option<Vec<usize>>,
    },

    /// A name that no device has.
    #[error("there is no device `{text}`: choose cpu, cuda:0 (or another number) or metal")]
    UnknownDevice {
        /// The name.
        text: String,
    },

    /// A device that this program was built without.
    #[error("this build has no {library}: build with --features {feature}")]
    DeviceNotBuilt {
        /// What is missing.
        library: &'static str,
        /// The cargo feature that brings it.
        feature: &'static str,
    },

    /// A device that did not open.
    #[error("device {device} does not open")]
    Device {
        /// Which.
        device: DeviceSpec,
        /// What candle said; boxed, because errors are returned everywhere and this one is large and rare.
        #[source]
        source: Box<candle_core::Error>,
    },

    /// A thread of a network's own could not be started.
    #[error("cannot start the {threads} threads that a network was to compute with: ask for fewer")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },

    /// A mistake in this library: a thread of a network's own panicked.
    #[error("computing a network panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },

    /// The tensor library failed.
    #[error("tensor operation failed while {doing}")]
    Tensor {
        /// What the network was doing.
        doing: &'static str,
        /// What candle said.
        #[source]
        source: candle_core::Error,
    },
}

/// `Ok` if a slice has the length its shape asks for.
pub(crate) fn check_len(what: &'static str, expected: usize, got: usize) -> Result<(), PolicyError> {
    if expected == got { Ok(()) } else { Err(PolicyError::Length { what, expected, got }) }
}

/// What a panic said.
pub(crate) fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().map_or("no message", |message| message).to_owned(),
    }
}

fn dims(dims: &Option<Vec<usize>>) -> String {
    match dims {
        Some(dims) => format!("shape {dims:?}"),
        None => "none".to_owned(),
    }
}
