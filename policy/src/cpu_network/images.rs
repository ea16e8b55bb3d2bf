//! The image encoders, which process one image at a time, so that it stays in the cache.

use super::conv::Conv;
use super::image_layout::ImageLayout;
use super::packing::Packing;
use super::residual::{Section, SectionBuffers};
use super::weights::Weights;
use crate::ops::{Finish, padded};
use crate::spec::{self, Image};
use crate::{ParamLayout, PolicyError};

/// Convolutions from an image to a row of features, after the last ReLU.
#[derive(Debug)]
pub(super) enum Images {
    /// Each layer followed by ReLU.
    Chain(Vec<Conv>),
    /// Sections with residual blocks, then ReLU.
    Residual(Vec<Section>),
}

/// Buffers for one image.
#[derive(Debug, Default)]
pub(super) struct ImageBuffers {
    /// The gradient of each layer's output.
    gradients: Vec<Vec<f32>>,
    sections: SectionBuffers,
}

impl Images {
    /// The layers for images of layout `input`.
    pub(super) fn chain(
        convs: &[spec::Conv],
        input: ImageLayout,
        layout: &ParamLayout,
        packing: &mut Packing,
    ) -> Result<Self, PolicyError> {
        let mut layers: Vec<Conv> = Vec::with_capacity(convs.len());
        let mut from = input;
        for conv in convs {
            let to = ImageLayout::inner(conv.output, 0);
            let below = layers.last().map(|below| below.gradient);
            layers.push(Conv::new(conv, from, to, below, layout, packing)?);
            from = to;
        }
        Ok(Self::Chain(layers))
    }

    /// The sections for images of layout `input`.
    pub(super) fn residual(
        sections: &[spec::Section],
        input: ImageLayout,
        layout: &ParamLayout,
        packing: &mut Packing,
    ) -> Result<Self, PolicyError> {
        let mut from = input;
        let mut built = Vec::with_capacity(sections.len());
        for (i, section) in sections.iter().enumerate() {
            let section = Section::new(section, from, i > 0, layout, packing)?;
            from = section.image;
            built.push(section);
        }
        Ok(Self::Residual(built))
    }

    /// The layout of the features.
    fn last(&self) -> Option<ImageLayout> {
        match self {
            Self::Chain(layers) => layers.last().map(|layer| layer.to),
            Self::Residual(sections) => sections.last().map(|section| ImageLayout { border: 0, ..section.image }),
        }
    }

    /// The layout of a row of features: numbers per pixel without and with padding, and in all.
    pub(super) fn features(&self, image: Image) -> super::dense::InputRows {
        let stored = self.last().map_or(0, ImageLayout::len);
        super::dense::InputRows { run: image.channels, padded_run: padded(image.channels), len: stored }
    }

    /// Numbers of an image that the backward pass needs.
    pub(super) fn kept_len(&self) -> usize {
        match self {
            // The last layer's output is the features.
            Self::Chain(layers) => layers.iter().rev().skip(1).map(|layer| layer.to.len()).sum(),
            Self::Residual(sections) => sections.iter().map(Section::kept_len).sum(),
        }
    }

    /// Indices of maxima that the backward pass needs.
    pub(super) fn argmax_len(&self) -> usize {
        match self {
            Self::Chain(_) => 0,
            Self::Residual(sections) => sections.iter().map(Section::argmax_len).sum(),
        }
    }

    /// Computes one image's features. Fills `kept`, whose borders are zero, and `argmax` for the backward
    /// pass.
    pub(super) fn forward(
        &self,
        weights: &Weights,
        image: &[f32],
        (mut kept, mut argmax): (&mut [f32], &mut [u8]),
        features: &mut [f32],
        buffers: &mut ImageBuffers,
    ) {
        match self {
            Self::Chain(layers) => {
                let mut x = image;
                let last = layers.len() - 1;
                for (i, layer) in layers.iter().enumerate() {
                    if i == last {
                        layer.forward(weights, x, features, Finish::Relu);
                        break;
                    }
                    let (y, rest) = std::mem::take(&mut kept).split_at_mut(layer.to.len());
                    layer.forward(weights, x, y, Finish::Relu);
                    (x, kept) = (y, rest);
                }
            }
            Self::Residual(sections) => {
                let mut x = image;
                for section in sections {
                    let (own, rest) = std::mem::take(&mut kept).split_at_mut(section.kept_len());
                    let (own_argmax, rest_argmax) = std::mem::take(&mut argmax).split_at_mut(section.argmax_len());
                    x = section.forward(weights, x, (own, own_argmax), &mut buffers.sections);
                    (kept, argmax) = (rest, rest_argmax);
                }
                if let Some(section) = sections.last() {
                    let rows = features.chunks_exact_mut(section.image.width * section.image.channels);
                    section.image.rows(x).zip(rows).for_each(|(x, y)| crate::ops::relu(x, y));
                }
            }
        }
    }

    /// Adds one image's gradients to a packed gradient, from the gradient before the ReLU that made the
    /// features.
    pub(super) fn backward(
        &self,
        weights: &Weights,
        image: &[f32],
        (kept, argmax): (&[f32], &[u8]),
        features_grad: &[f32],
        grad: &mut [f32],
        buffers: &mut ImageBuffers,
    ) {
        match self {
            Self::Chain(layers) => {
                buffers.gradients.resize_with(layers.len(), Vec::new);
                for (layer, gradient) in layers.iter().zip(&mut buffers.gradients) {
                    gradient.resize(layer.gradient.len(), 0.0);
                }
                let mut end = kept.len();
                for (i, layer) in layers.iter().enumerate().rev() {
                    let (below, own) = buffers.gradients.split_at_mut(i);
                    let own = &mut own[0];
                    if i + 1 == layers.len() {
                        copy_into(layer.gradient, features_grad, own);
                    }
                    let Some(below) = below.last_mut() else {
                        layer.add_weight_gradient(image, own, grad);
                        break;
                    };
                    let x = &kept[end - layer.from.len()..end];
                    end -= layer.from.len();
                    layer.add_weight_gradient(x, own, grad);
                    layer.input_gradient(weights, own, Conv::relu_slope(x), below);
                }
            }
            Self::Residual(sections) => {
                let last = sections.len() - 1;
                buffers.sections.prepare(sections);
                copy_into(sections[last].image, features_grad, buffers.sections.gradient(last));
                let (mut end, mut argmax_end) = (kept.len(), argmax.len());
                for (i, section) in sections.iter().enumerate().rev() {
                    let own = &kept[end - section.kept_len()..end];
                    let own_argmax = &argmax[argmax_end - section.argmax_len()..argmax_end];
                    (end, argmax_end) = (end - section.kept_len(), argmax_end - section.argmax_len());
                    let x = match i.checked_sub(1) {
                        None => image,
                        Some(below) => sections[below].output(&kept[end - sections[below].kept_len()..end]),
                    };
                    section.backward(weights, x, (own, own_argmax), i, grad, &mut buffers.sections);
                }
            }
        }
    }
}

/// Copies an image without border into one with a border.
fn copy_into(canvas: ImageLayout, image: &[f32], numbers: &mut [f32]) {
    let rows = image.chunks_exact(canvas.width * canvas.channels);
    canvas.rows_mut(numbers).zip(rows).for_each(|(to, from)| to.copy_from_slice(from));
}
