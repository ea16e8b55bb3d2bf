//! Records of older versions.

use serde_json::Value;

use super::super::frames::FrameWriter;
use super::*;
use crate::{AlgorithmConfig, ByPolicy};

#[test]
fn a_record_from_before_the_penalty_is_of_a_run_without() {
    let mut header = Header::of(&TrainerConfig::default(), ("here", true), 0, &ByPolicy::default());
    let mut older: Value = serde_json::from_str(&header.config).unwrap();
    older["algorithm"]["impala"].as_object_mut().unwrap().remove("behaviour_kl_coeff").unwrap();
    header.config = older.to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let mut frames = FrameWriter::new(File::create(&path).unwrap());
    frames.write(&header).unwrap();
    let pass = Pass { taken: Vec::new(), is_quarantined: false, updates: 1, version: 1, weights: [0; 4] };
    frames.write(&Entry::Pass(pass)).unwrap();
    frames.flush().unwrap();
    let replay = Replay::open(&path).unwrap();
    let AlgorithmConfig::Impala(impala) = &replay.config().algorithm else { panic!("{:?}", replay.config()) };
    assert_eq!(impala.behaviour_kl_coeff, 0.0);
    let own = |config: &TrainerConfig| Header::of(config, ("here", true), 0, &ByPolicy::default());
    replay.check(&own(replay.config())).unwrap();
    let error = replay.check(&own(&TrainerConfig::default())).unwrap_err().to_string();
    assert!(error.contains("algorithm.impala.behaviour_kl_coeff"), "{error}");
}
