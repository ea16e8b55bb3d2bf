//! The towers of a network as nodes: encoder, LSTM and heads.

use super::graph::{Graph, Tensor};
use super::schema::AttributeProto;
use crate::spec::{Conv, Dense, EncoderLayers, Lstm, Section};
use crate::{Activation, Params, PolicyError};

/// Adds layers with the weights of `params` to a graph.
pub(super) struct Layers<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) params: &'a Params,
}

/// The tensors of a recurrent state, each `[batch, width]`.
pub(super) struct LstmState {
    pub(super) hidden: Tensor,
    pub(super) cell: Tensor,
}

impl Layers<'_> {
    /// The features of observations of rank `obs_rank`, the batch not counted.
    pub(super) fn encoder(
        &mut self,
        encoder: &EncoderLayers,
        torso: &str,
        obs: &str,
        obs_rank: usize,
    ) -> Result<Tensor, PolicyError> {
        match encoder {
            EncoderLayers::Mlp { layers, activation } => {
                let flat = match obs_rank {
                    1 => obs.to_owned(),
                    _ => self.flatten(obs, format!("{torso}.flat")),
                };
                layers.iter().try_fold(flat, |x, layer| {
                    let sum = self.dense(layer, &x, &layer.name)?;
                    Ok(match activation {
                        Activation::Tanh => self.graph.node("Tanh", &[&sum], format!("{sum}.tanh")),
                        Activation::Relu => self.relu(&sum),
                    })
                })
            }
            EncoderLayers::Nature { convs, dense } => {
                let image = convs.iter().try_fold(obs.to_owned(), |x, conv| {
                    let y = self.conv(conv, &x)?;
                    Ok(self.relu(&y))
                })?;
                self.dense_on_image(dense, torso, &image)
            }
            EncoderLayers::Impala { sections, dense } => {
                let image = sections.iter().try_fold(obs.to_owned(), |x, section| self.section(section, &x))?;
                let image = self.relu(&image);
                self.dense_on_image(dense, torso, &image)
            }
        }
    }

    /// `x · weight + bias`.
    pub(super) fn dense(&mut self, layer: &Dense, x: &str, output: &str) -> Result<Tensor, PolicyError> {
        let weight = self.matrix(&format!("{}.weight", layer.name), layer.inputs, layer.outputs)?;
        let bias = self.vector(&format!("{}.bias", layer.name))?;
        Ok(self.graph.node("Gemm", &[x, &weight, &bias], output))
    }

    /// One step: the output, and the state after it.
    pub(super) fn lstm(&mut self, lstm: &Lstm, x: &str, before: &LstmState) -> Result<LstmState, PolicyError> {
        let Lstm { name, inputs, width, .. } = lstm;
        let of_input = self.matrix(&format!("{name}.input.weight"), *inputs, 4 * width)?;
        let of_hidden = self.matrix(&format!("{name}.hidden.weight"), *width, 4 * width)?;
        let bias = self.vector(&format!("{name}.bias"))?;
        let graph = &mut *self.graph;
        let sums = graph.node("Gemm", &[x, &of_input, &bias], format!("{name}.of_input"));
        let sums = graph.node("Gemm", &[&before.hidden, &of_hidden, &sums], format!("{name}.gates"));
        let sum = |gate: &str| format!("{name}.{gate}.sum");
        graph.split(&sums, &[*width; 4], ["i", "f", "g", "o"].map(sum).to_vec());
        let mut gate = |op: &str, gate: &str| graph.node(op, &[&sum(gate)], format!("{name}.{gate}"));
        let (i, f, g, o) = (gate("Sigmoid", "i"), gate("Sigmoid", "f"), gate("Tanh", "g"), gate("Sigmoid", "o"));
        let kept = graph.node("Mul", &[&f, &before.cell], format!("{name}.kept"));
        let added = graph.node("Mul", &[&i, &g], format!("{name}.added"));
        let cell = graph.node("Add", &[&kept, &added], format!("{name}.cell"));
        let squashed = graph.node("Tanh", &[&cell], format!("{name}.squashed"));
        let hidden = graph.node("Mul", &[&o, &squashed], format!("{name}.hidden"));
        Ok(LstmState { hidden, cell })
    }

    fn section(&mut self, section: &Section, x: &str) -> Result<Tensor, PolicyError> {
        let y = self.conv(&section.conv, x)?;
        // An odd image ends in a padded window; of an even one the last padding is in none. ONNX pads a
        // max-pool with what is never the maximum.
        let pool = vec![
            AttributeProto::ints("kernel_shape", &[3; 2]),
            AttributeProto::ints("strides", &[2; 2]),
            AttributeProto::ints("pads", &[1; 4]),
        ];
        let pooled = self.graph.node_with("MaxPool", &[&y], format!("{y}.pool"), pool);
        section.blocks.iter().try_fold(pooled, |x, [first, second]| {
            let inside = self.relu(&x);
            let inside = self.conv(first, &inside)?;
            let inside = self.relu(&inside);
            let inside = self.conv(second, &inside)?;
            Ok(self.graph.node("Add", &[&x, &inside], format!("{inside}.sum")))
        })
    }

    fn conv(&mut self, conv: &Conv, x: &str) -> Result<Tensor, PolicyError> {
        let (kernel, inputs, outputs) = (conv.kernel, conv.input.channels, conv.output.channels);
        let name = format!("{}.weight", conv.name);
        let weight = outputs_first(get(self.params, &name)?, outputs, inputs);
        let weight = self.graph.floats(name, &[outputs, inputs, kernel, kernel], &weight);
        let bias = self.vector(&format!("{}.bias", conv.name))?;
        let attributes = vec![
            AttributeProto::ints("kernel_shape", &[kernel; 2]),
            AttributeProto::ints("strides", &[conv.stride; 2]),
            AttributeProto::ints("pads", &[conv.padding; 4]),
        ];
        Ok(self.graph.node_with("Conv", &[x, &weight, &bias], &*conv.name, attributes))
    }

    /// The dense layer after the convolutions, with ReLU. It reads the image in the order y, x, channel.
    fn dense_on_image(&mut self, dense: &Dense, torso: &str, image: &str) -> Result<Tensor, PolicyError> {
        let perm = vec![AttributeProto::ints("perm", &[0, 2, 3, 1])];
        let channels_last = self.graph.node_with("Transpose", &[image], format!("{torso}.channels_last"), perm);
        let flat = self.flatten(&channels_last, format!("{torso}.flat"));
        let sum = self.dense(dense, &flat, &dense.name)?;
        Ok(self.relu(&sum))
    }

    fn relu(&mut self, x: &str) -> Tensor {
        self.graph.node("Relu", &[x], format!("{x}.relu"))
    }

    fn flatten(&mut self, x: &str, output: String) -> Tensor {
        self.graph.node_with("Flatten", &[x], output, vec![AttributeProto::int("axis", 1)])
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Tensor, PolicyError> {
        Ok(self.graph.floats(name, &[rows, columns], get(self.params, name)?))
    }

    fn vector(&mut self, name: &str) -> Result<Tensor, PolicyError> {
        let values = get(self.params, name)?;
        Ok(self.graph.floats(name, &[values.len()], values))
    }
}

fn get<'a>(params: &'a Params, name: &str) -> Result<&'a [f32], PolicyError> {
    params.get(name).ok_or_else(|| PolicyError::WrongParams { reason: format!("there is no tensor `{name}`") })
}

/// A weight `[ky, kx, inputs, outputs]` as `[outputs, inputs, ky, kx]`.
pub(super) fn outputs_first(weight: &[f32], outputs: usize, inputs: usize) -> Vec<f32> {
    let per_pixel = inputs * outputs;
    let pixels = |output: usize, input: usize| weight.chunks_exact(per_pixel).map(move |p| p[input * outputs + output]);
    (0..outputs).flat_map(|output| (0..inputs).flat_map(move |input| pixels(output, input))).collect()
}
