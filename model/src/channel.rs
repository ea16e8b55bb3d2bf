//! Channels; as `crossbeam_channel`.

pub use crossbeam_channel::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError, SendTimeoutError, TryRecvError,
    TrySendError,
};

pub use ends::{Receiver, Sender, after, bounded, never};
pub use select::{Select, SelectedOperation};

pub use crate::select;

mod ends;
mod operation;
mod select;
mod world;
