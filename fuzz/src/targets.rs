//! One file for each target.

pub(crate) mod answers;
pub(crate) mod batch;
pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod damage;
pub(crate) mod forged;
pub(crate) mod frames;
pub(crate) mod golden;
pub(crate) mod greeting;
pub(crate) mod http;
pub(crate) mod onnx;
pub(crate) mod record;
pub(crate) mod replies;
pub(crate) mod results;
pub(crate) mod scrape;
pub(crate) mod set;
pub(crate) mod space;
mod wire;
