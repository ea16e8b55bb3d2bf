//! What is done to raw observations before the network.

use super::graph::{Graph, Tensor};
use super::schema::{AttributeProto, DataType};
use crate::space::ByteScale;
use crate::{ObsDtype, ObsNormalizer, Space};

/// The input `obs` and its floats, scaled or normalised, `[batch, …shape of the space]`.
pub(super) fn floats(graph: &mut Graph, space: &Space, normalizer: Option<&ObsNormalizer>) -> Tensor {
    let shape = shape(space);
    let doc = format!("Raw observations of {space}");
    match space.obs_dtype() {
        ObsDtype::U8 => {
            let bytes = graph.input("obs", DataType::Uint8, &shape, &doc);
            let to_float = vec![AttributeProto::int("to", DataType::Float as i64)];
            let floats = graph.node_with("Cast", &[&bytes], "obs.floats", to_float);
            let Some(ByteScale { low, factor }) = space.byte_scale() else {
                let unit = graph.floats("obs.unit", &[], &[1.0 / 255.0]);
                return graph.node("Mul", &[&floats, &unit], "obs.scaled");
            };
            let low = graph.floats("obs.low", &shape, &low);
            let factor = graph.floats("obs.factor", &shape, &factor);
            let above = graph.node("Sub", &[&floats, &low], "obs.above");
            graph.node("Mul", &[&above, &factor], "obs.scaled")
        }
        ObsDtype::F32 => {
            let floats = graph.input("obs", DataType::Float, &shape, &doc);
            match normalizer {
                Some(normalizer) => normalized(graph, &floats, &shape, normalizer),
                None => floats,
            }
        }
    }
}

/// The shape of an observation: that of a `Box`, or a one-hot vector.
pub(super) fn shape(space: &Space) -> Vec<usize> {
    match space {
        Space::Box { shape, .. } => shape.clone(),
        Space::Discrete { .. } | Space::MultiDiscrete { .. } => vec![space.obs_len()],
    }
}

/// `clip((obs − mean) / std)`.
///
/// The normaliser computes with doubles, which not every runtime of ONNX can. A mean as the sum of two floats
/// does as well: where an observation is near the mean the first difference is exact, so large numbers that
/// hardly vary keep their digits.
fn normalized(graph: &mut Graph, obs: &str, shape: &[usize], normalizer: &ObsNormalizer) -> Tensor {
    let ObsNormalizer { mean, std, clip } = normalizer;
    let high: Vec<f32> = mean.iter().map(|&mean| mean as f32).collect();
    let low: Vec<f32> = mean.iter().zip(&high).map(|(mean, &high)| (mean - f64::from(high)) as f32).collect();
    // Not below the least float, since 0 / 0 would be NaN.
    let std: Vec<f32> = std.iter().map(|&std| (std as f32).max(f32::MIN_POSITIVE)).collect();
    let high = graph.floats("obs.mean", shape, &high);
    let low = graph.floats("obs.mean.rest", shape, &low);
    let std = graph.floats("obs.std", shape, &std);
    let lowest = graph.floats("obs.lowest", &[], &[-clip]);
    let highest = graph.floats("obs.highest", &[], &[*clip]);
    let nearly = graph.node("Sub", &[obs, &high], "obs.nearly_centered");
    let centered = graph.node("Sub", &[&nearly, &low], "obs.centered");
    let scaled = graph.node("Div", &[&centered, &std], "obs.scaled");
    graph.node("Clip", &[&scaled, &lowest, &highest], "obs.normalized")
}
