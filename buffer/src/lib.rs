//! How does data wait, and who owns it?
//!
//! Everything between two threads of a run is here: fragments and train batches ([`SampleBatch`],
//! [`MultiAgentBatch`]) with the [`Pool`] their storage returns to; the bounded [`inqueue`] and the adapters
//! behind it ([`Assemble`], [`MinibatchBuffer`]); the [`WeightCell`] that carries weights back; the
//! [`Mailbox`] that carries reports sideways. A [`ShutdownGuard`] ends them all: closing is dropping, there
//! are no stop flags.

mod meanwhile;
#[cfg(all(test, pronk_model))]
#[allow(clippy::unwrap_used)]
mod models;
mod shutdown;

mod batch;
mod pool;

mod inqueue;
mod saved;
mod source;
pub mod source_contract;

mod accumulate;
mod assemble;
mod loader_stacks;
mod max_lag;
mod minibatch;
mod replay;

mod weights;

mod admission;

mod mailbox;
mod notifier;
mod sync;

pub use meanwhile::Meanwhile;
pub use shutdown::{Closed, ShutdownGuard, ShutdownToken, shutdown};

pub use batch::{
    ActionColumn, ActionKind, ActionView, ActionViewMut, BatchError, BatchShape, Columns, End, FinalObs,
    MultiAgentBatch, ObsColumn, ObsKind, ObsRows, ObsView, ObsViewMut, SampleBatch, StepMut, Tag,
};
pub use pool::Pool;

pub use inqueue::{Gate, InqueueReceiver, InqueueSender, PopError, TryPushError, ZeroCapacity, inqueue};
pub use saved::{CannotSave, SavedBatch, SavedReplay, SavedSource};
pub use source::{NextError, Source};

pub use accumulate::{Accumulate, Gathered};
pub use assemble::Assemble;
pub use loader_stacks::{
    Loaded, Loader, LoaderCause, LoaderConfig, LoaderError, LoaderFailure, LoaderMetrics, LoaderParts, LoaderStacks,
    LoaderState,
};
pub use max_lag::MaxLag;
pub use minibatch::{MinibatchBuffer, Pass, SavedRing, Shown};
pub use replay::{MixIn, MixInConfig, MixInError, MixInReplay, RandomSource};

pub use weights::{VersionReader, Versioned, WeightCell, WeightPublisher, weight_cell, weight_cell_from};

pub use admission::{
    Ask, FragmentSender, Granted, InOrder, Permits, RecordedTurn, RoundGate, Rounds, Turn, TurnConfig, TurnPosition,
    Turns, WeightSource, WorkerEnds, recorded_turns, rounds, turns,
};

pub use mailbox::{Fold, Mailbox, MailboxSender, mailbox};
pub use notifier::Notifier;
