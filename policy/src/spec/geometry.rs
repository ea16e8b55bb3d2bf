//! The layers of a network with their names and sizes, for both implementations.

use super::{Activation, Encoder, NetworkSpec, POLICY_HEAD, Torso, VALUE_HEAD};
use crate::Space;

/// One tower of a two-tower network: an encoder with its LSTM and heads. [`Torso::Shared`] is a single tower
/// with both heads; with [`Torso::Separate`] the policy and the value have a tower each, which share only the
/// observations.
#[derive(Clone, Debug)]
pub(crate) struct Tower {
    /// The encoder.
    pub(crate) encoder: EncoderLayers,
    /// The recurrent core.
    pub(crate) lstm: Option<Lstm>,
    /// The layer whose outputs are logits.
    pub(crate) policy: Option<Dense>,
    /// The layer whose output is the value.
    pub(crate) value: Option<Dense>,
}

/// The layers of an [`Encoder`].
#[derive(Clone, Debug)]
pub(crate) enum EncoderLayers {
    /// Dense layers, each followed by the activation.
    Mlp {
        /// From the observation.
        layers: Vec<Dense>,
        /// The activation after each.
        activation: Activation,
    },
    /// Layers each followed by ReLU.
    Nature {
        /// From the observation.
        convs: Vec<Conv>,
        /// On the last image, flattened in the order y, x, channel.
        dense: Dense,
    },
    /// Sections, ReLU, the dense layer, ReLU.
    Impala {
        /// From the observation.
        sections: Vec<Section>,
        /// On the last image, flattened in the order y, x, channel.
        dense: Dense,
    },
}

/// A convolution, a max-pool of 3×3 with stride 2 and padding 1, and two residual blocks.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// The first layer.
    pub(crate) conv: Conv,
    /// The image after the pool.
    pub(crate) pooled: Image,
    /// `x + second(relu(first(relu(x))))`.
    pub(crate) blocks: [[Conv; 2]; 2],
}

/// A layer `x · weight + bias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dense {
    /// Its tensors are `{name}.weight` and `{name}.bias`.
    pub(crate) name: String,
    /// The width of its input.
    pub(crate) inputs: usize,
    /// The width of its output.
    pub(crate) outputs: usize,
}

/// A convolution with square kernels and a bias; padding is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conv {
    /// Its tensors are `{name}.weight`, `[ky, kx, in_channels, out_channels]`, and `{name}.bias`.
    pub(crate) name: String,
    /// Its input.
    pub(crate) input: Image,
    /// Its output.
    pub(crate) output: Image,
    /// The side of a kernel.
    pub(crate) kernel: usize,
    /// The stride.
    pub(crate) stride: usize,
    /// The padding.
    pub(crate) padding: usize,
}

/// An LSTM. Gates are in the order i, f, g, o.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lstm {
    /// Its tensors are `{name}.input.weight`, `{name}.hidden.weight` and `{name}.bias`.
    pub(crate) name: String,
    /// The features it reads.
    pub(crate) inputs: usize,
    /// The width of output and cell.
    pub(crate) width: usize,
    /// The offset of its output in a row of the state; its cell follows.
    pub(crate) state_offset: usize,
}

/// The size of an image inside a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Numbers per pixel.
    pub(crate) channels: usize,
    /// Rows of pixels.
    pub(crate) height: usize,
    /// Pixels in a row.
    pub(crate) width: usize,
}

type Tensors = Vec<(String, Vec<usize>)>;

impl NetworkSpec {
    /// The layers: one tower for both heads, or one for the policy and one for the value.
    pub(crate) fn towers(&self) -> Vec<Tower> {
        let torsos = self.torso.names().iter().enumerate();
        torsos
            .map(|(i, torso)| {
                let encoder = self.encoder.layers(&self.obs, torso);
                let inputs = encoder.features().unwrap_or(self.obs.obs_len());
                let lstm = self.lstm.map(|width| Lstm {
                    name: format!("{torso}.lstm"),
                    inputs,
                    width,
                    state_offset: width.saturating_mul(2 * i),
                });
                let features = self.lstm.unwrap_or(inputs);
                let is_policy = self.torso == Torso::Shared || i == 0;
                let is_value = self.torso == Torso::Shared || i == 1;
                let head = |name: &str, outputs| Dense { name: name.into(), inputs: features, outputs };
                Tower {
                    encoder,
                    lstm,
                    policy: is_policy.then(|| head(POLICY_HEAD, self.dist_len)),
                    value: is_value.then(|| head(VALUE_HEAD, 1)),
                }
            })
            .collect()
    }
}

impl Torso {
    /// The prefix of each tower's tensors.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Shared => &["torso"],
            Self::Separate => &["policy_torso", "value_torso"],
        }
    }
}

impl Encoder {
    /// Why it cannot be built for these observations.
    pub(super) fn check(&self, obs: &Space) -> Result<(), String> {
        let zero = |widths: &[usize]| widths.iter().position(|&width| width == 0);
        match self {
            Self::Mlp { hidden, .. } => match zero(hidden) {
                Some(layer) => {
                    Err(format!("hidden layer {layer} has width 0: give every layer a width, or leave it out"))
                }
                None => Ok(()),
            },
            Self::NatureCnn { hidden: 0 } | Self::ImpalaCnn { hidden: 0, .. } => {
                Err("the dense layer has width 0: give `hidden` a width, such as 512".into())
            }
            Self::NatureCnn { .. } => {
                let Image { channels, height, width } = Image::of("NatureCnn", obs)?;
                if height.min(width) < NATURE_MIN_SIDE {
                    let advice = match obs.looks_channels_last() {
                        true => "move the channels, which seem to be its last axis, to the front",
                        false => "enlarge them, or take ImpalaCnn",
                    };
                    return Err(format!(
                        "NatureCnn needs images of at least {NATURE_MIN_SIDE}×{NATURE_MIN_SIDE}, and reads the shape \
                         [{channels}, {height}, {width}] as {channels} channels of {height}×{width}: {advice}"
                    ));
                }
                Ok(())
            }
            Self::ImpalaCnn { channels, .. } => {
                Image::of("ImpalaCnn", obs)?;
                match zero(channels) {
                    _ if channels.is_empty() => {
                        Err("ImpalaCnn has no section: give it channels, such as [16, 32, 32]".into())
                    }
                    Some(section) => Err(format!("section {section} of ImpalaCnn has 0 channels: leave it out")),
                    None => Ok(()),
                }
            }
        }
    }

    /// The layers below `torso`, of a checked encoder.
    fn layers(&self, obs: &Space, torso: &str) -> EncoderLayers {
        match self {
            Self::Mlp { hidden, activation } => {
                let inputs = std::iter::once(obs.obs_len()).chain(hidden.iter().copied());
                let layer = |(i, (inputs, &outputs))| Dense { name: format!("{torso}.{i}"), inputs, outputs };
                EncoderLayers::Mlp {
                    layers: inputs.zip(hidden).enumerate().map(layer).collect(),
                    activation: *activation,
                }
            }
            Self::NatureCnn { hidden } => {
                let mut image = Image::of("NatureCnn", obs).unwrap_or(Image::NONE);
                let mut convs = Vec::with_capacity(NATURE_CONVS.len());
                for (i, (channels, kernel, stride)) in NATURE_CONVS.into_iter().enumerate() {
                    let conv = Conv::new(format!("{torso}.{i}"), image, channels, kernel, stride, 0);
                    image = conv.output;
                    convs.push(conv);
                }
                let name = format!("{torso}.{}", NATURE_CONVS.len());
                EncoderLayers::Nature { convs, dense: Dense { name, inputs: image.len(), outputs: *hidden } }
            }
            Self::ImpalaCnn { channels, hidden } => {
                let mut image = Image::of("ImpalaCnn", obs).unwrap_or(Image::NONE);
                let mut sections = Vec::with_capacity(channels.len());
                for (i, &channels) in channels.iter().enumerate() {
                    let section = Section::new(&format!("{torso}.section{i}"), image, channels);
                    image = section.pooled;
                    sections.push(section);
                }
                let name = format!("{torso}.dense");
                EncoderLayers::Impala { sections, dense: Dense { name, inputs: image.len(), outputs: *hidden } }
            }
        }
    }
}

/// Number, side and stride of kernels.
const NATURE_CONVS: [(usize, usize, usize); 3] = [(32, 8, 4), (64, 4, 2), (64, 3, 1)];

/// 36 pixels become 8, 3 and 1.
const NATURE_MIN_SIDE: usize = 36;

impl EncoderLayers {
    /// The width of the features; `None` if they are the observation.
    pub(crate) fn features(&self) -> Option<usize> {
        match self {
            Self::Mlp { layers, .. } => layers.last().map(|layer| layer.outputs),
            Self::Nature { dense, .. } | Self::Impala { dense, .. } => Some(dense.outputs),
        }
    }

    fn tensors(&self) -> Tensors {
        match self {
            Self::Mlp { layers, .. } => layers.iter().flat_map(Dense::tensors).collect(),
            Self::Nature { convs, dense } => convs.iter().flat_map(Conv::tensors).chain(dense.tensors()).collect(),
            Self::Impala { sections, dense } => {
                let convs = sections.iter().flat_map(Section::convs);
                convs.flat_map(Conv::tensors).chain(dense.tensors()).collect()
            }
        }
    }
}

impl Tower {
    /// The tensors of encoder and LSTM.
    pub(super) fn torso_tensors(&self) -> Tensors {
        let lstm = self.lstm.iter().flat_map(Lstm::tensors);
        self.encoder.tensors().into_iter().chain(lstm).collect()
    }
}

impl Section {
    fn new(name: &str, input: Image, channels: usize) -> Self {
        let conv = |part: &str, input| Conv::new(format!("{name}.{part}"), input, channels, 3, 1, 1);
        let first = conv("conv", input);
        let (height, width) = (first.output.height.div_ceil(2), first.output.width.div_ceil(2));
        let pooled = Image { channels, height, width };
        let blocks = [0, 1].map(|block| [0, 1].map(|i| conv(&format!("block{block}.conv{i}"), pooled)));
        Self { conv: first, pooled, blocks }
    }

    /// All convolutions, in order.
    fn convs(&self) -> impl Iterator<Item = &Conv> {
        std::iter::once(&self.conv).chain(self.blocks.as_flattened())
    }
}

impl Dense {
    pub(super) fn tensors(&self) -> Tensors {
        vec![
            (format!("{}.weight", self.name), vec![self.inputs, self.outputs]),
            (format!("{}.bias", self.name), vec![self.outputs]),
        ]
    }
}

impl Conv {
    fn new(name: String, input: Image, channels: usize, kernel: usize, stride: usize, padding: usize) -> Self {
        let side = |pixels: usize| (pixels + 2 * padding).checked_sub(kernel).map_or(0, |room| room / stride + 1);
        let output = Image { channels, height: side(input.height), width: side(input.width) };
        Self { name, input, output, kernel, stride, padding }
    }

    fn tensors(&self) -> Tensors {
        let (inputs, outputs) = (self.input.channels, self.output.channels);
        vec![
            (format!("{}.weight", self.name), vec![self.kernel, self.kernel, inputs, outputs]),
            (format!("{}.bias", self.name), vec![outputs]),
        ]
    }
}

impl Lstm {
    fn tensors(&self) -> Tensors {
        let (name, gates) = (&self.name, self.width.saturating_mul(4));
        vec![
            (format!("{name}.input.weight"), vec![self.inputs, gates]),
            (format!("{name}.hidden.weight"), vec![self.width, gates]),
            (format!("{name}.bias"), vec![gates]),
        ]
    }
}

impl Image {
    pub(crate) const NONE: Self = Self { channels: 0, height: 0, width: 0 };

    /// The image size of an observation, or why `encoder` cannot read it.
    fn of(encoder: &str, obs: &Space) -> Result<Self, String> {
        match obs {
            Space::Box { shape, .. } => match shape[..] {
                [channels, height, width] => Ok(Self { channels, height, width }),
                _ => Err(format!(
                    "{encoder} reads images, observations of shape [channels, height, width]; these have shape {shape:?}"
                )),
            },
            _ => Err(format!("{encoder} reads images, observations of shape [channels, height, width], not {obs}")),
        }
    }

    /// Its number of elements.
    pub(crate) fn len(self) -> usize {
        self.channels.saturating_mul(self.height).saturating_mul(self.width)
    }
}
