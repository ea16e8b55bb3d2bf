//! The network that a [`NetworkSpec`] describes, as a model.

use candle_core::{Result, Tensor};

use super::layers::{conv, dense, lstm_step, max_pool, relu, unstack};
use super::model::{CandleInput, CandleMemory, CandleModel, CandleOutput, CandleWeights};
use crate::spec::{Conv, Dense, EncoderLayers, Lstm, Section, Tower};
use crate::{Activation, NetworkSpec, ParamLayout, PolicyError};

pub(super) struct SpecModel {
    towers: Vec<Tower>,
    layout: ParamLayout,
}

impl SpecModel {
    pub(super) fn new(spec: &NetworkSpec) -> std::result::Result<Self, PolicyError> {
        Ok(Self { layout: spec.layout()?, towers: spec.towers() })
    }
}

impl CandleModel for SpecModel {
    fn layout(&self) -> ParamLayout {
        self.layout.clone()
    }

    fn forward(&self, weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput> {
        let (mut logits, mut values, mut states) = (None, None, Vec::new());
        for tower in &self.towers {
            let mut features = encode(&tower.encoder, weights, &input.obs)?;
            if let (Some(lstm), Some(memory)) = (&tower.lstm, &input.memory) {
                let state;
                (features, state) = remember(lstm, weights, &features, memory)?;
                states.push(state);
            }
            let head = |head: &Option<Dense>| head.as_ref().map(|head| head.apply(weights, &features)).transpose();
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

/// The features, `[rows, features]`.
fn encode(encoder: &EncoderLayers, weights: &CandleWeights, obs: &Tensor) -> Result<Tensor> {
    match encoder {
        EncoderLayers::Mlp { layers, activation } => {
            let mut x = obs.flatten_from(1)?;
            for layer in layers {
                x = layer.apply(weights, &x)?;
                x = match activation {
                    Activation::Tanh => x.tanh()?,
                    Activation::Relu => relu(&x)?,
                };
            }
            Ok(x)
        }
        EncoderLayers::Nature { convs, dense } => {
            let mut x = obs.clone();
            for conv in convs {
                x = relu(&conv.apply(weights, &x)?)?;
            }
            relu(&dense.apply(weights, &flatten(&x)?)?)
        }
        EncoderLayers::Impala { sections, dense } => {
            let mut x = obs.clone();
            for section in sections {
                x = section.apply(weights, &x)?;
            }
            relu(&dense.apply(weights, &flatten(&relu(&x)?)?)?)
        }
    }
}

/// Images as rows of numbers in the order y, x, channel.
fn flatten(images: &Tensor) -> Result<Tensor> {
    images.permute((0, 2, 3, 1))?.contiguous()?.flatten_from(1)
}

/// The LSTM's output for every row, and its state after the last step.
fn remember(
    lstm: &Lstm,
    weights: &CandleWeights,
    features: &Tensor,
    memory: &CandleMemory<'_>,
) -> Result<(Tensor, Tensor)> {
    let part = |part: &str| weights.get(&format!("{}.{part}", lstm.name));
    let hidden_weight = part("hidden.weight")?;
    // The input's part of all steps at once; what remains for each step is the state's.
    let from_input = dense(features, part("input.weight")?, part("bias")?)?;
    let from_input = from_input.reshape((memory.steps, memory.columns, 4 * lstm.width))?;
    let mut hidden = memory.state.narrow(1, lstm.state_offset, lstm.width)?.contiguous()?;
    let mut cell = memory.state.narrow(1, lstm.state_offset + lstm.width, lstm.width)?.contiguous()?;
    let mut outputs = Vec::with_capacity(memory.steps);
    for (step, from_input) in unstack(&from_input)?.iter().enumerate() {
        (hidden, cell) = (memory.before_step(step, &hidden)?, memory.before_step(step, &cell)?);
        (hidden, cell) = lstm_step(from_input, &hidden, &cell, hidden_weight)?;
        outputs.push(hidden.clone());
    }
    Ok((Tensor::cat(&outputs, 0)?, Tensor::cat(&[hidden, cell], 1)?))
}

impl Dense {
    fn apply(&self, weights: &CandleWeights, x: &Tensor) -> Result<Tensor> {
        dense(x, weights.get(&format!("{}.weight", self.name))?, weights.get(&format!("{}.bias", self.name))?)
    }
}

impl Conv {
    fn apply(&self, weights: &CandleWeights, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) =
            (weights.get(&format!("{}.weight", self.name))?, weights.get(&format!("{}.bias", self.name))?);
        conv(x, weight, bias, self.stride, self.padding)
    }
}

impl Section {
    fn apply(&self, weights: &CandleWeights, x: &Tensor) -> Result<Tensor> {
        let mut x = max_pool(&self.conv.apply(weights, x)?)?;
        for [first, second] in &self.blocks {
            let inside = first.apply(weights, &relu(&x)?)?;
            x = (x + second.apply(weights, &relu(&inside)?)?)?;
        }
        Ok(x)
    }
}
