use super::{BatchShape, End};

/// Why a batch is invalid, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// A size that must be at least 1 is 0.
    #[error("`{what}` is 0 in {shape:?}: every size but `state_len` must be at least 1")]
    ZeroSize {
        /// The size's name.
        what: &'static str,
        /// All the sizes.
        shape: BatchShape,
    },
    /// The sizes multiply to more than can be addressed.
    #[error("a batch of {shape:?} is too large to be addressed: lower `steps`, `columns` or the row lengths")]
    TooLarge {
        /// All the sizes.
        shape: BatchShape,
    },
    /// A column's length does not fit the shape.
    #[error("column `{column}` must be {expected} long, got {got}")]
    WrongLength {
        /// The column's name.
        column: &'static str,
        /// Its shape with the sizes filled in.
        expected: String,
        /// Its length.
        got: usize,
    },
    /// A column's element type differs from the shape's.
    #[error("column `{column}` must hold {expected}, got {got}")]
    WrongKind {
        /// The column's name.
        column: &'static str,
        /// The shape's element type.
        expected: &'static str,
        /// The element type found.
        got: &'static str,
    },
    /// A truncated episode without its final observation.
    #[error(
        "the episode of column {b} was truncated at step {t} but `final_obs` has no row for it: the next row of `obs` \
         is already the reset one, so the final observation must be kept apart"
    )]
    NoFinalObs {
        /// The step.
        t: usize,
        /// The column.
        b: usize,
    },
    /// A final observation in a wrong place.
    #[error("`final_obs` has a row for step {t}, column {b}, {why}")]
    MisplacedFinalObs {
        /// The step.
        t: usize,
        /// The column.
        b: usize,
        /// What is wrong with the place.
        why: &'static str,
    },
    /// The number of tags does not fit the columns.
    #[error("a batch needs at least one tag and at most one per column: got {got} tags for {columns} columns")]
    WrongTags {
        /// How many tags were given.
        got: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A column out of range.
    #[error("column {column} was asked for of a batch of {columns}; they are numbered from 0")]
    NoColumn {
        /// The column.
        column: usize,
        /// How many there are.
        columns: usize,
    },
    /// A value is NaN or infinite.
    #[error("column `{column}` holds {value} at step {t}, column {b}")]
    NonFinite {
        /// The column's name.
        column: &'static str,
        /// The step; `T` for the row after the last step.
        t: usize,
        /// The column.
        b: usize,
        /// The value.
        value: f32,
    },
    /// Two batches differ in their row lengths.
    #[error("part {part} does not fit the first part: `{what}` is {got}, expected {expected}")]
    Mismatch {
        /// Position of the offending part.
        part: usize,
        /// The size that differs.
        what: &'static str,
        /// The first part's.
        expected: String,
        /// The offending part's.
        got: String,
    },
    /// No batch was given.
    #[error("{what} needs at least one batch, got none")]
    Empty {
        /// What was to be made.
        what: &'static str,
    },
    /// A multi-agent batch without environment steps.
    #[error("`env_steps` is 0: a batch that holds samples took at least one environment step")]
    NoEnvSteps,
    /// More environment steps than any run has.
    #[error("`env_steps` is {env_steps}, and no run has so many")]
    ManyEnvSteps {
        /// How many it says.
        env_steps: u64,
    },
    /// Moments of other observations.
    #[error("the batch carries moments, of which {reason}")]
    WrongMoments {
        /// Which are wrong.
        reason: String,
    },
}

impl BatchError {
    pub(crate) fn misplaced(t: u32, b: u32, end: Option<End>) -> Self {
        let why = match end {
            None => "which is outside the batch",
            Some(End::No) => "where no episode ended",
            Some(End::Terminated | End::Truncated) => "twice",
        };
        Self::MisplacedFinalObs { t: t as usize, b: b as usize, why }
    }
}

impl BatchError {
    /// A column of the wrong element type.
    #[cold]
    pub(super) fn wrong_kind(column: &'static str, expected: &'static str, got: &'static str) -> Self {
        Self::WrongKind { column, expected, got }
    }
}
