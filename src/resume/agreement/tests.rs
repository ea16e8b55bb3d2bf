//! Differences from runs of older versions.

use super::*;

fn agreement(config: Value) -> Agreement {
    Agreement([("config".to_owned(), config)].into())
}

#[test]
fn a_setting_that_the_saving_version_lacked_was_at_its_default() {
    let config = serde_json::to_value(TrainerConfig::default()).unwrap();
    let mut older = config.clone();
    older["learner"].as_object_mut().unwrap().remove("broadcast_interval").unwrap();
    older["learner"]["a_setting_of_yesterday"] = 1.into();
    let check = |older: &Value| agreement(config.clone()).check(&agreement(older.clone()), Path::new("here"), true);
    check(&older).unwrap();
    older["learner"]["lr"] = 0.5.into();
    let error = check(&older).unwrap_err().to_string();
    assert!(error.contains("learner.lr") && error.contains("0.5"), "{error}");
}

#[test]
fn a_run_from_before_the_penalty_had_none() {
    let config = serde_json::to_value(TrainerConfig::default()).unwrap();
    let mut older = config.clone();
    older["algorithm"]["impala"].as_object_mut().unwrap().remove("behaviour_kl_coeff").unwrap();
    let check = |own: &Value| agreement(own.clone()).check(&agreement(older.clone()), Path::new("here"), true);
    let error = check(&config).unwrap_err().to_string();
    assert!(error.contains("algorithm.impala.behaviour_kl_coeff"), "{error}");
    let mut without = config.clone();
    without["algorithm"]["impala"]["behaviour_kl_coeff"] = 0.0.into();
    check(&without).unwrap();
}
