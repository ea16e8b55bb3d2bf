#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Activation, Encoder, Init, NetworkSpec, Torso};
use crate::Space;

fn spec() -> NetworkSpec {
    let observation = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
    NetworkSpec::for_spaces(&observation, &Space::discrete(2).unwrap()).unwrap()
}

fn with_hidden(hidden: Vec<usize>) -> NetworkSpec {
    NetworkSpec { encoder: Encoder::Mlp { hidden, activation: Activation::Relu }, ..spec() }
}

fn tensors(spec: &NetworkSpec) -> Vec<(String, Vec<usize>)> {
    let layout = spec.layout().unwrap();
    layout.entries().iter().map(|entry| (entry.name.clone(), entry.shape.clone())).collect()
}

#[test]
fn tensors_are_named_by_torso_layer_and_head() {
    let names = |spec: &NetworkSpec| tensors(spec).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    assert_eq!(
        names(&spec()),
        "torso.0.weight torso.0.bias torso.1.weight torso.1.bias policy.weight policy.bias value.weight value.bias"
    );
    let separate = NetworkSpec { torso: Torso::Separate, ..with_hidden(vec![8]) };
    assert_eq!(
        tensors(&separate),
        [
            ("policy_torso.0.weight", vec![4, 8]),
            ("policy_torso.0.bias", vec![8]),
            ("value_torso.0.weight", vec![4, 8]),
            ("value_torso.0.bias", vec![8]),
            ("policy.weight", vec![8, 2]),
            ("policy.bias", vec![2]),
            ("value.weight", vec![8, 1]),
            ("value.bias", vec![1]),
        ]
        .map(|(name, shape)| (name.to_owned(), shape))
    );
    assert_eq!(names(&with_hidden(vec![])), "policy.weight policy.bias value.weight value.bias");
}

fn with_image(shape: [usize; 3], encoder: Encoder) -> NetworkSpec {
    NetworkSpec { obs: Space::bytes(shape.to_vec()).unwrap(), encoder, ..spec() }
}

#[test]
fn nature_cnn_has_three_convolutions_and_a_dense_layer() {
    let spec = with_image([4, 84, 84], Encoder::nature_cnn());
    assert_eq!(
        tensors(&spec)[..8],
        [
            ("torso.0.weight", vec![8, 8, 4, 32]),
            ("torso.0.bias", vec![32]),
            ("torso.1.weight", vec![4, 4, 32, 64]),
            ("torso.1.bias", vec![64]),
            ("torso.2.weight", vec![3, 3, 64, 64]),
            ("torso.2.bias", vec![64]),
            ("torso.3.weight", vec![7 * 7 * 64, 512]),
            ("torso.3.bias", vec![512]),
        ]
        .map(|(name, shape)| (name.to_owned(), shape))
    );
    // The number that PyTorch counts for the same layers with 2 actions and a value.
    assert_eq!(spec.layout().unwrap().len(), 1_684_128 + 512 * 3 + 3);
    let smallest = with_image([1, 36, 36], Encoder::nature_cnn());
    assert_eq!(tensors(&smallest)[6].1, [64, 512]);
}

#[test]
fn impala_cnn_has_a_convolution_and_two_blocks_in_each_section() {
    let spec = with_image([3, 72, 96], Encoder::impala_cnn());
    let weights: Vec<_> = tensors(&spec).into_iter().filter(|(name, _)| name.ends_with("weight")).collect();
    let mut want = Vec::new();
    for (section, (inputs, outputs)) in [(3, 16), (16, 32), (32, 32)].into_iter().enumerate() {
        want.push((format!("torso.section{section}.conv.weight"), vec![3, 3, inputs, outputs]));
        for (block, conv) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let name = format!("torso.section{section}.block{block}.conv{conv}.weight");
            want.push((name, vec![3, 3, outputs, outputs]));
        }
    }
    // Three pools halve 72×96 to 9×12.
    want.push(("torso.dense.weight".to_owned(), vec![9 * 12 * 32, 256]));
    assert_eq!(weights[..16], want);
    // A pool rounds up: 7, 4, 2, 1.
    let odd = with_image([1, 7, 7], Encoder::impala_cnn());
    assert!(tensors(&odd).contains(&("torso.dense.weight".to_owned(), vec![32, 256])));
}

#[test]
fn each_torso_has_its_own_lstm_between_encoder_and_heads() {
    let spec = NetworkSpec { lstm: Some(5), torso: Torso::Separate, ..with_hidden(vec![8]) };
    assert_eq!((spec.state_len(), self::spec().state_len()), (2 * 2 * 5, 0));
    assert_eq!(spec.shape().state_len, 20);
    assert_eq!(NetworkSpec { torso: Torso::Shared, ..spec.clone() }.state_len(), 2 * 5);
    let tensors = tensors(&spec);
    for torso in ["policy_torso", "value_torso"] {
        for (part, shape) in [("input.weight", vec![8, 20]), ("hidden.weight", vec![5, 20]), ("bias", vec![20])] {
            assert!(tensors.contains(&(format!("{torso}.lstm.{part}"), shape)), "{torso} {part}");
        }
    }
    assert!(tensors.contains(&("policy.weight".to_owned(), vec![5, 2])));
    let directly = NetworkSpec { lstm: Some(3), ..with_hidden(vec![]) };
    assert_eq!(self::tensors(&directly)[0], ("torso.lstm.input.weight".to_owned(), vec![4, 12]));
}

#[test]
fn an_image_encoder_without_a_fitting_image_is_refused_with_the_reason() {
    let refusal = |spec: NetworkSpec| spec.check().unwrap_err().to_string();
    for (encoder, name) in [(Encoder::nature_cnn(), "NatureCnn"), (Encoder::impala_cnn(), "ImpalaCnn")] {
        let flat = refusal(NetworkSpec { encoder: encoder.clone(), ..spec() });
        assert!(flat.contains(name) && flat.contains("shape [4]"), "{flat}");
        let discrete = refusal(NetworkSpec { encoder, obs: Space::discrete(9).unwrap(), ..spec() });
        assert!(discrete.contains(name) && discrete.contains("Discrete(9)"), "{discrete}");
    }
    let refused = refusal(with_image([4, 84, 35], Encoder::nature_cnn()));
    let words = "at least 36×36, and reads the shape [4, 84, 35] as 4 channels of 84×35: enlarge them, or take";
    assert!(refused.contains(words), "{refused}");
    let turned = refusal(with_image([96, 96, 3], Encoder::nature_cnn()));
    let words = "as 96 channels of 96×3: move the channels, which seem to be its last axis, to the front";
    assert!(turned.contains(words) && !turned.contains("ImpalaCnn"), "{turned}");
    for encoder in [Encoder::NatureCnn { hidden: 0 }, Encoder::ImpalaCnn { channels: vec![4], hidden: 0 }] {
        assert!(refusal(with_image([4, 84, 84], encoder)).contains("dense layer has width 0"));
    }
    let sections = |channels| with_image([4, 84, 84], Encoder::ImpalaCnn { channels, hidden: 4 });
    assert!(refusal(sections(vec![])).contains("no section"));
    assert!(refusal(sections(vec![16, 0])).contains("section 1 of ImpalaCnn has 0 channels"));
    assert!(refusal(sections(vec![16, usize::MAX])).contains("is a mistake"));
}

#[test]
fn a_network_that_cannot_be_built_is_refused_with_the_reason() {
    let refusal = |spec: NetworkSpec| spec.check().unwrap_err().to_string();
    assert!(refusal(with_hidden(vec![64, 0])).contains("hidden layer 1 has width 0"));
    assert!(refusal(with_hidden(vec![usize::MAX, 2])).contains("is a mistake"));
    assert!(refusal(NetworkSpec { lstm: Some(0), ..spec() }).contains("LSTM has width 0"));
    assert!(refusal(NetworkSpec { lstm: Some(usize::MAX), ..spec() }).contains("is a mistake"));
    assert!(refusal(NetworkSpec { dist_len: 0, ..spec() }).contains("dist_len is 0"));
    assert!(refusal(NetworkSpec { dist_len: usize::MAX, ..spec() }).contains("is a mistake"));
    assert!(refusal(NetworkSpec { obs: Space::Discrete { n: 0 }, ..spec() }).contains("at least one thing"));
    let no_choice = Space::MultiDiscrete { nvec: vec![2, 0] };
    assert!(NetworkSpec::for_spaces(&spec().obs, &no_choice).unwrap_err().to_string().contains("choice 1"));
}

#[test]
fn a_spec_survives_json_and_unknown_fields_are_refused() {
    let spec = NetworkSpec { torso: Torso::Separate, init: Init::Xavier, ..with_hidden(vec![3]) };
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<NetworkSpec>(&text).unwrap(), spec);
    let unknown = text.replacen("\"init\"", "\"initial\"", 1);
    assert!(serde_json::from_str::<NetworkSpec>(&unknown).is_err());

    let spec = NetworkSpec { lstm: Some(7), ..with_image([4, 84, 84], Encoder::impala_cnn()) };
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<NetworkSpec>(&text).unwrap(), spec);
    // Files from before there was an LSTM go on being read.
    let older = text.replacen("\"lstm\":7,", "", 1);
    assert_eq!(serde_json::from_str::<NetworkSpec>(&older).unwrap(), NetworkSpec { lstm: None, ..spec });
}
