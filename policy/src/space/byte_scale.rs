//! How networks read bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ObsDtype, Space};

/// How a network reads the bytes of a space that are no pixels: `(byte − low) · factor`, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ByteScale {
    /// `[obs_len]`: the lower bounds.
    pub(crate) low: Vec<f32>,
    /// `[obs_len]`: one over the distance of the bounds.
    pub(crate) factor: Vec<f32>,
}

impl ByteScale {
    /// Appends whole observations as a network reads them.
    pub(crate) fn extend(&self, numbers: &mut Vec<f32>, bytes: &[u8]) {
        for row in bytes.chunks_exact(self.low.len()) {
            let scale = self.low.iter().zip(&self.factor);
            numbers.extend(row.iter().zip(scale).map(|(&byte, (low, factor))| (f32::from(byte) - low) * factor));
        }
    }
}

impl Space {
    /// How networks read its bytes; `None` for pixels, which are multiplied by 1/255, and for floats.
    pub(crate) fn byte_scale(&self) -> Option<ByteScale> {
        let Self::Box { low, high, dtype: ObsDtype::U8, .. } = self else { return None };
        if low.iter().all(|&low| low == 0.0) && high.iter().all(|&high| high == 255.0) {
            return None;
        }
        // Bounds that leave a single byte have no distance to divide by.
        let factor = low.iter().zip(high).map(|(low, high)| 1.0 / (high - low).max(1.0)).collect();
        Some(ByteScale { low: low.clone(), factor })
    }

    /// Whether networks scale its bytes by other bounds than those of pixels, 0 and 255.
    pub fn scales_by_bounds(&self) -> bool {
        self.byte_scale().is_some()
    }

    /// The same space with the bounds of pixels for its bytes: a network for it multiplies every byte by
    /// 1/255, as all networks did that were saved without [a mark](Self::save_observed).
    #[must_use]
    pub fn as_pixels(&self) -> Self {
        match self {
            Self::Box { low, high, shape, dtype: dtype @ ObsDtype::U8 } => Self::Box {
                low: vec![0.0; low.len()],
                high: vec![255.0; high.len()],
                shape: shape.clone(),
                dtype: *dtype,
            },
            other => other.clone(),
        }
    }

    /// Whether its observations are those of `other`, but for the bounds of bytes, which only say how a
    /// network scales them.
    pub fn has_elements_of(&self, other: &Self) -> bool {
        self == other || self.as_pixels() == other.as_pixels()
    }

    /// Whether images of both have the same axes: of the same elements in another order a network sees
    /// something else.
    pub fn has_axes_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Box { shape, .. }, Self::Box { shape: others, .. }) => {
                shape == others || shape.len() != 3 || others.len() != 3
            }
            _ => true,
        }
    }

    /// Writes the observations of a policy, for `serialize_with`: where its bytes are no pixels, the file
    /// says that the network scales them by their bounds. [`load_observed`](Self::load_observed) reads it.
    pub fn save_observed<S: Serializer>(observed: &Self, serializer: S) -> Result<S::Ok, S::Error> {
        match observed.scales_by_bounds() {
            true => Saved { space: observed.clone(), by_bounds: true }.serialize(serializer),
            false => observed.serialize(serializer),
        }
    }

    /// Reads the observations of a policy, for `deserialize_with`. A file that does not say how bytes are
    /// scaled is of a network that reads pixels: see [`as_pixels`](Self::as_pixels).
    pub fn load_observed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Saved { space, by_bounds } = Saved::deserialize(deserializer)?;
        Ok(if by_bounds { space } else { space.as_pixels() })
    }
}

/// The observations of a policy in a file.
#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(flatten)]
    space: Space,
    #[serde(default)]
    by_bounds: bool,
}
