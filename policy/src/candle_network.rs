//! The network on candle.

use std::sync::Arc;

use candle_core::Device;

use crate::{Input, Network, NetworkSpec, OutputGrads, Outputs, ParamLayout, Params, PolicyError};

/// The network on candle.
pub struct CandleNetwork {
    spec: NetworkSpec,
    layout: Arc<ParamLayout>,
}

impl CandleNetwork {
    /// Builds the network on a device.
    pub fn new(spec: NetworkSpec, _device: Device) -> Result<Self, PolicyError> {
        let layout = Arc::new(spec.layout()?);
        Ok(Self { spec, layout })
    }

    /// Builds the network on the CPU.
    pub fn cpu(spec: NetworkSpec) -> Result<Self, PolicyError> {
        Self::new(spec, Device::Cpu)
    }
}

impl Network for CandleNetwork {
    fn spec(&self) -> &NetworkSpec {
        &self.spec
    }
    fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }
    fn forward(&mut self, _: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        input.check(&self.spec)?;
        out.values.resize(input.rows, 0.0);
        out.logits.resize(input.rows * self.spec.dist_len, 0.0);
        Ok(())
    }
    fn forward_for_learning(&mut self, p: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.forward(p, input, out)
    }
    fn backward(&mut self, _: &Params, _: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        grad.fill(0.0);
        Ok(())
    }
}
