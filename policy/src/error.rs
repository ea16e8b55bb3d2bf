//! The errors of this crate.

use crate::{DeviceSpec, Space};

/// An error of a space, a network or a distribution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A slice of the wrong length.
    #[error("{what}: expected {expected} numbers, got {got}")]
    Length {
        /// The slice.
        what: &'static str,
        /// The expected length.
        expected: usize,
        /// The actual length.
        got: usize,
    },

    /// Products of bfloat16 where there are no instructions for them.
    #[error(
        "this processor or system has no instructions for bfloat16 (amx_bf16, on Linux), so it would be slower than \
         f32: set acting_precision and learning_precision to f32, or leave them out"
    )]
    SlowPrecision,

    /// An action that the distribution cannot have produced.
    #[error("action {action} in row {row} does not exist: this distribution has actions 0 to {}", n - 1)]
    ActionOutOfRange {
        /// The row of the batch.
        row: usize,
        /// The action.
        action: u32,
        /// The number of actions.
        n: usize,
    },

    /// One of several choices that the distribution cannot have produced.
    #[error("row {row}, choice {choice}: action {action} does not exist: this choice has actions 0 to {}", n - 1)]
    ChoiceOutOfRange {
        /// The row of the batch.
        row: usize,
        /// The choice.
        choice: usize,
        /// The action.
        action: u32,
        /// The number of actions of this choice.
        n: usize,
    },

    /// A number that the distribution cannot have produced.
    #[error("row {row}, number {number} of the action is {value}: squashed actions lie between -1 and 1")]
    NumberOutOfRange {
        /// The row of the batch.
        row: usize,
        /// The number's index in the row.
        number: usize,
        /// The value.
        value: f32,
    },

    /// A mask that forbids every action.
    #[error("the mask of row {row} forbids every action of choice {choice}: one at least has to be possible")]
    NothingToChoose {
        /// The row of the batch.
        row: usize,
        /// The choice; 0 if there is only one.
        choice: usize,
    },

    /// A mask over continuous actions.
    #[error("actions of {space} are numbers, which no mask can forbid: masks are for Discrete and MultiDiscrete")]
    MaskOfNumbers {
        /// The action space.
        space: Box<Space>,
    },

    /// Numbers of the wrong type.
    #[error("{what}: expected {expected} numbers, got {got}")]
    Kind {
        /// The data.
        what: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        got: &'static str,
    },

    /// An invalid space.
    #[error("space {space}: {reason}")]
    BadSpace {
        /// The space.
        space: Box<Space>,
        /// The reason.
        reason: String,
    },

    /// A network description that cannot be built.
    #[error("network: {reason}")]
    BadSpec {
        /// The reason, and how to fix it.
        reason: String,
    },

    /// A recurrent state that does not fit the network.
    #[error("recurrent state: {reason}")]
    BadMemory {
        /// The reason, and how to fix it.
        reason: String,
    },

    /// Parameters of another network.
    #[error("parameters do not fit the network: {reason}")]
    WrongParams {
        /// The first difference.
        reason: String,
    },

    /// Non-finite parameters.
    #[error("parameters that are not finite: `{tensor}` holds {value} at element {index}")]
    NonFiniteParams {
        /// The tensor.
        tensor: String,
        /// The index, in row-major order.
        index: usize,
        /// The value.
        value: f32,
    },

    /// `backward` without a matching `forward_for_learning` before it.
    #[error("backward needs a forward_for_learning of the same parameters and rows just before it: {reason}")]
    NothingToDifferentiate {
        /// The mismatch.
        reason: String,
    },

    /// A model returned a tensor of the wrong shape.
    #[error("the model's {what}: expected {}, got {}", dims(expected), dims(got))]
    ModelOutput {
        /// The output.
        what: &'static str,
        /// The expected shape; `None` if there should be no such output.
        expected: Option<Vec<usize>>,
        /// The actual shape; `None` if there was no such output.
        got: Option<Vec<usize>>,
    },

    /// An unknown device name.
    #[error("there is no device `{text}`: choose cpu, cuda:0 (or another number) or metal")]
    UnknownDevice {
        /// The name.
        text: String,
    },

    /// A device whose support was not compiled in.
    #[error("this build has no {library}: build with --features {feature}")]
    DeviceNotBuilt {
        /// The missing library.
        library: &'static str,
        /// The cargo feature.
        feature: &'static str,
    },

    /// A device that could not be opened.
    #[error("cannot open device {device}")]
    Device {
        /// The device.
        device: DeviceSpec,
        /// The error of candle; boxed, because it is large and rare.
        #[source]
        source: Box<candle_core::Error>,
    },

    /// A policy that cannot be written in another format.
    #[error("cannot export the policy: {reason}")]
    Export {
        /// The reason, and what to do instead.
        reason: String,
    },

    /// A worker thread of a network could not be started.
    #[error("cannot start the {threads} threads of a network: configure fewer")]
    Threads {
        /// The requested number.
        threads: usize,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },

    /// A bug in this library: a worker thread of a network panicked.
    #[error("computing a network panicked: {message}")]
    Panicked {
        /// The panic message.
        message: String,
    },

    /// The tensor library failed.
    #[error("tensor operation failed while {doing}")]
    Tensor {
        /// The operation.
        doing: &'static str,
        /// The error of candle.
        #[source]
        source: candle_core::Error,
    },
}

/// Checks the length of a slice.
pub(crate) fn check_len(what: &'static str, expected: usize, got: usize) -> Result<(), PolicyError> {
    if expected == got { Ok(()) } else { Err(PolicyError::Length { what, expected, got }) }
}

/// The message of a panic payload.
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
