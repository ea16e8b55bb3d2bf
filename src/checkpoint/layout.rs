//! The parameters of a custom network in the manifest.

use std::error::Error;

use pronk_policy::ParamLayout;
use serde::{Deserialize, Serialize};

/// One tensor; the weights follow each other in the order of the list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tensor {
    name: String,
    shape: Vec<usize>,
}

/// A layout as a list.
pub(super) fn tensors(layout: &ParamLayout) -> Vec<Tensor> {
    let tensor = |entry: &pronk_policy::ParamEntry| Tensor { name: entry.name.clone(), shape: entry.shape.clone() };
    layout.entries().iter().map(tensor).collect()
}

/// A list as a layout of at most `numbers` numbers, so that sizes in a damaged file cannot cause a huge
/// allocation.
pub(super) fn layout(tensors: &[Tensor], numbers: usize) -> Result<ParamLayout, Box<dyn Error + Send + Sync>> {
    let mut listed = 0_usize;
    for Tensor { name, shape } in tensors {
        let len = shape.iter().try_fold(1_usize, |len, &n| len.checked_mul(n));
        listed = match len.and_then(|len| listed.checked_add(len)) {
            Some(listed) if listed <= numbers => listed,
            _ => {
                let reason =
                    format!("up to `{name}` of shape {shape:?} it lists more numbers than the weight file holds");
                return Err(reason.into());
            }
        };
    }
    let layout = ParamLayout::new(tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone())));
    layout.check_names()?;
    Ok(layout)
}
