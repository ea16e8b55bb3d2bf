//! The packed weights of one stamp.

use super::packed::Packed;
use super::packing::Packing;
use crate::Params;

/// Packed parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights {
    pub(super) forward: Packed,
    /// Transposed, for the backward pass.
    pub(super) backward: Packed,
    forward_stamp: Option<u64>,
    backward_stamp: Option<u64>,
}

impl Weights {
    /// Packs the parameters for the forward pass, if they are new.
    pub(super) fn update(&mut self, packing: &Packing, params: &Params) {
        if self.forward_stamp != Some(params.stamp()) {
            packing.pack(params.values(), &mut self.forward);
            self.forward_stamp = Some(params.stamp());
        }
    }

    /// Packs them for the backward pass too.
    pub(super) fn update_backward(&mut self, packing: &Packing, params: &Params) {
        self.update(packing, params);
        if self.backward_stamp != Some(params.stamp()) {
            packing.transpose_all(&self.forward, &mut self.backward);
            self.backward_stamp = Some(params.stamp());
        }
    }

    /// Whether these parameters are packed.
    pub(super) fn is_of(&self, params: &Params) -> bool {
        self.forward_stamp == Some(params.stamp())
    }
}
