//! [`Digest`]: 128 bits by which runs, weights and fragments are compared.

use std::fmt;

use pronk_metrics::{ByPolicy, PolicyId};
use pronk_policy::Params;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// A digest of 128 bits, written as 32 hexadecimal digits: equal for equal weights, and different for
/// different ones but by chance. It does not protect against forgery.
///
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
///
/// let config = TrainerConfig { seed: 1, ..TrainerConfig::default() };
/// let digest = |config| -> Result<_, Box<dyn std::error::Error>> {
///     Ok(Trainer::new(config, |_: &EnvContext| CartPole::new())?.finish()?.weights_digest())
/// };
/// assert_eq!(digest(config.clone())?, digest(config)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(u128);

impl Digest {
    /// The digest of all policies: of their names and parameters, in the order of the layout.
    pub(crate) fn of_weights<'a>(weights: impl IntoIterator<Item = (&'a PolicyId, &'a Params)>) -> Self {
        let mut hash = Xxh3::new();
        for (policy, params) in weights {
            hash.update(policy.as_bytes());
            hash.update(bytemuck::cast_slice(params.values()));
        }
        Self(hash.digest128())
    }

    /// The digest of what a network's parameters are called and how they are shaped.
    pub(crate) fn of_layouts(weights: &ByPolicy<Params>) -> Self {
        let mut hash = Xxh3::new();
        for (policy, params) in weights {
            hash.update(policy.as_bytes());
            for entry in params.layout().entries() {
                hash.update(entry.name.as_bytes());
                entry.shape.iter().for_each(|size| hash.update(&(*size as u64).to_le_bytes()));
            }
        }
        Self(hash.digest128())
    }

    /// The next digest of a chain.
    pub(crate) fn chain(self, next: &[u8]) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&self.0.to_le_bytes());
        hash.update(next);
        Self(hash.digest128())
    }

    /// Its bytes.
    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Its first four bytes, which tell different weights apart.
    pub(crate) fn short(self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.bytes();
        [a, b, c, d]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
