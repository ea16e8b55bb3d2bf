//! Exported policies, read back.

use std::collections::BTreeSet;

use pronk::policy::{Gaussian, GaussianConfig, LogStdRange, NetworkSpec, ObsNormalizer};
use pronk::{Policy, Space};
use prost::Message;
use serde::Deserialize;

use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "onnx",
    promise: "The input describes a policy. One that is accepted is exported as a graph in which every tensor is \
              computed once and before it is used, and every constant has the bytes of its shape.",
    run,
};

/// A policy, as its parts are written in checkpoints.
#[derive(Deserialize)]
struct Written {
    network: NetworkSpec,
    action: Space,
    #[serde(default)]
    gaussian: Gaussian,
    #[serde(default)]
    log_std_range: LogStdRange,
    /// The mean and standard deviation of each number of observations.
    #[serde(default)]
    normalizer: Option<(f64, f64)>,
}

/// Networks of more weights take too long.
const MOST_WEIGHTS: usize = 1 << 16;

fn run(bytes: &[u8]) -> bool {
    let Ok(Written { network, action, gaussian, log_std_range, normalizer }) = serde_json::from_slice(bytes) else {
        return false;
    };
    let gaussian = GaussianConfig { gaussian, log_std_range };
    match network.layout() {
        Ok(layout) if layout.len() <= MOST_WEIGHTS && network.obs.obs_len() <= MOST_WEIGHTS => {}
        Ok(_) => return false,
        Err(error) => return refused(error),
    }
    let params = network.init_params(0).unwrap_or_else(|error| panic!("{network:?} has a layout: {error}"));
    let len = network.obs.obs_len();
    let policy = Policy::new(network, params, &action).and_then(|policy| policy.with_gaussian(gaussian));
    let policy = policy.and_then(|policy| match normalizer {
        None => Ok(policy),
        Some((mean, std)) => {
            policy.with_normalizer(ObsNormalizer { mean: vec![mean; len], std: vec![std; len], clip: 10.0 })
        }
    });
    let exported = policy.and_then(|policy| policy.to_onnx());
    let bytes = match exported {
        Ok(bytes) => bytes,
        Err(error) => return refused(error),
    };
    let model = Model::decode(&*bytes).unwrap_or_else(|error| panic!("an export that cannot be decoded: {error}"));
    model.graph.unwrap_or_default().check();
    true
}

/// Of an ONNX file what is checked here.
#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    constants: Vec<Constant>,
    #[prost(message, repeated, tag = "11")]
    inputs: Vec<Named>,
    #[prost(message, repeated, tag = "12")]
    outputs: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, repeated, tag = "1")]
    inputs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    outputs: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Constant {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    shape: Vec<i64>,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

impl Graph {
    fn check(&self) {
        let mut known = BTreeSet::new();
        let constants = self.constants.iter().map(|constant| &constant.name);
        for name in constants.chain(self.inputs.iter().map(|input| &input.name)) {
            assert!(known.insert(name), "`{name}` is there twice");
        }
        for node in &self.nodes {
            node.inputs.iter().for_each(|input| assert!(known.contains(input), "`{input}` is used before it is there"));
            node.outputs.iter().for_each(|output| assert!(known.insert(output), "`{output}` is computed twice"));
        }
        let outputs = self.outputs.iter().map(|output| &output.name);
        outputs.for_each(|output| assert!(known.contains(output), "the output `{output}` is not computed"));
        self.constants.iter().for_each(Constant::check);
    }
}

impl Constant {
    fn check(&self) {
        let Self { shape, kind, name, bytes } = self;
        // Floats, integers of 64 bits, and truth values.
        let size = match kind {
            1 => 4,
            7 => 8,
            9 => 1,
            _ => panic!("`{name}` is of the unknown type {kind}"),
        };
        let elements: i64 = shape.iter().product();
        assert_eq!(elements * size, bytes.len() as i64, "`{name}` has the shape {shape:?}");
    }
}
