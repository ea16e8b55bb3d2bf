//! Why a frame is refused.

use std::io;
use std::ops::Range;

use pronk_buffer::BatchError;
use pronk_metrics::PolicyId;

/// Why a frame is no fragment of the run.
///
/// A frame is *corrupt* if it cannot be read: sent again, it may arrive whole. It is *foreign* if it can be
/// read but breaks the bounds of the run: sent again, it will be refused again. A damaged frame may happen to
/// read as a foreign one, so check a checksum first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Corrupt: the bytes end too early.
    #[error("the frame ends within {what}: expected {expected} more bytes, got {got}")]
    Ends {
        /// What was to be read.
        what: &'static str,
        /// The bytes that it has, or has at least.
        expected: usize,
        /// The bytes that are left.
        got: usize,
    },
    /// Corrupt: a part of the header cannot be read.
    #[error("the header of the frame is unreadable at {what}: {cause}")]
    Header {
        /// What was to be read.
        what: &'static str,
        /// Why it cannot be.
        #[source]
        cause: postcard::Error,
    },
    /// Corrupt: the header is longer than what it holds.
    #[error("the header of the frame has {surplus} bytes after its end: expected none")]
    Surplus {
        /// The bytes too many.
        surplus: usize,
    },
    /// Corrupt: the columns are not as long as the header says.
    #[error("the columns of the frame have {got} bytes: expected {expected}")]
    Length {
        /// The bytes that the header says.
        expected: usize,
        /// The bytes that there are.
        got: usize,
    },
    /// Corrupt: a byte that is no end of a step.
    #[error("an end of policy `{policy}` is {byte} at step {t}, column {b}: expected 0, 1 or 2")]
    End {
        /// The policy.
        policy: PolicyId,
        /// The step.
        t: usize,
        /// The column.
        b: usize,
        /// The byte.
        byte: u8,
    },
    /// Corrupt: observations that are no bytes are compressed, or compressed to more bytes than they have.
    #[error("observations of policy `{policy}` are compressed to {got} bytes: expected fewer than {expected}")]
    PackedLength {
        /// The policy.
        policy: PolicyId,
        /// The bytes of uncompressed observations; 0 if they cannot be compressed.
        expected: usize,
        /// The bytes of compressed ones.
        got: usize,
    },
    /// Corrupt: compressed observations cannot be decompressed.
    #[error("compressed observations of policy `{policy}` are unreadable: {cause}")]
    Packed {
        /// The policy.
        policy: PolicyId,
        /// Why they cannot be.
        #[source]
        cause: io::Error,
    },
    /// Corrupt: compressed observations are fewer than the shape says.
    #[error("observations of policy `{policy}` decompress to {got} bytes: expected {expected}")]
    Unpacked {
        /// The policy.
        policy: PolicyId,
        /// The bytes that the shape says.
        expected: usize,
        /// The bytes that there are.
        got: usize,
    },
    /// Foreign: a header longer than any of this run.
    #[error("the header of the frame has {got} bytes: expected at most {max}")]
    HeaderTooLong {
        /// The longest header of the run.
        max: usize,
        /// The bytes of this one.
        got: usize,
    },
    /// Foreign: no policy.
    #[error("the fragment is empty: {0}")]
    Empty(#[source] BatchError),
    /// Foreign: more policies than the run has.
    #[error("the fragment has {got} policies: expected at most {max}")]
    TooManyPolicies {
        /// How many the run has.
        max: usize,
        /// How many the fragment has.
        got: usize,
    },
    /// Foreign: a policy that the run does not train.
    #[error("the fragment has policy `{got}`: expected one of {expected:?}")]
    UnknownPolicy {
        /// The policies of the run.
        expected: Vec<PolicyId>,
        /// The fragment's, its beginning if it is long.
        got: String,
    },
    /// Foreign: a policy twice, or not in the order of names.
    #[error("the fragment has policy `{policy}` after `{previous}`: expected each once, in the order of names")]
    PolicyOrder {
        /// The policy before it.
        previous: PolicyId,
        /// The policy.
        policy: PolicyId,
    },
    /// Foreign: another number of steps, or rows of another length or kind.
    #[error("policy `{policy}` has `{what}` {got}: expected {expected}")]
    Shape {
        /// The policy.
        policy: PolicyId,
        /// The size that differs.
        what: &'static str,
        /// The run's.
        expected: String,
        /// The fragment's.
        got: String,
    },
    /// Foreign: no columns, or too many.
    #[error("policy `{policy}` has {got} columns: expected 1 to {max}")]
    Columns {
        /// The policy.
        policy: PolicyId,
        /// The most of a fragment.
        max: usize,
        /// How many there are.
        got: usize,
    },
    /// Foreign: no tags, or more than columns.
    #[error("policy `{policy}` has {got} tags: expected 1 to {columns}, one for each column at most")]
    TagCount {
        /// The policy.
        policy: PolicyId,
        /// The number of columns.
        columns: usize,
        /// How many there are.
        got: usize,
    },
    /// Foreign: a fragment of another life of the run.
    #[error("a tag of policy `{policy}` is of life {got} of the run: expected {expected}")]
    Life {
        /// The policy.
        policy: PolicyId,
        /// The life of the run.
        expected: u64,
        /// The tag's.
        got: u64,
    },
    /// Foreign: a worker of another session.
    #[error("a tag of policy `{policy}` names worker {got}: expected {expected:?}, those of the session")]
    Worker {
        /// The policy.
        policy: PolicyId,
        /// The workers of the session.
        expected: Range<u32>,
        /// The tag's.
        got: u32,
    },
    /// Foreign: weights that do not exist yet.
    #[error("{what} of policy `{policy}` names version {got} of the weights: expected at most {newest}")]
    Version {
        /// The policy.
        policy: PolicyId,
        /// What names it.
        what: &'static str,
        /// The newest version.
        newest: u64,
        /// The version named.
        got: u64,
    },
    /// Foreign: versions of more or fewer cells than there are.
    #[error("policy `{policy}` has versions for {got} cells in {runs} runs: expected {expected} cells")]
    VersionCount {
        /// The policy.
        policy: PolicyId,
        /// `T * B`.
        expected: usize,
        /// The number of runs.
        runs: usize,
        /// The sum of the runs that were read.
        got: u64,
    },
    /// Foreign: more final observations than cells.
    #[error("policy `{policy}` has {got} final observations: expected at most {max}, one for each cell")]
    FinalCount {
        /// The policy.
        policy: PolicyId,
        /// `T * B`.
        max: usize,
        /// How many there are.
        got: usize,
    },
    /// Foreign: another number of environment steps than these samples can have.
    #[error("the fragment has {got} environment steps: expected {min} to {max}")]
    EnvSteps {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// How many there are.
        got: u64,
    },
    /// Foreign: an action outside its space.
    #[error("policy `{policy}` has action {got} in choice {choice} at step {t}, column {b}: expected less than {n}")]
    Action {
        /// The policy.
        policy: PolicyId,
        /// The step.
        t: usize,
        /// The column.
        b: usize,
        /// Which of several choices; 0 if there is one.
        choice: usize,
        /// The number of values.
        n: usize,
        /// The action.
        got: u32,
    },
    /// Foreign: moments of more fragments than there are.
    #[error("the fragment has moments of {got} fragments: expected at most {max}, one for each tag")]
    MomentsCount {
        /// The number of tags.
        max: usize,
        /// How many there are.
        got: usize,
    },
    /// Foreign: moments of what the run does not normalise, or none of what it does, or numbers that are no
    /// moments.
    #[error("the moments of {what} of the fragment are {got}: expected {expected}")]
    Moments {
        /// Observations or returns.
        what: &'static str,
        /// What the run needs.
        expected: String,
        /// What there is.
        got: String,
    },
    /// Foreign: final observations in wrong places, or a number that is not finite.
    #[error("the samples of policy `{policy}` are invalid: {cause}")]
    Samples {
        /// The policy.
        policy: PolicyId,
        /// What is wrong, and where.
        #[source]
        cause: BatchError,
    },
}

impl FrameError {
    /// Whether the frame cannot be read, so that it is worth sending again.
    pub fn is_corrupt(&self) -> bool {
        matches!(
            self,
            Self::Ends { .. }
                | Self::Header { .. }
                | Self::Surplus { .. }
                | Self::Length { .. }
                | Self::End { .. }
                | Self::PackedLength { .. }
                | Self::Packed { .. }
                | Self::Unpacked { .. }
        )
    }
}
