//! The model of a [`NetworkSpec`](crate::NetworkSpec).

use std::collections::HashMap;

use candle_core::{Result, Tensor};
use candle_nn::{LSTM, LSTMConfig, Linear, Module, VarBuilder};

use super::layers::{Conv, max_pool, relu};
use super::model::{CandleInput, CandleModel, CandleOutput};
use crate::{Activation, spec};

/// Its modules, by tower.
pub(super) struct SpecModel {
    towers: Vec<Tower>,
}

struct Tower {
    encoder: Encoder,
    lstm: Option<Lstm>,
    policy: Option<Linear>,
    value: Option<Linear>,
}

enum Encoder {
    Mlp { layers: Vec<Linear>, activation: Activation },
    Nature { convs: Vec<Conv>, dense: Linear },
    Impala { sections: Vec<Section>, dense: Linear },
}

struct Section {
    conv: Conv,
    blocks: Vec<[Conv; 2]>,
}

/// An LSTM, and the place of its state in that of the network.
struct Lstm {
    lstm: LSTM,
    state_offset: usize,
    state_len: usize,
}

impl SpecModel {
    pub(super) fn new(towers: &[spec::Tower], vb: &VarBuilder<'_>) -> Result<Self> {
        Ok(Self { towers: towers.iter().map(|tower| Tower::new(tower, vb)).collect::<Result<_>>()? })
    }
}

impl CandleModel for SpecModel {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        let (mut logits, mut values, mut states) = (None, None, Vec::new());
        for tower in &self.towers {
            let mut features = tower.encoder.forward(&input.obs)?;
            if let (Some(core), Some(memory)) = (&tower.lstm, &input.memory) {
                let before = memory.state.narrow(1, core.state_offset, core.state_len)?;
                let state;
                (features, state) = memory.run_lstm(&core.lstm, &features, &before)?;
                states.push(state);
            }
            let head = |head: &Option<Linear>| head.as_ref().map(|head| head.forward(&features)).transpose();
            logits = logits.or(head(&tower.policy)?);
            values = values.or(head(&tower.value)?);
        }
        let (Some(logits), Some(values)) = (logits, values) else {
            candle_core::bail!("the towers of a network have a head for the policy and one for the value");
        };
        let state = if states.is_empty() { None } else { Some(Tensor::cat(&states, 1)?) };
        Ok(CandleOutput { logits, values: values.squeeze(1)?, state })
    }
}

impl Tower {
    fn new(tower: &spec::Tower, vb: &VarBuilder<'_>) -> Result<Self> {
        let head = |head: &Option<spec::Dense>| head.as_ref().map(|head| linear(head, vb)).transpose();
        Ok(Self {
            encoder: Encoder::new(&tower.encoder, vb)?,
            lstm: tower.lstm.as_ref().map(|lstm| Lstm::new(lstm, vb)).transpose()?,
            policy: head(&tower.policy)?,
            value: head(&tower.value)?,
        })
    }
}

impl Encoder {
    fn new(layers: &spec::EncoderLayers, vb: &VarBuilder<'_>) -> Result<Self> {
        Ok(match layers {
            spec::EncoderLayers::Mlp { layers, activation } => Self::Mlp {
                layers: layers.iter().map(|layer| linear(layer, vb)).collect::<Result<_>>()?,
                activation: *activation,
            },
            spec::EncoderLayers::Nature { convs, dense } => Self::Nature {
                convs: convs.iter().map(|layer| conv(layer, vb)).collect::<Result<_>>()?,
                dense: linear(dense, vb)?,
            },
            spec::EncoderLayers::Impala { sections, dense } => Self::Impala {
                sections: sections.iter().map(|section| Section::new(section, vb)).collect::<Result<_>>()?,
                dense: linear(dense, vb)?,
            },
        })
    }

    /// The features, `[rows, features]`.
    fn forward(&self, obs: &Tensor) -> Result<Tensor> {
        match self {
            Self::Mlp { layers, activation } => {
                let activate = match activation {
                    Activation::Tanh => Tensor::tanh,
                    Activation::Relu => relu,
                };
                layers.iter().try_fold(obs.flatten_from(1)?, |x, layer| activate(&layer.forward(&x)?))
            }
            Self::Nature { convs, dense } => {
                let image = convs.iter().try_fold(channels_last(obs)?, |x, conv| relu(&conv.forward(&x)?))?;
                relu(&dense.forward(&image.flatten_from(1)?)?)
            }
            Self::Impala { sections, dense } => {
                let image = sections.iter().try_fold(channels_last(obs)?, |x, section| section.forward(&x))?;
                relu(&dense.forward(&relu(&image)?.flatten_from(1)?)?)
            }
        }
    }
}

impl Section {
    fn new(section: &spec::Section, vb: &VarBuilder<'_>) -> Result<Self> {
        let block = |[first, second]: &[spec::Conv; 2]| Ok([conv(first, vb)?, conv(second, vb)?]);
        Ok(Self { conv: conv(&section.conv, vb)?, blocks: section.blocks.iter().map(block).collect::<Result<_>>()? })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.blocks.iter().try_fold(max_pool(&self.conv.forward(x)?)?, |x, [first, second]| {
            let inside = first.forward(&relu(&x)?)?;
            x + second.forward(&relu(&inside)?)?
        })
    }
}

impl Lstm {
    /// The parameters under the names of candle's LSTM, whose gates have the same order.
    fn new(lstm: &spec::Lstm, vb: &VarBuilder<'_>) -> Result<Self> {
        let (vb, gates) = (vb.pp(&lstm.name), 4 * lstm.width);
        let tensors = [
            ("weight_ih_l0", vb.get((lstm.inputs, gates), "input.weight")?.t()?),
            ("weight_hh_l0", vb.get((lstm.width, gates), "hidden.weight")?.t()?),
            ("bias_ih_l0", vb.get(gates, "bias")?),
        ];
        let tensors: HashMap<_, _> = tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        let renamed = VarBuilder::from_tensors(tensors, vb.dtype(), vb.device());
        let config = LSTMConfig { b_hh_init: None, ..LSTMConfig::default() };
        Ok(Self {
            lstm: candle_nn::lstm(lstm.inputs, lstm.width, config, renamed)?,
            state_offset: lstm.state_offset,
            state_len: 2 * lstm.width,
        })
    }
}

/// A layer whose weight is `[inputs, outputs]`, the transpose of candle's.
fn linear(layer: &spec::Dense, vb: &VarBuilder<'_>) -> Result<Linear> {
    let vb = vb.pp(&layer.name);
    let weight = vb.get((layer.inputs, layer.outputs), "weight")?.t()?;
    Ok(Linear::new(weight, Some(vb.get(layer.outputs, "bias")?)))
}

fn conv(layer: &spec::Conv, vb: &VarBuilder<'_>) -> Result<Conv> {
    let vb = vb.pp(&layer.name);
    let (kernel, inputs, outputs) = (layer.kernel, layer.input.channels, layer.output.channels);
    let weight = vb.get((kernel, kernel, inputs, outputs), "weight")?;
    Conv::new(&weight, &vb.get(outputs, "bias")?, layer.stride, layer.padding)
}

/// Images `[rows, channels, height, width]` as `[rows, height, width, channels]`.
fn channels_last(images: &Tensor) -> Result<Tensor> {
    images.permute((0, 2, 3, 1))?.contiguous()
}
