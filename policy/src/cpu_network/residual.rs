//! A section of the residual network: convolution, pool, two residual blocks.

use super::conv::Conv;
use super::image_layout::ImageLayout;
use super::packing::Packing;
use super::weights::Weights;
use crate::ops::{Finish, max_pool_row, max_pool_row_back, relu};
use crate::{ParamLayout, PolicyError, spec};

/// One section. All layouts have a border of 1, so that a pixel has the same place in all.
#[derive(Debug)]
pub(super) struct Section {
    conv: Conv,
    /// The image after the pool and after each block.
    pub(super) image: ImageLayout,
    blocks: [[Conv; 2]; 2],
}

/// Reused buffers for one image, shared by all sections.
#[derive(Debug, Default)]
pub(super) struct SectionBuffers {
    /// The input of a pool, and its gradient.
    before_pool: Vec<f32>,
    before_pool_grads: Vec<Vec<f32>>,
    /// The gradient of each section's image.
    gradients: Vec<Vec<f32>>,
    /// The gradient inside a block.
    inside: Vec<Vec<f32>>,
}

impl SectionBuffers {
    /// Allocates for the backward pass. Borders stay zero.
    pub(super) fn prepare(&mut self, sections: &[Section]) {
        let lengths = |buffers: &mut Vec<Vec<f32>>, len: fn(&Section) -> usize| {
            buffers.resize_with(sections.len(), Vec::new);
            buffers.iter_mut().zip(sections).for_each(|(buffer, section)| buffer.resize(len(section), 0.0));
        };
        lengths(&mut self.before_pool_grads, |section| section.conv.gradient.len());
        lengths(&mut self.gradients, |section| section.image.len());
        lengths(&mut self.inside, |section| section.image.len());
    }

    /// The gradient of a section's image.
    pub(super) fn gradient(&mut self, section: usize) -> &mut [f32] {
        &mut self.gradients[section]
    }
}

/// Activations of an image in a section: five layouts of one size.
const IMAGES_KEPT: usize = 5;

impl Section {
    /// A section that reads `from`. With `input_gradient` it can compute the gradient of its input.
    pub(super) fn new(
        section: &spec::Section,
        from: ImageLayout,
        input_gradient: bool,
        layout: &ParamLayout,
        packing: &mut Packing,
    ) -> Result<Self, PolicyError> {
        let image = ImageLayout::inner(section.pooled, 1);
        let before_pool = ImageLayout::inner(section.conv.output, 0);
        let below = input_gradient.then_some(from);
        let conv = Conv::new(&section.conv, from, before_pool, below, layout, packing)?;
        let mut inner = |conv| Conv::new(conv, image, image, Some(image), layout, packing);
        let [[a, b], [c, d]] = &section.blocks;
        let blocks = [[inner(a)?, inner(b)?], [inner(c)?, inner(d)?]];
        Ok(Self { conv, image, blocks })
    }

    pub(super) fn kept_len(&self) -> usize {
        IMAGES_KEPT * self.image.len()
    }

    pub(super) fn argmax_len(&self) -> usize {
        ImageLayout { border: 0, ..self.image }.len()
    }

    /// The section's output in the kept activations.
    pub(super) fn output<'a>(&self, kept: &'a [f32]) -> &'a [f32] {
        &kept[..self.image.len()]
    }

    /// The output, at the start of `kept`.
    pub(super) fn forward<'a>(
        &self,
        weights: &Weights,
        x: &[f32],
        (kept, argmax): (&'a mut [f32], &mut [u8]),
        buffers: &mut SectionBuffers,
    ) -> &'a [f32] {
        let canvas = self.conv.to;
        buffers.before_pool.resize(buffers.before_pool.len().max(canvas.len()), 0.0);
        self.conv.forward(weights, x, &mut buffers.before_pool, Finish::Nothing);
        let (image, inside) = kept.split_at_mut(self.image.len());
        pool(canvas, &buffers.before_pool[..canvas.len()], self.image, image, argmax);
        let pairs = inside.chunks_exact_mut(2 * self.image.len());
        for ([first, second], pair) in self.blocks.iter().zip(pairs) {
            let (squashed, between) = pair.split_at_mut(self.image.len());
            relu(image, squashed);
            first.forward(weights, squashed, between, Finish::Relu);
            second.add_forward(weights, between, image);
        }
        image
    }

    /// Adds the gradients of section `index`, and stores that of its input as the gradient of the section
    /// before.
    pub(super) fn backward(
        &self,
        weights: &Weights,
        x: &[f32],
        (kept, argmax): (&[f32], &[u8]),
        index: usize,
        grad: &mut [f32],
        buffers: &mut SectionBuffers,
    ) {
        let (below, own) = buffers.gradients.split_at_mut(index);
        let image_grad = &mut own[0];
        let inside_grad = &mut buffers.inside[index];
        let pairs = kept[self.image.len()..].chunks_exact(2 * self.image.len());
        for ([first, second], pair) in self.blocks.iter().zip(pairs).rev() {
            let (squashed, between) = pair.split_at(self.image.len());
            second.add_weight_gradient(between, image_grad, grad);
            second.input_gradient(weights, image_grad, Conv::relu_slope(between), inside_grad);
            first.add_weight_gradient(squashed, inside_grad, grad);
            first.input_gradient(weights, inside_grad, Conv::add_relu_slope(squashed), image_grad);
        }
        let before_pool_grad = &mut buffers.before_pool_grads[index];
        pool_back(self.image, image_grad, argmax, self.conv.gradient, before_pool_grad);
        self.conv.add_weight_gradient(x, before_pool_grad, grad);
        if let Some(below) = below.last_mut() {
            self.conv.input_gradient(weights, before_pool_grad, |_| Finish::Nothing, below);
        }
    }
}

/// The max-pool of 3×3 with stride 2 and padding 1, and the argmax of each window.
fn pool(from: ImageLayout, x: &[f32], to: ImageLayout, y: &mut [f32], argmax: &mut [u8]) {
    let argmax = argmax.chunks_exact_mut(to.width * to.channels);
    for (row, (y, argmax)) in to.rows_mut(y).zip(argmax).enumerate() {
        // The window begins a row above; the first window's first row is outside.
        let top = 2 * row;
        let first = usize::from(top == 0);
        let mut seen: [&[f32]; 3] = [&[]; 3];
        let rows = from.rows(x).skip(top + first - 1).take(3 - first);
        let count = seen.iter_mut().zip(rows).map(|(seen, row)| *seen = row).count();
        max_pool_row(&seen[..count], first, to.channels, y, argmax);
    }
}

/// The gradient of the pool's input.
fn pool_back(to: ImageLayout, grads: &[f32], argmax: &[u8], from: ImageLayout, x_grad: &mut [f32]) {
    from.rows_mut(x_grad).for_each(|row| row.fill(0.0));
    let argmax = argmax.chunks_exact(to.width * to.channels);
    for (row, (grads, argmax)) in to.rows(grads).zip(argmax).enumerate() {
        let first = usize::from(row == 0);
        let rows = from.rows_mut(x_grad).skip(2 * row + first - 1).take(3 - first);
        for (dy, x_grad) in rows.enumerate() {
            max_pool_row_back(grads, argmax, first + dy, to.channels, x_grad);
        }
    }
}
