//! Fragments as bytes.
//!
//! A frame is what one [`Ship`](crate::Op::Ship) carries: a header with its length in front, and then the
//! columns of each policy as they lie in memory, little-endian, without padding.
//!
//! ```text
//! u32                     bytes of the header
//! header, in postcard
//!   Head                  env_steps, number of policies, number of moments
//!   for each policy       by name, ascending
//!     PolicyHead          name, shape, bytes of packed observations, numbers of what follows
//!     tags, places of final observations, runs of versions
//!   moments               of observations and returns, for each fragment that has some
//! columns, for each policy
//!   obs                   [T+1, B, obs_len] f32 or u8; packed u8 as one zstd frame
//!   actions               [T, B, act_len] u32 or f32
//!   rewards               [T, B] f32
//!   ends                  [T, B] u8: 0 no, 1 terminated, 2 truncated
//!   final observations    [number of places, obs_len], as obs
//!   behaviour_logp        [T, B] f32
//!   behaviour_inputs      [T, B, dist_len] f32
//!   behaviour_values      [T+1, B] f32
//!   state_in              [B, state_len] f32
//! ```
//!
//! The lengths of columns follow from the shape and are not sent. A frame has no checksum and no number of
//! its format: both belong to the shipment around it.
//!
//! The learner trusts no byte of it. [`Decoder::decode`] checks the header against [`Expected`] and
//! [`Sender`] before it takes any storage, and the contents of columns after they are copied.

#[cfg(target_endian = "big")]
compile_error!("columns are copied between memory and frames as they are, which are little-endian");

mod decode;
mod encode;
mod error;
mod expected;

mod header;
mod reader;

pub use decode::Decoder;
pub use encode::{Encoder, Pixels};
pub use error::FrameError;
pub use expected::{Expected, ExpectedError, ExpectedPolicy, Sender};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;
