use crate::ids::PolicyId;

/// Why statistics cannot be merged, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InfoError {
    /// The builder was finalized before.
    #[error("the learner info was finalized already; collect the next update's results with a new builder")]
    Finalized,
    /// A device's results are missing.
    #[error("policy `{policy}`: results of {n_devices} devices were announced, but `{tower}` is missing")]
    MissingTower {
        /// The policy.
        policy: PolicyId,
        /// The missing key.
        tower: String,
        /// The builder's number of devices.
        n_devices: usize,
    },
    /// Two results of one policy have different trees.
    #[error("policy `{policy}`: results differ at `{path}`: expected {expected}, got {got}")]
    Structure {
        /// The policy.
        policy: PolicyId,
        /// The path in the tree.
        path: String,
        /// The first result's node.
        expected: String,
        /// A later one's.
        got: String,
    },
    /// Two results of one policy have arrays of different shapes, and the rule needs equal ones.
    #[error(
        "policy `{policy}`: array shapes differ at `{path}`: expected {expected:?}, got {got:?}; \
         reduce the array to a number first, or give the leaf the rule Concat or Last"
    )]
    Shape {
        /// The policy.
        policy: PolicyId,
        /// The path in the tree.
        path: String,
        /// The first result's shape.
        expected: Vec<usize>,
        /// A later one's.
        got: Vec<usize>,
    },
    /// An array with another number of values than its shape.
    #[error("an array of shape {shape:?} does not hold {n_values} values")]
    Array {
        /// The shape.
        shape: Vec<usize>,
        /// The number of values.
        n_values: usize,
    },
    /// A weight that is negative or not finite.
    #[error("a result cannot weigh {rows} rows: a weight is a finite number of rows, zero or more")]
    Weight {
        /// The weight.
        rows: f64,
    },
}
