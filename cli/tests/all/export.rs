//! `pronk export`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::sweep::CONFIG;
use super::{config, pronk};

/// The header of a safetensors file, and the numbers of one of its tensors.
fn tensor(path: &Path, name: &str) -> (Value, Option<Vec<f32>>) {
    let bytes = fs::read(path).unwrap();
    let (len, rest) = bytes.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let header: Value = serde_json::from_slice(header).unwrap();
    let place = |at: usize| header[name]["data_offsets"][at].as_u64().map(|place| place as usize);
    let numbers = place(0)
        .zip(place(1))
        .map(|(from, to)| data[from..to].as_chunks().0.iter().map(|&number| f32::from_le_bytes(number)).collect());
    (header, numbers)
}

#[test]
fn one_of_several_policies_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let game = config("tic_tac_toe.toml");
    let train = ["train", &game, "--out", "run", "--quiet", "--set", "multi_agent.policies=separate"];
    let (status, _, errors) = pronk(folder, &[&train[..], &["--set", "stop.env_steps=2000"]].concat());
    assert_eq!(status, 0, "{errors}");
    let cases = [
        (&["export", "run"][..], "name a policy of run with --policy: it has `o`, `x`"),
        (&["export", "run", "--policy", "y"], "run has no policy `y`; it has `o`, `x`"),
    ];
    for (args, expected) in cases {
        let (status, _, errors) = pronk(folder, args);
        assert!(status == 2 && errors.contains(expected), "{errors}");
    }
    for name in ["o", "x"] {
        let (status, text, errors) = pronk(folder, &["export", "run", "--policy", name]);
        assert_eq!((status, text), (0, format!("run/{name}.onnx\n")), "{errors}");
    }
    assert_ne!(fs::read(folder.join("run/o.onnx")).unwrap(), fs::read(folder.join("run/x.onnx")).unwrap());
    let (status, _, errors) = pronk(folder, &["export", "run", "--policy", "o", "--best"]);
    assert!(status == 1 && errors.contains("no best policy"), "{errors}");
    fs::create_dir(folder.join("run/checkpoints/best")).unwrap();
    for entry in fs::read_dir(folder.join("run")).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), folder.join("run/checkpoints/best").join(entry.file_name())).unwrap();
    }
    let (status, text, errors) = pronk(folder, &["export", "run", "--policy", "o", "--best"]);
    assert_eq!((status, &*text), (0, "run/best-o.onnx\n"), "{errors}");
}

#[test]
fn weights_come_with_what_observations_are_normalised_by() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    let export = |run: &str, filter: &str| {
        let set = format!("workers.observation_filter={filter}");
        let (status, _, errors) = pronk(folder, &["train", "config.toml", "--out", run, "--quiet", "--set", &set]);
        assert_eq!(status, 0, "{errors}");
        let (status, _, errors) = pronk(folder, &["export", run, "--format", "safetensors"]);
        assert_eq!(status, 0, "{errors}");
        folder.join(run).join("policy.safetensors")
    };
    let (header, none) = tensor(&export("raw", "NoFilter"), "obs.mean");
    assert!(none.is_none() && header["policy.weight"].is_object(), "{header}");

    let normalised = export("normalised", "MeanStdFilter");
    let [mean, rest, std, clip] =
        ["obs.mean", "obs.mean.rest", "obs.std", "obs.clip"].map(|name| tensor(&normalised, name).1.unwrap());
    // Of CartPole: position, speed, angle, angular speed.
    assert_eq!((mean.len(), rest.len(), std.len(), clip.len()), (4, 4, 4, 1));
    assert!(mean.iter().zip(&rest).all(|(mean, rest)| rest.abs() <= mean.abs() * f32::EPSILON), "{mean:?} {rest:?}");
    assert!(std.iter().all(|std| (0.01..2.0).contains(std)) && std[1] > std[2] && clip[0] > 1.0, "{std:?} {clip:?}");
    // Those of the network are as they were saved.
    let saved = fs::read_dir(normalised.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let saved = saved.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("policy-")).last().unwrap();
    for name in ["torso.0.weight", "policy.weight", "value.bias"] {
        assert_eq!(tensor(&normalised, name).1.unwrap(), tensor(&saved, name).1.unwrap(), "{name}");
    }
}
