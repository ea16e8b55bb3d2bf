//! What the fragments of a run look like, so that others are refused.

use std::collections::BTreeMap;
use std::ops::Range;

use pronk_buffer::{ActionKind, BatchError, BatchShape, ObsKind};
use pronk_metrics::{ByPolicy, PolicyId, Steps, default_policy};
use pronk_policy::{ObsDtype, PolicyError, Space};
use pronk_rollout::NormalizerConfig;

use super::header::{PREFIX, cells, column_bytes};

/// The longest encodings of numbers, and of what consists of them, in postcard.
const U64: usize = 10;
const U32: usize = 5;
const HEAD: usize = 3 * U64;
/// A length of the name, six sizes and two kinds, perhaps packed bytes, and three counts.
const POLICY_HEAD: usize = U64 + (6 * U64 + 2) + (1 + U64) + 3 * U64;
const TAG: usize = 3 * U64 + 2 * U32;
const PLACE: usize = 2 * U32;
const RUN: usize = 2 * U64;

/// What the fragments of one policy look like.
///
/// See [`Expected`].
#[derive(Clone, Debug)]
pub struct ExpectedPolicy {
    shape: BatchShape,
    action: Space,
}

impl ExpectedPolicy {
    /// `shape` is that of the fragments, with as many columns as they may have at most.
    ///
    /// # Errors
    /// A shape or a space that is impossible, or spaces whose rows are not those of the shape.
    pub fn new(shape: BatchShape, obs: &Space, action: Space) -> Result<Self, ExpectedError> {
        shape.check()?;
        obs.check()?;
        action.check()?;
        let obs_kind = match obs.obs_dtype() {
            ObsDtype::F32 => ObsKind::F32,
            ObsDtype::U8 => ObsKind::U8,
        };
        let act_kind = if action.has_discrete_actions() { ActionKind::U32 } else { ActionKind::F32 };
        let fits = (shape.obs_len, shape.obs_kind) == (obs.obs_len(), obs_kind)
            && (shape.act_len, shape.act_kind) == (action.act_len(), act_kind);
        if fits {
            Ok(Self { shape, action })
        } else {
            Err(ExpectedError::Spaces { obs: obs.to_string(), action: action.to_string(), shape })
        }
    }

    /// The shape, with the largest number of columns.
    pub(super) fn shape(&self) -> &BatchShape {
        &self.shape
    }

    /// The space of actions.
    pub(super) fn action(&self) -> &Space {
        &self.action
    }

    /// The longest header and the longest columns of this policy, in bytes.
    fn max_bytes(&self, id: &str) -> Option<(usize, usize)> {
        let cells = cells(&self.shape);
        let header = cells
            .checked_mul(PLACE + RUN)?
            .checked_add(self.shape.columns.checked_mul(TAG)?)?
            .checked_add(POLICY_HEAD + id.len())?;
        Some((header, column_bytes(&self.shape, None, cells)?))
    }
}

/// What the fragments of a run look like, whichever host they come from.
///
/// ```
/// use pronk_buffer::{ActionKind, BatchShape, ObsKind};
/// use pronk_hosts::{Expected, ExpectedPolicy};
/// use pronk_policy::Space;
/// use pronk_rollout::NormalizerConfig;
///
/// let obs = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?;
/// let shape = BatchShape {
///     steps: 32,
///     columns: 8,
///     obs_len: 4,
///     obs_kind: ObsKind::F32,
///     act_len: 1,
///     act_kind: ActionKind::U32,
///     dist_len: 2,
///     state_len: 0,
/// };
/// let policy = ExpectedPolicy::new(shape, &obs, Space::discrete(2)?)?;
/// let expected = Expected::single(0, policy, NormalizerConfig::default())?;
/// assert_eq!(expected.most_steps().env, 256);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Expected {
    /// The life of the run.
    pub(super) life: u64,
    pub(super) policies: ByPolicy<ExpectedPolicy>,
    pub(super) env_steps: EnvSteps,
    pub(super) normalizer: NormalizerConfig,
    max_header_bytes: usize,
    max_bytes: usize,
}

/// How many environment steps a fragment has.
#[derive(Clone, Copy, Debug)]
pub(super) enum EnvSteps {
    /// One for each cell: there is one agent.
    OfCells,
    /// At least one, and at most so many.
    UpTo(u64),
}

impl Expected {
    /// A single agent's fragments in a life of the run: they have the default policy only, and an environment
    /// step for each cell.
    ///
    /// # Errors
    /// Fragments that may be too long for a frame.
    pub fn single(life: u64, policy: ExpectedPolicy, normalizer: NormalizerConfig) -> Result<Self, ExpectedError> {
        Self::new(life, BTreeMap::from([(default_policy(), policy)]), EnvSteps::OfCells, normalizer)
    }

    /// Fragments of some or all of these policies in a life of the run, over at most `max_env_steps`
    /// environment steps. Nothing in them is normalised.
    ///
    /// # Errors
    /// No policy or no step, or fragments that may be too long for a frame.
    pub fn multi(life: u64, policies: ByPolicy<ExpectedPolicy>, max_env_steps: u64) -> Result<Self, ExpectedError> {
        if policies.is_empty() || max_env_steps == 0 {
            return Err(ExpectedError::Nothing { policies: policies.len(), max_env_steps });
        }
        Self::new(life, policies, EnvSteps::UpTo(max_env_steps), NormalizerConfig::default())
    }

    fn new(
        life: u64,
        policies: ByPolicy<ExpectedPolicy>,
        env_steps: EnvSteps,
        normalizer: NormalizerConfig,
    ) -> Result<Self, ExpectedError> {
        let (max_header_bytes, max_bytes) =
            max_bytes(&policies, normalizer).ok_or(ExpectedError::TooLong { policies: policies.len() })?;
        Ok(Self { life, policies, env_steps, normalizer, max_header_bytes, max_bytes })
    }

    /// The most steps of a fragment.
    pub fn most_steps(&self) -> Steps {
        let agent = self.policies.values().map(|policy| policy.shape.agent_steps()).sum();
        let env = match self.env_steps {
            EnvSteps::OfCells => agent,
            EnvSteps::UpTo(max) => max,
        };
        Steps { env, agent }
    }

    /// The longest frame, in bytes. An engine may refuse longer messages before it reads them.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The longest header, in bytes.
    pub(super) fn max_header_bytes(&self) -> usize {
        self.max_header_bytes
    }

    /// The name of a policy, and what is expected of it.
    pub(super) fn policy(&self, id: &str) -> Option<(&PolicyId, &ExpectedPolicy)> {
        self.policies.get_key_value(id)
    }
}

/// The longest header and the longest frame, in bytes.
fn max_bytes(policies: &ByPolicy<ExpectedPolicy>, normalizer: NormalizerConfig) -> Option<(usize, usize)> {
    let (mut header, mut columns, mut max_tags) = (HEAD, 0_usize, 0_usize);
    for (id, policy) in policies {
        let (of_header, of_columns) = policy.max_bytes(id)?;
        header = header.checked_add(of_header)?;
        columns = columns.checked_add(of_columns)?;
        max_tags = max_tags.checked_add(policy.shape.columns)?;
    }
    // Two vectors of f64 with their lengths, and a count.
    let of_moments = |len: usize| len.checked_mul(16)?.checked_add(3 * U64);
    let longest_obs = policies.values().map(|policy| policy.shape.obs_len).max()?;
    let mut of_fragment = 2;
    if normalizer.observations {
        of_fragment += of_moments(longest_obs)?;
    }
    if normalizer.return_gamma.is_some() {
        of_fragment += of_moments(1)?;
    }
    header = header.checked_add(max_tags.checked_mul(of_fragment)?)?;
    u32::try_from(header).ok()?;
    Some((header, columns.checked_add(header)?.checked_add(PREFIX)?))
}

/// What the fragments of one host must name.
#[derive(Clone, Debug, PartialEq)]
pub struct Sender {
    /// The numbers of its workers.
    pub workers: Range<u32>,
    /// The newest version of the weights that has been published.
    pub newest_version: u64,
}

/// Why no fragments can be as expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpectedError {
    /// Sizes that are impossible.
    #[error(transparent)]
    Shape(#[from] BatchError),
    /// A space that is impossible.
    #[error(transparent)]
    Space(#[from] PolicyError),
    /// Spaces whose rows are not those of the shape.
    #[error("observations in {obs} and actions in {action} do not have the rows of {shape:?}")]
    Spaces {
        /// The space of observations.
        obs: String,
        /// The space of actions.
        action: String,
        /// The shape.
        shape: BatchShape,
    },
    /// No policy, or no environment step.
    #[error("a fragment needs at least one policy and one step: got {policies} policies and {max_env_steps} steps")]
    Nothing {
        /// The number of policies.
        policies: usize,
        /// The largest number of steps.
        max_env_steps: u64,
    },
    /// Fragments that may be too long: a header has at most 4 GiB, and a frame what can be addressed.
    #[error("fragments of {policies} policies may be too long for a frame: lower the steps or the columns")]
    TooLong {
        /// The number of policies.
        policies: usize,
    },
}
