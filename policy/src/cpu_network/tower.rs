//! One tower (see [`spec::Tower`]), forward and backward.

use super::dense::{Dense, DenseBuffers, InputRows};
use super::image_layout::ImageLayout;
use super::images::{ImageBuffers, Images};
use super::lstm::{Lstm, LstmActivations, LstmBuffers, Sequence, Steps};
use super::observations::Observations;
use super::packing::Packing;
use super::weights::Weights;
use crate::spec::{self, EncoderLayers, Image};
use crate::{Activation, ParamLayout, PolicyError};

/// The layers of one tower.
#[derive(Debug)]
pub(super) struct Tower {
    /// The convolutions, and the layout of their images.
    images: Option<(Images, ImageLayout)>,
    obs_len: usize,
    activation: Activation,
    layers: Vec<Dense>,
    lstm: Option<Lstm>,
    head: Dense,
    /// Columns of the head: logits first.
    pub(super) logits: usize,
    pub(super) values: usize,
}

/// Activations of a micro-batch in a tower.
#[derive(Debug, Default)]
pub(super) struct Activations {
    kept: Vec<f32>,
    argmax: Vec<u8>,
    features: Vec<f32>,
    layers: Vec<Vec<f32>>,
    lstm: LstmActivations,
    /// The output of the head and its gradient, in rows of [`Tower::head_row`].
    pub(super) head: Vec<f32>,
    pub(super) head_grad: Vec<f32>,
}

/// Reused scratch buffers.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    image: Vec<f32>,
    images: ImageBuffers,
    lstm: LstmBuffers,
    grads: [Vec<f32>; 2],
    dense: DenseBuffers,
}

/// What the forward pass keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// All that the backward pass needs.
    Everything,
    /// Only the outputs.
    Outputs,
}

impl Tower {
    pub(super) fn new(
        tower: &spec::Tower,
        obs_len: usize,
        layout: &ParamLayout,
        packing: &mut Packing,
    ) -> Result<Self, PolicyError> {
        let mut layers = Vec::new();
        let mut rows = InputRows::plain(obs_len);
        let mut activation = Activation::Relu;
        let images = match &tower.encoder {
            EncoderLayers::Mlp { layers: mlp, activation: then } => {
                activation = *then;
                for layer in mlp {
                    let above = !layers.is_empty();
                    layers.push(Dense::new(&[layer], rows, Some(*then), above, layout, packing)?);
                    rows = InputRows::plain(layer.outputs);
                }
                None
            }
            EncoderLayers::Nature { convs, dense } => {
                let input = convs.first().map_or(Image::NONE, |conv| conv.input);
                let canvas = observed(input, 0);
                let images = Images::chain(convs, canvas, layout, packing)?;
                let last = convs.last().map_or(Image::NONE, |conv| conv.output);
                rows = images.features(last);
                layers.push(Dense::new(&[dense], rows, Some(Activation::Relu), true, layout, packing)?);
                rows = InputRows::plain(dense.outputs);
                Some((images, canvas))
            }
            EncoderLayers::Impala { sections, dense } => {
                let input = sections.first().map_or(Image::NONE, |section| section.conv.input);
                let canvas = observed(input, 1);
                let images = Images::residual(sections, canvas, layout, packing)?;
                let last = sections.last().map_or(Image::NONE, |section| section.pooled);
                rows = images.features(last);
                layers.push(Dense::new(&[dense], rows, Some(Activation::Relu), true, layout, packing)?);
                rows = InputRows::plain(dense.outputs);
                Some((images, canvas))
            }
        };
        let lstm = match &tower.lstm {
            None => None,
            Some(lstm) => Some(Lstm::new(lstm, rows, !layers.is_empty(), layout, packing)?),
        };
        if let Some(lstm) = &tower.lstm {
            rows = InputRows::plain(lstm.width);
        }
        let heads: Vec<_> = tower.policy.iter().chain(&tower.value).collect();
        let above = lstm.is_some() || !layers.is_empty();
        let head = Dense::new(&heads, rows, None, above, layout, packing)?;
        let outputs = |head: &Option<spec::Dense>| head.as_ref().map_or(0, |head| head.outputs);
        let (logits, values) = (outputs(&tower.policy), outputs(&tower.value));
        Ok(Self { images, obs_len, activation, layers, lstm, head, logits, values })
    }

    /// The distance of rows of the head.
    pub(super) fn head_row(&self) -> usize {
        self.head.output_row()
    }

    /// The width of the widest layer.
    pub(super) fn widest(&self) -> usize {
        let lstm = self.lstm.iter().map(Lstm::gates_row);
        self.layers.iter().map(Dense::output_row).chain(lstm).fold(self.head_row(), usize::max)
    }

    /// Whether its observations are images.
    pub(super) fn has_images(&self) -> bool {
        self.images.is_some()
    }

    /// Computes the head; with [`Keep::Everything`] keeps all that [`Tower::backward`] needs.
    pub(super) fn forward(
        &self,
        weights: &Weights,
        obs: &Observations,
        (steps, state): (Steps<'_>, (&mut [f32], usize)),
        keep: Keep,
        activations: &mut Activations,
        scratch: &mut Scratch,
    ) {
        let rows = obs.rows();
        self.encode_images(weights, obs, keep, activations, scratch);
        activations.layers.resize_with(self.layers.len(), Vec::new);
        for (i, layer) in self.layers.iter().enumerate() {
            let (below, own) = activations.layers.split_at_mut(i);
            let x = match below.last() {
                Some(below) => (below.as_slice(), self.layers[i - 1].output_row()),
                None => self.first_input(obs, &activations.features),
            };
            let y = &mut own[0];
            y.resize(rows * layer.output_row(), 0.0);
            layer.forward(weights, rows, x, y);
        }
        if let Some(lstm) = &self.lstm {
            let features =
                top(&self.layers, &activations.layers).unwrap_or(self.first_input(obs, &activations.features));
            let sequence = Sequence { rows, features, steps };
            lstm.forward(weights, sequence, state, &mut activations.lstm, &mut scratch.lstm);
        }
        let features = match &self.lstm {
            Some(lstm) => (activations.lstm.hidden.as_slice(), lstm.output_row()),
            None => top(&self.layers, &activations.layers).unwrap_or(self.first_input(obs, &activations.features)),
        };
        activations.head.resize(rows * self.head_row(), 0.0);
        self.head.forward(weights, rows, features, &mut activations.head);
    }

    /// Computes the features of images.
    fn encode_images(
        &self,
        weights: &Weights,
        obs: &Observations,
        keep: Keep,
        activations: &mut Activations,
        scratch: &mut Scratch,
    ) {
        let (Some((images, canvas)), Some(layer)) = (&self.images, self.layers.first()) else { return };
        let (features_row, images_kept) = (layer.input_row(), if keep == Keep::Everything { obs.rows() } else { 1 });
        let (kept_len, argmax_len) = (images.kept_len(), images.argmax_len());
        activations.features.resize(obs.rows() * features_row, 0.0);
        activations.kept.resize(images_kept * kept_len, 0.0);
        activations.argmax.resize(images_kept * argmax_len, 0);
        scratch.image.resize(canvas.len(), 0.0);
        for (i, features) in activations.features.chunks_exact_mut(features_row).enumerate() {
            obs.draw(i, *canvas, &mut scratch.image);
            let at = if keep == Keep::Everything { i } else { 0 };
            let kept = &mut activations.kept[at * kept_len..][..kept_len];
            let argmax = &mut activations.argmax[at * argmax_len..][..argmax_len];
            images.forward(weights, &scratch.image, (kept, argmax), features, &mut scratch.images);
        }
    }

    /// The input of the first dense layer.
    fn first_input<'a>(&self, obs: &'a Observations, features: &'a [f32]) -> (&'a [f32], usize) {
        match (&self.images, self.layers.first()) {
            (Some(_), Some(layer)) => (features, layer.input_row()),
            _ => (obs.numbers(), self.obs_len),
        }
    }

    /// Adds the gradients of the first `rows` rows to a packed gradient, from those of the head in the
    /// activations.
    pub(super) fn backward(
        &self,
        weights: &Weights,
        (obs, rows): (&Observations, usize),
        steps: Steps<'_>,
        grad: &mut [f32],
        activations: &Activations,
        scratch: &mut Scratch,
    ) {
        let Scratch { image, images: image_buffers, lstm: lstm_buffers, grads: [g, x_grad], dense } = scratch;
        // Swapped here, not in the scratch, so that each buffer has the same size in every batch.
        let (mut g, mut x_grad) = (g, x_grad);
        let observed = self.first_input(obs, &activations.features);
        let encoded = top(&self.layers, &activations.layers);
        let below = encoded.map(|(y, _)| (self.activation, y));
        let features = encoded.unwrap_or(observed);
        match &self.lstm {
            None => {
                self.head.add_weight_gradient(rows, features, &activations.head_grad, grad, dense);
                g.resize(rows * self.head.input_row(), 0.0);
                self.head.input_gradient(weights, rows, &activations.head_grad, below, g);
            }
            Some(lstm) => {
                let hidden = (activations.lstm.hidden.as_slice(), lstm.output_row());
                self.head.add_weight_gradient(rows, hidden, &activations.head_grad, grad, dense);
                x_grad.resize(rows * lstm.output_row(), 0.0);
                self.head.input_gradient(weights, rows, &activations.head_grad, None, x_grad);
                g.resize(rows * lstm.input_row(), 0.0);
                let sequence = Sequence { rows, features, steps };
                lstm.backward(weights, sequence, &activations.lstm, (x_grad, grad), (lstm_buffers, dense));
                lstm.input_gradient(weights, rows, lstm_buffers, below, g);
            }
        }
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let (x, below) = match i.checked_sub(1) {
                Some(i) => {
                    let y = activations.layers[i].as_slice();
                    ((y, self.layers[i].output_row()), Some((self.activation, y)))
                }
                None => (observed, Some((Activation::Relu, activations.features.as_slice()))),
            };
            layer.add_weight_gradient(rows, x, g, grad, dense);
            if i > 0 || self.images.is_some() {
                x_grad.resize(rows * layer.input_row(), 0.0);
                layer.input_gradient(weights, rows, g, below, x_grad);
                std::mem::swap(&mut g, &mut x_grad);
            }
        }
        let (Some((images, canvas)), Some(layer)) = (&self.images, self.layers.first()) else { return };
        for (i, features_grad) in g[..rows * layer.input_row()].chunks_exact(layer.input_row()).enumerate() {
            obs.draw(i, *canvas, image);
            let kept = &activations.kept[i * images.kept_len()..][..images.kept_len()];
            let argmax = &activations.argmax[i * images.argmax_len()..][..images.argmax_len()];
            images.backward(weights, image, (kept, argmax), features_grad, grad, image_buffers);
        }
    }
}

/// The output of the last layer, and the distance of its rows.
fn top<'a>(layers: &[Dense], outputs: &'a [Vec<f32>]) -> Option<(&'a [f32], usize)> {
    layers.last().zip(outputs.last()).map(|(layer, output)| (output.as_slice(), layer.output_row()))
}

/// The canvas of an observation: channels as they are.
fn observed(image: Image, border: usize) -> ImageLayout {
    ImageLayout { height: image.height, width: image.width, channels: image.channels, border }
}
