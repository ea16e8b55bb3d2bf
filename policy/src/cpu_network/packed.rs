//! Numbers in the layout of products.

/// Matrices in panels; padding is zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    pub(super) numbers: Vec<f32>,
    /// The same as bfloat16, two rows side by side, of the matrices that products round.
    pub(super) pairs: Vec<u32>,
}
