//! How do observations become action distributions and values?
//!
//! A [`Space`] says what comes in and what goes out, a [`NetworkSpec`] what lies between, [`Params`] hold the weights in
//! one flat vector, a [`Network`] maps slices to slices and gradients back, and a [`Distribution`] turns what it says
//! into actions. No other room names a tensor library.

mod candle_network;
pub mod categorical;
mod cpu_network;
mod device;
mod distribution;
mod error;
mod init;
mod network;
mod ops;
mod params;
mod policy;
mod rng;
mod space;
mod spec;

/// The tensor library, for models of one's own: the version that [`CandleModel`] is written in.
pub use candle_core;
pub use candle_network::{CandleInput, CandleMemory, CandleModel, CandleNetwork, CandleOutput, CandleWeights};
pub use categorical::Categorical;
pub use cpu_network::CpuNetwork;
pub use device::DeviceSpec;
pub use distribution::{ActionsMut, ActionsRef, Distribution, distribution_for};
pub use error::PolicyError;
pub use network::{Input, Memory, Network, NetworkShape, ObsRef, OutputGrads, Outputs};
pub use params::{LoadError, ParamEntry, ParamLayout, Params};
pub use policy::{Choice, Policy};
pub use rng::{Rng, derive_seed};
pub use space::{ObsDtype, Space};
pub use spec::{Activation, Encoder, Init, NetworkSpec, Torso};
