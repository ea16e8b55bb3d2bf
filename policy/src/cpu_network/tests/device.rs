//! Every kind of network on candle's device agrees with `CpuNetwork`.
//!
//! `PRONK_TEST_DEVICE=cuda cargo test -p pronk-policy --features cuda device::` has them run on a GPU, and
//! fails without one. By default the device is the CPU.

use std::thread;

use candle_core::Device;

use super::batch::{Batch, agree_by_tensor_to, agree_to, random_params};
use super::{image, numbers, run};
use crate::{
    Activation, CandleNetwork, CpuNetwork, DeviceSpec, Encoder, Input, LoadedObs, Network, NetworkSpec, ObsRef,
    Outputs, Space, Torso,
};

/// Sums on a GPU have another order, and its `tanh` and `exp` other last digits.
const TOLERANCE: f32 = 1e-4;

fn device() -> Device {
    let device = std::env::var("PRONK_TEST_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
    device.parse::<DeviceSpec>().and_then(|device| device.open()).unwrap_or_else(|error| panic!("{device}: {error}"))
}

/// Each encoder, with and without an LSTM, with one torso and two, for each kind of actions; of full-sized
/// images, which take long, for one kind.
fn every_kind() -> Vec<NetworkSpec> {
    let actions = [
        Space::discrete(6).unwrap(),
        Space::multi_discrete(vec![3, 2, 4]).unwrap(),
        Space::boxed(vec![-1.0; 3], vec![1.0; 3], vec![3]).unwrap(),
    ];
    let mlp = |activation| Encoder::Mlp { hidden: vec![64, 48], activation };
    let encoders = [
        (numbers(11), mlp(Activation::Tanh)),
        (numbers(11), mlp(Activation::Relu)),
        (image(2, 12, 10), mlp(Activation::Tanh)),
        (image(4, 84, 84), Encoder::nature_cnn()),
        (image(4, 84, 84), Encoder::impala_cnn()),
        // Sides that leave a rest in every stride.
        (image(3, 37, 42), Encoder::NatureCnn { hidden: 24 }),
        (image(3, 17, 13), Encoder::ImpalaCnn { channels: vec![5, 7], hidden: 24 }),
    ];
    let mut specs = Vec::new();
    for (obs, encoder) in encoders {
        let actions = if obs.obs_len() > 10_000 { &actions[..1] } else { &actions[..] };
        for action in actions {
            for lstm in [None, Some(32)] {
                for torso in [Torso::Shared, Torso::Separate] {
                    let usual = NetworkSpec::for_spaces(&obs, action).unwrap();
                    specs.push(NetworkSpec { encoder: encoder.clone(), lstm, torso, ..usual });
                }
            }
        }
    }
    specs
}

/// One of two batches has to do: see [`networks_agree`](super::networks_agree). A residual CNN has 10⁵ numbers
/// for each full-sized image, so that most batches of twelve such images have a place where rounding decides.
fn agrees(spec: &NetworkSpec, device: &Device) -> Result<(), String> {
    let (steps, columns) = if spec.obs.obs_len() > 10_000 { (2, 1) } else { (3, 4) };
    let compare = |seed| {
        let (params, batch) = (random_params(spec, seed), Batch::random(spec, steps, columns, seed));
        let expected = run(&mut CpuNetwork::new(spec).unwrap(), &params, &batch);
        let got = run(&mut CandleNetwork::new(spec.clone(), device.clone()).unwrap(), &params, &batch);
        for (expected, got) in [(&expected.0, &got.0), (&expected.1, &got.1)] {
            agree_to(TOLERANCE, "logits", &expected.logits, &got.logits)?;
            agree_to(TOLERANCE, "values", &expected.values, &got.values)?;
            agree_to(TOLERANCE, "state", &expected.state, &got.state)?;
        }
        agree_by_tensor_to(TOLERANCE, params.layout(), &expected.2, &got.2)
    };
    compare(1).or_else(|_| compare(2))
}

#[test]
fn every_kind_of_network_agrees_on_the_device() {
    let device = device();
    let specs = every_kind();
    // Not all of the spec, which has two bounds for each number of an image.
    let kind = |spec: &NetworkSpec| {
        format!("{} numbers, {:?} {:?} {:?}", spec.obs.obs_len(), spec.encoder, spec.lstm, spec.torso)
    };
    let failures: Vec<_> = specs
        .iter()
        .filter_map(|spec| agrees(spec, &device).err().map(|differs| format!("{}: {differs}", kind(spec))))
        .collect();
    assert!(failures.is_empty(), "{} of {} kinds differ:\n{}", failures.len(), specs.len(), failures.join("\n"));
}

/// The copy must have ended when the other thread says so, whatever the device is doing for this one.
#[test]
fn observations_loaded_by_another_thread_are_whole() {
    let usual = NetworkSpec::for_spaces(&image(4, 84, 84), &Space::discrete(6).unwrap()).unwrap();
    let spec = NetworkSpec { encoder: Encoder::NatureCnn { hidden: 8 }, torso: Torso::Shared, ..usual };
    let params = random_params(&spec, 1);
    let batches: Vec<_> = (0..4).map(|seed| Batch::random(&spec, 4, 16, seed)).collect();
    let mut oracle = CpuNetwork::new(&spec).unwrap();
    let mut network = CandleNetwork::new(spec, device()).unwrap();
    let loader = network.obs_loader().unwrap();
    let (mut loaded, mut expected, mut got) = (LoadedObs::default(), Outputs::default(), Outputs::default());
    for (round, batch) in batches.iter().cycle().take(24).enumerate() {
        oracle.forward(&params, &batch.input(), &mut expected).unwrap();
        thread::scope(|scope| {
            // Work of this thread, of which the device may still have some to do.
            scope.spawn(|| loader.load(batch.input().obs, 16, &mut loaded).unwrap());
            network.forward_for_learning(&params, &batches[0].input(), &mut got).unwrap();
        });
        network.forward_for_learning(&params, &batch.input().with_loaded(&loaded), &mut got).unwrap();
        let agreed = agree_to(TOLERANCE, "logits", &expected.logits, &got.logits);
        agreed.unwrap_or_else(|differs| panic!("round {round}: {differs}"));
    }
}

#[test]
fn columns_of_what_was_loaded_are_those_of_the_batch() {
    let usual = NetworkSpec::for_spaces(&image(2, 12, 10), &Space::discrete(6).unwrap()).unwrap();
    let spec = NetworkSpec { torso: Torso::Shared, ..usual };
    let (params, batch) = (random_params(&spec, 1), Batch::random(&spec, 3, 4, 1));
    let mut network = CandleNetwork::new(spec.clone(), device()).unwrap();
    let mut loaded = LoadedObs::default();
    network.obs_loader().unwrap().load(batch.input().obs, 4, &mut loaded).unwrap();
    let two = loaded.columns(&[2, 0], 4).unwrap().unwrap();
    assert_eq!(two.rows(), 6);

    let ObsRef::U8(obs) = batch.input().obs else { unreachable!("images are bytes") };
    let row = |row: usize| &obs[row * 240..(row + 1) * 240];
    let own: Vec<u8> = [2, 0, 6, 4, 10, 8].into_iter().flat_map(row).copied().collect();
    let (mut expected, mut got) = (Outputs::default(), Outputs::default());
    CpuNetwork::new(&spec).unwrap().forward(&params, &Input::new(ObsRef::U8(&own), 6), &mut expected).unwrap();
    network.forward(&params, &Input::new(ObsRef::U8(&[0; 6 * 240]), 6).with_loaded(&two), &mut got).unwrap();
    agree_to(TOLERANCE, "logits", &expected.logits, &got.logits).unwrap();

    let refusal = loaded.columns(&[4], 4).unwrap_err().to_string();
    assert!(refusal.contains("selecting columns"), "{refusal}");
}
