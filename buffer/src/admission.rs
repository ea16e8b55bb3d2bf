//! Deterministic admission: whose fragment is trained on when, and with which weights it is sampled, by
//! counting instead of by the clock.

mod ask;
mod edges;
mod ends;
mod in_order;
mod recorded;
mod rounds;
mod turns;

pub use ask::Ask;
pub use edges::turns;
pub use ends::{FragmentSender, Granted, Permits, Turn, WeightSource, WorkerEnds};
pub use in_order::InOrder;
pub use recorded::{RecordedTurn, recorded_turns};
pub use rounds::{RoundGate, Rounds, rounds};
pub use turns::{TurnConfig, TurnPosition, Turns};

#[cfg(test)]
mod tests;
