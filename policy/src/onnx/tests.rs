#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use prost::Message;

use super::schema::{AttributeProto, DataType, GraphProto, ModelProto, TensorProto, ValueInfoProto};
use crate::{
    Activation, CpuNetwork, Encoder, Gaussian, GaussianConfig, LogStdRange, NetworkSpec, ObsNormalizer, Params, Policy,
    PolicyError, Space, Torso,
};

fn numbers(shape: &[usize]) -> Space {
    let len = shape.iter().product();
    Space::boxed(vec![-1.0; len], vec![1.0; len], shape.to_vec()).unwrap()
}

fn spec(obs: &Space, action: &Space, encoder: Encoder) -> NetworkSpec {
    NetworkSpec { encoder, ..NetworkSpec::for_spaces(obs, action).unwrap() }
}

fn relu(hidden: &[usize]) -> Encoder {
    Encoder::Mlp { hidden: hidden.to_vec(), activation: Activation::Relu }
}

fn policy(spec: &NetworkSpec, action: &Space) -> Policy {
    Policy::new(spec.clone(), spec.init_params(0).unwrap(), action).unwrap()
}

fn model(policy: &Policy) -> ModelProto {
    ModelProto::decode(&*policy.to_onnx().unwrap()).unwrap()
}

/// Networks of every kind, each with its action space.
fn networks() -> Vec<(NetworkSpec, Space)> {
    let discrete = Space::discrete(3).unwrap();
    let choices = Space::multi_discrete(vec![3, 2]).unwrap();
    let torques = Space::boxed(vec![-2.0, 0.0, -1.0], vec![2.0, f32::INFINITY, 1.0], vec![3]).unwrap();
    let actions = [discrete, choices, torques];
    let impala = Encoder::ImpalaCnn { channels: vec![4, 4], hidden: 8 };
    let (low, high) = (vec![0.0, 1.0, 7.0], vec![4.0, 6.0, 7.0]);
    let codes = Space::Box { low, high, shape: vec![3], dtype: crate::ObsDtype::U8 };
    let encoders = [
        (numbers(&[5]), relu(&[])),
        (numbers(&[2, 3]), relu(&[6, 4])),
        (Space::bytes(vec![2, 36, 40]).unwrap(), Encoder::NatureCnn { hidden: 8 }),
        (numbers(&[3, 9, 12]), impala),
        (codes, relu(&[4])),
    ];
    let mut networks = Vec::new();
    for (obs, encoder) in &encoders {
        for action in &actions {
            for lstm in [None, Some(4)] {
                for torso in [Torso::Shared, Torso::Separate] {
                    let spec = NetworkSpec { lstm, torso, ..spec(obs, action, encoder.clone()) };
                    networks.push((spec, action.clone()));
                }
            }
        }
    }
    networks
}

fn normalized(policy: Policy, spec: &NetworkSpec) -> Policy {
    let len = spec.obs.obs_len();
    policy.with_normalizer(ObsNormalizer { mean: vec![0.5; len], std: vec![2.0; len], clip: 10.0 }).unwrap()
}

fn check(graph: &GraphProto) {
    let mut defined = BTreeSet::new();
    let constants = graph.initializer.iter().map(|tensor| &tensor.name);
    for name in constants.chain(graph.input.iter().map(|input| &input.name)) {
        assert!(defined.insert(name.as_str()), "`{name}` is defined twice");
    }
    let mut used = BTreeSet::new();
    for node in &graph.node {
        for input in &node.input {
            assert!(defined.contains(input.as_str()), "`{}` uses `{input}`, which comes later or never", node.name);
            used.insert(input.as_str());
        }
        for output in &node.output {
            assert!(!output.is_empty() && defined.insert(output), "`{output}` is defined twice");
        }
    }
    for output in &graph.output {
        assert!(defined.contains(output.name.as_str()), "no node computes the output `{}`", output.name);
        used.insert(&output.name);
    }
    let nodes: BTreeSet<&str> = graph.node.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(nodes.len(), graph.node.len(), "each node has a name of its own");
    // Standard deviations have no part in the mode.
    let unused: Vec<_> = defined.difference(&used).filter(|name| **name != "log_std").collect();
    assert!(unused.is_empty(), "nothing uses {unused:?}");
    graph.initializer.iter().for_each(check_bytes);
}

fn check_bytes(tensor: &TensorProto) {
    let sizes = [(DataType::Float, 4), (DataType::Int64, 8), (DataType::Bool, 1)];
    let (_, size) = sizes.iter().find(|(kind, _)| *kind as i32 == tensor.data_type).unwrap();
    let elements: i64 = tensor.dims.iter().product();
    assert_eq!(elements as usize * size, tensor.raw_data.len(), "`{}`", tensor.name);
}

fn floats(tensor: &TensorProto) -> Vec<f32> {
    tensor.raw_data.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn constant<'a>(graph: &'a GraphProto, name: &str) -> &'a TensorProto {
    graph.initializer.iter().find(|tensor| tensor.name == name).unwrap()
}

/// The name, element type and shape of an input or output; `-1` is the batch.
fn interface(value: &ValueInfoProto) -> (&str, i32, Vec<i64>) {
    let tensor = value.kind.as_ref().unwrap().tensor_type.as_ref().unwrap();
    let len = |dim: &super::schema::DimensionProto| match dim.dim_param.as_deref() {
        Some("batch") => -1,
        _ => dim.dim_value.unwrap(),
    };
    (&value.name, tensor.elem_type, tensor.shape.as_ref().unwrap().dim.iter().map(len).collect())
}

#[test]
fn every_tensor_of_every_network_is_defined_once_and_before_it_is_used() {
    for (spec, action) in networks() {
        check(model(&policy(&spec, &action)).graph.as_ref().unwrap());
        if spec.obs.obs_dtype() == crate::ObsDtype::F32 {
            let squashed = policy(&spec, &action).with_gaussian(Gaussian::Squashed).unwrap();
            check(model(&normalized(squashed, &spec)).graph.as_ref().unwrap());
        }
    }
}

#[test]
fn weights_have_the_names_and_values_of_the_weight_file() {
    for (spec, action) in networks() {
        let model = model(&policy(&spec, &action));
        let graph = model.graph.as_ref().unwrap();
        let params = spec.init_params(0).unwrap();
        for entry in params.layout().entries() {
            let tensor = constant(graph, &entry.name);
            let (dims, weight) = (&tensor.dims, params.get(&entry.name).unwrap());
            let shape: Vec<i64> = entry.shape.iter().map(|&len| len as i64).collect();
            if let [ky, kx, inputs, outputs] = shape[..] {
                assert_eq!(*dims, [outputs, inputs, ky, kx], "{}", entry.name);
                let mut sorted = [floats(tensor), weight.to_vec()];
                sorted.iter_mut().for_each(|values| values.sort_by(f32::total_cmp));
                assert_eq!(sorted[0], sorted[1], "{}", entry.name);
            } else {
                assert_eq!((dims, floats(tensor).as_slice()), (&shape, weight), "{}", entry.name);
            }
        }
    }
}

#[test]
fn kernels_have_their_outputs_first() {
    // [ky, kx, inputs, outputs] = [1, 2, 2, 3]; the digits say which.
    let weight = [1.0, 2.0, 3.0, 11.0, 12.0, 13.0, 101.0, 102.0, 103.0, 111.0, 112.0, 113.0];
    let expected = [1.0, 101.0, 11.0, 111.0, 2.0, 102.0, 12.0, 112.0, 3.0, 103.0, 13.0, 113.0];
    assert_eq!(super::tower::outputs_first(&weight, 3, 2), expected);
}

#[test]
fn inputs_and_outputs_have_the_names_types_and_shapes_of_the_documentation() {
    const FLOAT: i32 = 1;
    const UINT8: i32 = 2;
    const INT64: i32 = 7;
    let interfaces = |spec: &NetworkSpec, action: &Space| {
        let graph = model(&policy(spec, action)).graph.unwrap();
        let of = |values: &[ValueInfoProto]| -> Vec<(String, i32, Vec<i64>)> {
            values.iter().map(interface).map(|(name, kind, shape)| (name.to_owned(), kind, shape)).collect()
        };
        (of(&graph.input), of(&graph.output))
    };
    let named = |(name, kind, shape): (&str, i32, &[i64])| (name.to_owned(), kind, shape.to_vec());
    let (obs, action) = (Space::bytes(vec![2, 36, 40]).unwrap(), Space::multi_discrete(vec![3, 2]).unwrap());
    let nature = spec(&obs, &action, Encoder::NatureCnn { hidden: 8 });
    let recurrent = NetworkSpec { lstm: Some(4), torso: Torso::Separate, ..nature };
    let (inputs, outputs) = interfaces(&recurrent, &action);
    assert_eq!(inputs, [("obs", UINT8, &[-1, 2, 36, 40][..]), ("state_in", FLOAT, &[-1, 16])].map(named));
    let expected: [(&str, i32, &[i64]); 4] = [
        ("logits", FLOAT, &[-1, 5]),
        ("values", FLOAT, &[-1]),
        ("state_out", FLOAT, &[-1, 16]),
        ("action", INT64, &[-1, 2]),
    ];
    assert_eq!(outputs, expected.map(named));

    let (observation, action) = (Space::discrete(5).unwrap(), Space::discrete(4).unwrap());
    let (inputs, outputs) = interfaces(&spec(&observation, &action, relu(&[6])), &action);
    assert_eq!(inputs, [("obs", FLOAT, &[-1, 5][..])].map(named));
    let expected: [(&str, i32, &[i64]); 3] =
        [("logits", FLOAT, &[-1, 4]), ("values", FLOAT, &[-1]), ("action", INT64, &[-1])];
    assert_eq!(outputs, expected.map(named));

    let action = Space::boxed(vec![-1.0; 6], vec![1.0; 6], vec![2, 3]).unwrap();
    let (_, outputs) = interfaces(&spec(&observation, &action, relu(&[6])), &action);
    assert_eq!(outputs.last().cloned(), Some(named(("action", FLOAT, &[-1, 6]))));
}

#[test]
fn operators_are_those_that_every_runtime_of_the_opset_has() {
    let known = [
        "Add",
        "ArgMax",
        "Cast",
        "Clip",
        "Concat",
        "Conv",
        "Div",
        "Flatten",
        "Gemm",
        "Identity",
        "Max",
        "MaxPool",
        "Min",
        "Mul",
        "Relu",
        "Sigmoid",
        "Split",
        "Squeeze",
        "Sub",
        "Tanh",
        "Transpose",
        "Where",
    ];
    for (spec, action) in networks() {
        let model = model(&policy(&spec, &action));
        assert_eq!((model.ir_version, model.opset_import[0].version, model.opset_import.len()), (8, 17, 1));
        let unknown: Vec<_> =
            model.graph.unwrap().node.into_iter().filter(|node| !known.contains(&node.op_type.as_str())).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn a_mean_in_two_floats_keeps_the_digits_of_a_double() {
    let (obs, action) = (numbers(&[2]), Space::discrete(2).unwrap());
    let mean = [1e6 + 0.2, -1e-3];
    let normalizer = ObsNormalizer { mean: mean.to_vec(), std: vec![0.25, 1e-60], clip: 10.0 };
    let policy = policy(&spec(&obs, &action, relu(&[])), &action).with_normalizer(normalizer.clone()).unwrap();
    let graph = model(&policy).graph.unwrap();
    let [high, rest, std] = ["obs.mean", "obs.mean.rest", "obs.std"].map(|name| floats(constant(&graph, name)));
    for i in 0..2 {
        assert!((f64::from(high[i]) + f64::from(rest[i]) - mean[i]).abs() < 1e-15 * mean[i].abs());
    }
    let mut row = [1e6 + 0.5, -1e-3];
    let by_graph = (row[0] - high[0] - rest[0]) / std[0];
    normalizer.apply(&mut row).unwrap();
    assert!((by_graph - row[0]).abs() < 1e-6, "{by_graph} {}", row[0]);
    assert!(std[1] > 0.0, "0 / 0 is no observation");
}

#[test]
fn bytes_that_are_no_pixels_are_scaled_by_their_bounds_in_the_graph() {
    let (low, high) = (vec![0.0, 1.0, 7.0], vec![4.0, 6.0, 7.0]);
    let obs = Space::Box { low: low.clone(), high, shape: vec![3], dtype: crate::ObsDtype::U8 };
    let action = Space::discrete(2).unwrap();
    let graph = |obs: &Space| model(&policy(&spec(obs, &action, relu(&[])), &action)).graph.unwrap();
    let scaled = graph(&obs);
    assert_eq!(floats(constant(&scaled, "obs.low")), low);
    assert_eq!(floats(constant(&scaled, "obs.factor")), [0.25, 1.0 / 5.0, 1.0]);
    let pixels = graph(&obs.as_pixels());
    assert_eq!(floats(constant(&pixels, "obs.unit")), [1.0 / 255.0]);
}

#[test]
fn a_network_of_ones_own_is_refused_with_what_to_do_instead() {
    let (obs, action) = (numbers(&[3]), Space::discrete(2).unwrap());
    let spec = spec(&obs, &action, relu(&[4]));
    let network = Box::new(CpuNetwork::new(&spec).unwrap());
    let policy = Policy::with_network(network, spec.init_params(0).unwrap(), &action).unwrap();
    let error = policy.to_onnx().unwrap_err();
    assert!(matches!(error, PolicyError::Export { .. }), "{error}");
    assert!(error.to_string().contains("Params::to_safetensors"), "{error}");
}

#[test]
fn equal_policies_give_equal_bytes_and_the_metadata_names_what_they_are() {
    let (obs, action) = (numbers(&[3]), numbers(&[2]));
    let spec = spec(&obs, &action, relu(&[4]));
    let config = GaussianConfig { gaussian: Gaussian::Squashed, log_std_range: LogStdRange::new(-3.0, 0.5).unwrap() };
    let squashed = || normalized(policy(&spec, &action).with_gaussian(config).unwrap(), &spec);
    assert_eq!(squashed().to_onnx().unwrap(), squashed().to_onnx().unwrap());
    let model = model(&squashed());
    assert_eq!((&*model.producer_name, &*model.producer_version), ("pronk", env!("CARGO_PKG_VERSION")));
    let metadata: Vec<_> = model.metadata_props.iter().map(|entry| (&*entry.key, &*entry.value)).collect();
    let expected = [
        ("pronk_version", env!("CARGO_PKG_VERSION")),
        ("observation", "Box(-1..=1, [3], f32)"),
        ("action", "Box(-1..=1, [2], f32)"),
        ("encoder", r#"{"mlp":{"hidden":[4],"activation":"relu"}}"#),
        ("torso", "\"shared\""),
        ("lstm", "null"),
        ("normalized", "true"),
        ("gaussian", "squashed"),
        ("log_std_range", "[-3, 0.5]"),
    ];
    assert_eq!(metadata, expected);
}

/// Numbers that are 0 are written where a reader asks whether they are there, and lists are not packed.
#[test]
fn attributes_are_the_bytes_of_the_published_schema() {
    let keep = AttributeProto::int("k", 0).encode_to_vec();
    assert_eq!(keep, [0x0a, 1, b'k', 0x18, 0, 0xa0, 0x01, 2]);
    let pads = AttributeProto::ints("p", &[0, 1]).encode_to_vec();
    assert_eq!(pads, [0x0a, 1, b'p', 0x40, 0, 0x40, 1, 0xa0, 0x01, 7]);
}

#[test]
fn weights_that_the_layout_lacks_are_an_error() {
    let (obs, action) = (numbers(&[3]), Space::discrete(2).unwrap());
    let spec = spec(&obs, &action, relu(&[4]));
    let params = Params::zeros(std::sync::Arc::default());
    let gaussian = GaussianConfig::default();
    let export = super::Export { spec: &spec, params: &params, action: &action, gaussian, normalizer: None };
    assert!(matches!(export.to_bytes(), Err(PolicyError::WrongParams { .. })));
}
