//! How do observations become action distributions and values?
//!
//! A [`Space`] describes observations or actions, a [`NetworkSpec`] a network, [`Params`] are its weights in
//! one flat vector; a [`Network`] maps observations to outputs and gradients back, a [`Distribution`] outputs
//! to actions. No other room names a tensor library.

mod action_distribution;
mod action_scale;
mod candle_network;
pub mod categorical;
mod cpu_network;
mod data_parallel;
mod device;
pub mod diag_gaussian;
mod distribution;
mod error;
mod init;
mod kernel;
mod loaded;
mod log_std_range;
mod mask;
mod network;
mod normal;
mod obs_normalizer;
mod obs_ref;
mod onnx;
mod ops;
mod params;
mod policy;
mod precision;
mod rng;
mod space;
mod spec;
mod sync;

pub use action_distribution::{distribution_for, distribution_with};
pub use action_scale::ActionScale;
/// The tensor library, in the version of [`CandleModel`].
pub use candle_core;
pub use candle_network::{CandleInput, CandleMemory, CandleModel, CandleNetwork, CandleOutput};
/// Its modules, in the version of [`CandleNetwork::with_model`]'s `VarBuilder`.
pub use candle_nn;
pub use categorical::Categorical;
pub use cpu_network::{CpuNetwork, Helper, Helpers};
pub use data_parallel::DataParallel;
pub use device::DeviceSpec;
pub use diag_gaussian::DiagGaussian;
pub use distribution::{ActionsMut, ActionsRef, Distribution, Gaussian, GaussianConfig, KlTerm};
pub use error::PolicyError;
pub use loaded::{LoadedObs, ObsLoader};
pub use log_std_range::LogStdRange;
pub use mask::mask_logits;
pub use network::{Input, Memory, Network, NetworkShape, OutputGrads, Outputs};
pub use obs_normalizer::ObsNormalizer;
pub use obs_ref::ObsRef;
pub use ops::instructions;
pub use params::{LoadError, ParamEntry, ParamLayout, Params};
pub use policy::{ActionSelection, Policy};
pub use precision::Precision;
pub use rng::{Rng, derive_seed};
pub use space::{ObsDtype, Space};
pub use spec::{Activation, Encoder, Init, NetworkSpec, Torso};
