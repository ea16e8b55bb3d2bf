//! The network as towers of linear layers, and the way of their weights from the flat vector to tensors and back.

use std::ops::Range;

use candle_core::{Device, Result, Tensor, Var};

use super::linear::{Activate, Linear};
use super::read;
use crate::spec::{POLICY_HEAD, VALUE_HEAD};
use crate::{Encoder, NetworkSpec, OutputGrads, Outputs, ParamLayout, Params, PolicyError, Torso};

/// How the network is computed.
pub(super) struct Plan {
    /// Towers share the observations and nothing else: one for both heads, or one for each.
    pub(super) towers: Vec<Tower>,
    /// The width of the widest activation, observations included.
    pub(super) widest: usize,
}

/// Linear layers one above the other; the last is the head.
pub(super) struct Tower {
    layers: Vec<Layer>,
    /// How many columns of the head are logits: they come first.
    logits: usize,
    /// How many are values: 0 or 1.
    values: usize,
}

/// A layer and its parameters. A head that serves both policy and value is one matrix here and two in the flat vector.
struct Layer {
    op: Linear,
    inputs: usize,
    outputs: usize,
    parts: Vec<Part>,
}

/// Some outputs of a layer and where their parameters lie.
struct Part {
    inputs: usize,
    outputs: usize,
    weight: Range<usize>,
    bias: Range<usize>,
}

/// The parameters of one stamp as tensors, tower by tower and layer by layer.
pub(super) struct Weights {
    stamp: u64,
    pub(super) towers: Vec<Vec<Affine>>,
}

pub(super) struct Affine {
    weight: Tensor,
    bias: Tensor,
}

impl Plan {
    pub(super) fn new(spec: &NetworkSpec, layout: &ParamLayout) -> std::result::Result<Self, PolicyError> {
        let Encoder::Mlp { hidden, activation } = &spec.encoder else {
            return Err(PolicyError::BadSpec { reason: "CandleNetwork computes Mlp encoders only".into() });
        };
        if spec.lstm.is_some() {
            return Err(PolicyError::BadSpec { reason: "CandleNetwork has no LSTM".into() });
        }
        let part = |name: &str| Part::find(layout, name);
        let tower = |torso: &str, heads: Vec<Part>, logits, values| {
            let mut layers = Vec::with_capacity(hidden.len() + 1);
            for layer in 0..hidden.len() {
                let parts = vec![part(&format!("{torso}.{layer}"))?];
                layers.push(Layer::of(parts, Activate::from(*activation), layer));
            }
            layers.push(Layer::of(heads, Activate::Not, hidden.len()));
            Ok(Tower { layers, logits, values })
        };
        let (policy, value) = (part(POLICY_HEAD)?, part(VALUE_HEAD)?);
        let towers = match spec.torso {
            Torso::Shared => vec![tower("torso", vec![policy, value], spec.dist_len, 1)?],
            Torso::Separate => {
                vec![tower("policy_torso", vec![policy], spec.dist_len, 0)?, tower("value_torso", vec![value], 0, 1)?]
            }
        };
        let widths = towers.iter().flat_map(|tower| &tower.layers).map(|layer| layer.inputs.max(layer.outputs));
        let widest = widths.max().unwrap_or(1);
        Ok(Self { towers, widest })
    }

    /// Tensors that no operation remembers.
    pub(super) fn upload_for_acting<'a>(
        &self,
        params: &Params,
        device: &Device,
        slot: &'a mut Option<Weights>,
    ) -> Result<&'a Weights> {
        self.upload(params, slot, |numbers, shape| Tensor::from_slice(numbers, shape, device))
    }

    /// Variables, so that operations on them make a graph.
    pub(super) fn upload_for_learning<'a>(
        &self,
        params: &Params,
        device: &Device,
        slot: &'a mut Option<Weights>,
    ) -> Result<&'a Weights> {
        self.upload(params, slot, |numbers, shape| Ok(Var::from_slice(numbers, shape, device)?.into_inner()))
    }

    fn upload<'a>(
        &self,
        params: &Params,
        slot: &'a mut Option<Weights>,
        tensor: impl Fn(&[f32], &[usize]) -> Result<Tensor>,
    ) -> Result<&'a Weights> {
        let current = match slot.take() {
            Some(weights) if weights.stamp == params.stamp() => weights,
            _ => {
                let layers =
                    |tower: &Tower| tower.layers.iter().map(|layer| layer.upload(params.values(), &tensor)).collect();
                Weights { stamp: params.stamp(), towers: self.towers.iter().map(layers).collect::<Result<_>>()? }
            }
        };
        Ok(slot.insert(current))
    }
}

impl Tower {
    /// The head's outputs, with no way back.
    pub(super) fn act(&self, weights: &[Affine], mut x: Tensor) -> Result<Tensor> {
        for (layer, Affine { weight, bias }) in self.layers.iter().zip(weights) {
            x = layer.op.act(&x, weight, bias)?;
        }
        Ok(x)
    }

    /// The head's outputs, with the graph behind them.
    pub(super) fn learn(&self, weights: &[Affine], mut x: Tensor) -> Result<Tensor> {
        for (layer, Affine { weight, bias }) in self.layers.iter().zip(weights) {
            x = layer.op.learn(&x, weight, bias)?;
        }
        Ok(x)
    }

    /// Adds the gradient of the parameters to the flat gradient, from that of the head.
    pub(super) fn backward(
        &self,
        weights: &[Affine],
        head: Tensor,
        head_grad: Vec<f32>,
        grad: &mut [f32],
    ) -> Result<()> {
        let head_grad = Tensor::from_vec(head_grad, head.dims(), head.device())?;
        // The gradient of Σ head · head_grad with head_grad held fixed is the one wanted.
        let found = (head * head_grad)?.sum_all()?.backward()?;
        for (layer, weights) in self.layers.iter().zip(weights) {
            if let Some(weight) = found.get(&weights.weight) {
                read(weight, |weight| layer.add_weight_grad(weight, grad))?;
            }
            if let Some(bias) = found.get(&weights.bias) {
                read(bias, |bias| layer.add_bias_grad(bias, grad))?;
            }
        }
        Ok(())
    }

    /// Copies the columns of the head to where they belong, from row `start` on.
    pub(super) fn split(&self, head: &[f32], start: usize, out: &mut Outputs) {
        let rows = head.chunks_exact(self.logits + self.values);
        let logits = out.logits[start * self.logits..].chunks_exact_mut(self.logits.max(1));
        if self.values == 0 {
            rows.zip(logits).for_each(|(row, logits)| logits.copy_from_slice(row));
        } else if self.logits == 0 {
            out.values[start..start + head.len()].copy_from_slice(head);
        } else {
            for ((row, logits), value) in rows.zip(logits).zip(&mut out.values[start..]) {
                logits.copy_from_slice(&row[..self.logits]);
                *value = row[self.logits];
            }
        }
    }

    /// The columns of the head's gradient, the reverse of [`Tower::split`].
    pub(super) fn join(&self, grads: &OutputGrads, start: usize, rows: usize) -> Vec<f32> {
        let mut head_grad = Vec::with_capacity(rows * (self.logits + self.values));
        for row in start..start + rows {
            head_grad.extend_from_slice(&grads.logits[row * self.logits..(row + 1) * self.logits]);
            head_grad.extend_from_slice(&grads.values[row..row + self.values]);
        }
        head_grad
    }
}

impl Layer {
    /// The layer number `level` from below. Below the lowest lie the observations, whose gradient nobody wants.
    fn of(parts: Vec<Part>, then: Activate, level: usize) -> Self {
        let input_grad = level > 0;
        let inputs = parts.iter().map(|part| part.inputs).max().unwrap_or(0);
        let outputs = parts.iter().map(|part| part.outputs).sum();
        Self { op: Linear { then, input_grad }, inputs, outputs, parts }
    }

    fn upload(&self, values: &[f32], tensor: impl Fn(&[f32], &[usize]) -> Result<Tensor>) -> Result<Affine> {
        let (weight_shape, bias_shape) = ([self.inputs, self.outputs], [self.outputs]);
        if let [part] = &self.parts[..] {
            let weight = tensor(&values[part.weight.clone()], &weight_shape)?;
            return Ok(Affine { weight, bias: tensor(&values[part.bias.clone()], &bias_shape)? });
        }
        let mut weight = Vec::with_capacity(self.inputs * self.outputs);
        for input in 0..self.inputs {
            for part in &self.parts {
                weight.extend_from_slice(&values[part.weight_row(input)]);
            }
        }
        let bias: Vec<_> = self.parts.iter().flat_map(|part| &values[part.bias.clone()]).copied().collect();
        Ok(Affine { weight: tensor(&weight, &weight_shape)?, bias: tensor(&bias, &bias_shape)? })
    }

    fn add_weight_grad(&self, from: &[f32], grad: &mut [f32]) {
        for (input, mut row) in from.chunks_exact(self.outputs).enumerate() {
            for part in &self.parts {
                let (own, rest) = row.split_at(part.outputs);
                add(&mut grad[part.weight_row(input)], own);
                row = rest;
            }
        }
    }

    fn add_bias_grad(&self, mut from: &[f32], grad: &mut [f32]) {
        for part in &self.parts {
            let (own, rest) = from.split_at(part.outputs);
            add(&mut grad[part.bias.clone()], own);
            from = rest;
        }
    }
}

impl Part {
    fn find(layout: &ParamLayout, layer: &str) -> std::result::Result<Self, PolicyError> {
        let (weight, bias) = (layout.find(&format!("{layer}.weight")), layout.find(&format!("{layer}.bias")));
        match (weight, bias) {
            (Some(weight), Some(bias)) if weight.shape.len() == 2 && bias.shape == weight.shape[1..] => Ok(Self {
                inputs: weight.shape[0],
                outputs: weight.shape[1],
                weight: weight.range(),
                bias: bias.range(),
            }),
            _ => Err(PolicyError::WrongParams { reason: format!("no linear layer `{layer}`") }),
        }
    }

    fn weight_row(&self, input: usize) -> Range<usize> {
        let start = self.weight.start + input * self.outputs;
        start..start + self.outputs
    }
}

fn add(sums: &mut [f32], terms: &[f32]) {
    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
}

/// `Ok` if parameters of layout `got` can be read as `expected`.
pub(super) fn check_layout(expected: &ParamLayout, got: &ParamLayout) -> std::result::Result<(), PolicyError> {
    if std::ptr::eq(expected, got) || expected == got {
        return Ok(());
    }
    let differing = expected.entries().iter().zip(got.entries()).find(|(expected, got)| expected != got);
    let reason = match differing {
        Some((expected, got)) => {
            let (a, b) = (&expected.name, &got.name);
            format!("expected `{a}` of shape {:?}, got `{b}` of shape {:?}", expected.shape, got.shape)
        }
        None => format!("expected {} tensors, got {}", expected.entries().len(), got.entries().len()),
    };
    Err(PolicyError::WrongParams { reason })
}
