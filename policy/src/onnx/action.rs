//! The most likely action, in the units of the environment: what `ActionSelection::Mode` selects.

use super::graph::{Graph, Tensor};
use super::schema::{AttributeProto, DataType};
use crate::diag_gaussian::HIGHEST_ACTION;
use crate::{ActionScale, Gaussian, Space};

/// The output of the graph.
const ACTION: &str = "action";

/// Adds the output `action` of the inputs of the distribution.
pub(super) fn mode(graph: &mut Graph, space: &Space, gaussian: Gaussian, logits: &str) {
    let doc = format!("The most likely actions, of {space}");
    match space {
        Space::Discrete { .. } => {
            graph.node_with("ArgMax", &[logits], ACTION, highest_of_columns(false));
            graph.output(ACTION, DataType::Int64, &[], &doc);
        }
        Space::MultiDiscrete { nvec } => {
            let choices: Vec<Tensor> = (0..nvec.len()).map(|i| format!("choice{i}.logits")).collect();
            graph.split(logits, nvec, choices.clone());
            let best: Vec<Tensor> = (0..)
                .zip(&choices)
                .map(|(i, choice)| {
                    graph.node_with("ArgMax", &[choice], format!("choice{i}.action"), highest_of_columns(true))
                })
                .collect();
            graph.concat(&best, ACTION);
            graph.output(ACTION, DataType::Int64, &[nvec.len()], &doc);
        }
        Space::Box { low, high, .. } => {
            let n = low.len();
            graph.split(logits, &[n, n], vec!["mean".to_owned(), "log_std".to_owned()]);
            let bounded = !ActionScale::new(space).is_identity();
            let mean = match gaussian {
                Gaussian::Diagonal => "mean".to_owned(),
                Gaussian::Squashed => squashed(graph),
            };
            if bounded {
                into_bounds(graph, &mean, low, high);
            } else {
                graph.node("Identity", &[&mean], ACTION);
            }
            graph.output(ACTION, DataType::Float, &[n], &doc);
        }
    }
}

/// The settings of `ArgMax`: the first of equal logits.
fn highest_of_columns(keep_column: bool) -> Vec<AttributeProto> {
    vec![AttributeProto::int("axis", 1), AttributeProto::int("keepdims", i64::from(keep_column))]
}

/// tanh of the means, within (−1, 1).
fn squashed(graph: &mut Graph) -> Tensor {
    let lowest = graph.floats("mean.lowest", &[], &[-HIGHEST_ACTION]);
    let highest = graph.floats("mean.highest", &[], &[HIGHEST_ACTION]);
    let squashed = graph.node("Tanh", &["mean"], "mean.tanh");
    graph.node("Clip", &[&squashed, &lowest, &highest], "mean.squashed")
}

/// Maps every number to its bounds, as [`ActionScale`] does: from [−1, 1] if both are finite, else by
/// clamping.
///
/// It computes with floats instead of doubles, which not every runtime of ONNX can; a weighted mean is exact
/// at both ends all the same.
fn into_bounds(graph: &mut Graph, mean: &str, low: &[f32], high: &[f32]) {
    let n = low.len();
    let is_scaled: Vec<bool> = low.iter().zip(high).map(|(low, high)| low.is_finite() && high.is_finite()).collect();
    let lowest = graph.floats("action.low", &[n], low);
    let highest = graph.floats("action.high", &[n], high);
    let placed = match is_scaled.iter().filter(|&&is_scaled| is_scaled).count() {
        0 => mean.to_owned(),
        scaled => {
            // Infinite bounds times 0 would be NaN.
            let finite = |bounds: &[f32]| -> Vec<f32> {
                bounds.iter().zip(&is_scaled).map(|(&bound, &is_scaled)| if is_scaled { bound } else { 0.0 }).collect()
            };
            let placed = between(graph, mean, &finite(low), &finite(high));
            if scaled == n {
                placed
            } else {
                let is_scaled = graph.flags("action.is_scaled", &[n], &is_scaled);
                graph.node("Where", &[&is_scaled, &placed, mean], "action.placed")
            }
        }
    };
    let raised = graph.node("Max", &[&placed, &lowest], "action.raised");
    graph.node("Min", &[&raised, &highest], ACTION);
}

/// `low · (1 − share) + high · share`, where `share` is 0 for −1 and 1 for 1.
fn between(graph: &mut Graph, mean: &str, low: &[f32], high: &[f32]) -> Tensor {
    let n = low.len();
    let low = graph.floats("action.scale.low", &[n], low);
    let high = graph.floats("action.scale.high", &[n], high);
    let minus_one = graph.floats("action.minus_one", &[], &[-1.0]);
    let one = graph.floats("action.one", &[], &[1.0]);
    let half = graph.floats("action.half", &[], &[0.5]);
    let clamped = graph.node("Clip", &[mean, &minus_one, &one], "action.clamped");
    let from_zero = graph.node("Add", &[&clamped, &one], "action.from_zero");
    let share = graph.node("Mul", &[&from_zero, &half], "action.share");
    let rest = graph.node("Sub", &[&one, &share], "action.rest");
    let of_low = graph.node("Mul", &[&low, &rest], "action.of_low");
    let of_high = graph.node("Mul", &[&high, &share], "action.of_high");
    graph.node("Add", &[&of_low, &of_high], "action.scaled")
}
