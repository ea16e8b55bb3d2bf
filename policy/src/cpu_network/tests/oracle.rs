//! The network once more: in double precision, one number after the other, in the notation of the papers.

use super::batch::Batch;
use crate::{Activation, Encoder, NetworkSpec, ParamLayout, Space, Torso};

/// What a network says about a batch.
#[derive(Default)]
pub(super) struct Oracle {
    pub(super) logits: Vec<f64>,
    pub(super) values: Vec<f64>,
    /// After the last step, `[columns, state_len]`.
    pub(super) state: Vec<f64>,
}

/// What a network of this description says, with parameters of this layout.
pub(super) fn outputs(spec: &NetworkSpec, layout: &ParamLayout, params: &[f64], batch: &Batch) -> Oracle {
    let weights = Weights { layout, params };
    let mut out = Oracle { state: batch.state(), ..Oracle::default() };
    let columns = if spec.lstm.is_some() { out.state.len() / spec.state_len() } else { 1 };
    for (row, x) in batch.observations(spec).enumerate() {
        let state = &mut out.state[row % columns * spec.state_len()..][..spec.state_len()];
        if batch.starts(row) {
            state.fill(0.0);
        }
        let (policy, value) = match spec.torso {
            Torso::Shared => {
                let features = torso(spec, weights, "torso", &x, state);
                (features.clone(), features)
            }
            Torso::Separate => {
                let (policy_state, value_state) = state.split_at_mut(spec.state_len() / 2);
                let policy = torso(spec, weights, "policy_torso", &x, policy_state);
                (policy, torso(spec, weights, "value_torso", &x, value_state))
            }
        };
        out.logits.extend(weights.dense("policy", &policy));
        out.values.extend(weights.dense("value", &value));
    }
    out
}

/// From an observation to the features that the heads see. `state` is an LSTM's output, then its cell.
fn torso(spec: &NetworkSpec, weights: Weights<'_>, name: &str, x: &[f64], state: &mut [f64]) -> Vec<f64> {
    let features = match &spec.encoder {
        Encoder::Mlp { hidden, activation } => (0..hidden.len()).fold(x.to_vec(), |x, i| {
            let y = weights.dense(&format!("{name}.{i}"), &x);
            y.into_iter().map(|y| if *activation == Activation::Tanh { y.tanh() } else { y.max(0.0) }).collect()
        }),
        Encoder::NatureCnn { .. } => {
            let convs = [(32, 8, 4), (64, 4, 2), (64, 3, 1)].into_iter().enumerate();
            let image = convs.fold(Image::observed(spec, x), |image, (i, (channels, kernel, stride))| {
                weights.conv(&format!("{name}.{i}"), &image, channels, kernel, stride, 0).relu()
            });
            relu(&weights.dense(&format!("{name}.3"), &image.numbers))
        }
        Encoder::ImpalaCnn { channels, .. } => {
            let sections = channels.iter().enumerate();
            let image = sections.fold(Image::observed(spec, x), |image, (i, &channels)| {
                let conv =
                    |part: &str, x: &Image| weights.conv(&format!("{name}.section{i}.{part}"), x, channels, 3, 1, 1);
                let x = conv("conv", &image).max_pool();
                (0..2).fold(x, |x, block| {
                    let inside = conv(&format!("block{block}.conv0"), &x.relu()).relu();
                    x.plus(&conv(&format!("block{block}.conv1"), &inside))
                })
            });
            relu(&weights.dense(&format!("{name}.dense"), &relu(&image.numbers)))
        }
    };
    match spec.lstm {
        None => features,
        Some(width) => {
            let (h, c) = state.split_at_mut(width);
            weights.lstm(&format!("{name}.lstm"), &features, h, c);
            h.to_vec()
        }
    }
}

fn relu(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| x.max(0.0)).collect()
}

/// The parameters, by name.
#[derive(Clone, Copy)]
struct Weights<'a> {
    layout: &'a ParamLayout,
    params: &'a [f64],
}

impl<'a> Weights<'a> {
    fn tensor(self, name: &str) -> &'a [f64] {
        &self.params[self.layout.find(name).unwrap().range()]
    }

    /// y_j = b_j + Σ_i x_i W_ij
    fn dense(self, name: &str, x: &[f64]) -> Vec<f64> {
        let mut y = self.tensor(&format!("{name}.bias")).to_vec();
        add_product(x, self.tensor(&format!("{name}.weight")), &mut y);
        y
    }

    /// y(v, u, k) = b_k + Σ_ij Σ_c x(v s + i − p, u s + j − p, c) K(i, j, c, k), where x is zero outside
    fn conv(self, name: &str, x: &Image, channels: usize, kernel: usize, stride: usize, padding: usize) -> Image {
        let (kernels, bias) = (self.tensor(&format!("{name}.weight")), self.tensor(&format!("{name}.bias")));
        let side = |side: usize| (side + 2 * padding - kernel) / stride + 1;
        let (height, width) = (side(x.height), side(x.width));
        let mut numbers = Vec::new();
        for (v, u) in (0..height).flat_map(|v| (0..width).map(move |u| (v, u))) {
            let mut y = bias.to_vec();
            for (i, j) in (0..kernel).flat_map(|i| (0..kernel).map(move |j| (i, j))) {
                let Some(pixel) = x.pixel(v * stride + i, u * stride + j, padding) else { continue };
                let tap = (i * kernel + j) * x.channels * channels;
                add_product(pixel, &kernels[tap..tap + x.channels * channels], &mut y);
            }
            numbers.extend(y);
        }
        Image { numbers, height, width, channels }
    }

    /// i, f, g, o = x W + h U + b; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c')
    fn lstm(self, name: &str, x: &[f64], h: &mut [f64], c: &mut [f64]) {
        let mut gates = self.tensor(&format!("{name}.bias")).to_vec();
        add_product(x, self.tensor(&format!("{name}.input.weight")), &mut gates);
        add_product(h, self.tensor(&format!("{name}.hidden.weight")), &mut gates);
        let sigma = |x: f64| 1.0 / (1.0 + (-x).exp());
        let n = h.len();
        for k in 0..n {
            let [i, f, g, o] = [gates[k], gates[n + k], gates[2 * n + k], gates[3 * n + k]];
            c[k] = sigma(f) * c[k] + sigma(i) * g.tanh();
            h[k] = sigma(o) * c[k].tanh();
        }
    }
}

/// y_j += Σ_i x_i W_ij
fn add_product(x: &[f64], weight: &[f64], y: &mut [f64]) {
    for (x, row) in x.iter().zip(weight.chunks_exact(y.len())) {
        y.iter_mut().zip(row).for_each(|(y, w)| *y += x * w);
    }
}

/// An image, in the order y, x, channel.
struct Image {
    numbers: Vec<f64>,
    height: usize,
    width: usize,
    channels: usize,
}

impl Image {
    /// From an observation, in the order channel, y, x.
    fn observed(spec: &NetworkSpec, x: &[f64]) -> Self {
        let Space::Box { shape, .. } = &spec.obs else { panic!("no image") };
        let [channels, height, width] = shape[..] else { panic!("no image") };
        let places = (0..height * width).flat_map(|pixel| (0..channels).map(move |c| c * height * width + pixel));
        Self { numbers: places.map(|place| x[place]).collect(), height, width, channels }
    }

    /// The pixel at these coordinates, counted from `padding` outside; none if it is outside.
    fn pixel(&self, y: usize, x: usize, padding: usize) -> Option<&[f64]> {
        let (y, x) = (y.checked_sub(padding)?, x.checked_sub(padding)?);
        let inside = y < self.height && x < self.width;
        inside.then(|| &self.numbers[(y * self.width + x) * self.channels..][..self.channels])
    }

    fn relu(&self) -> Self {
        Self { numbers: relu(&self.numbers), ..*self }
    }

    fn plus(&self, other: &Self) -> Self {
        let numbers = self.numbers.iter().zip(&other.numbers).map(|(a, b)| a + b).collect();
        Self { numbers, ..*self }
    }

    /// The largest numbers of windows of 3×3, 2 apart, the first of which begins one pixel outside.
    fn max_pool(&self) -> Self {
        let (height, width) = (self.height.div_ceil(2), self.width.div_ceil(2));
        let mut numbers = Vec::new();
        for (v, u) in (0..height).flat_map(|v| (0..width).map(move |u| (v, u))) {
            let mut y = vec![f64::NEG_INFINITY; self.channels];
            for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                let Some(pixel) = self.pixel(2 * v + i, 2 * u + j, 1) else { continue };
                y.iter_mut().zip(pixel).for_each(|(y, x)| *y = y.max(*x));
            }
            numbers.extend(y);
        }
        Self { numbers, height, width, channels: self.channels }
    }
}
