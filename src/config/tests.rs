#![allow(clippy::unwrap_used)]
use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_buffer::Gate;
use pronk_learner::{AppoConfig, ImpalaConfig, PpoConfig, Schedule};

use super::*;

type Change = fn(&mut TrainerConfig);

#[test]
fn every_relation_that_cannot_work_is_refused_by_name() {
    let wrong: &[(&str, Change)] = &[
        ("num_envs_per_worker", |c| c.workers.num_envs_per_worker = 0),
        ("rollout_fragment_length", |c| c.workers.rollout_fragment_length = 0),
        ("rollout_fragment_length", |c| {
            c.workers.rollout_fragment_length = usize::MAX;
            c.workers.num_envs_per_worker = 2;
        }),
        ("rollout_fragment_length", |c| c.workers.rollout_fragment_length = 1 << 33),
        ("rollout_fragment_length", |c| {
            c.workers.rollout_fragment_length = 1;
            c.algorithm = ImpalaConfig { vtrace_drop_last_ts: true, ..ImpalaConfig::default() }.into();
        }),
        ("num_rollout_workers", |c| c.workers.num_rollout_workers = 1 << 20),
        ("num_learner_threads", |c| c.learner.num_learner_threads = NonZeroUsize::new(1 << 20)),
        ("admission", |c| {
            c.results.min_sample_timesteps_per_iteration = 1;
            c.learner.admission = Admission::Deterministic { lag: usize::MAX };
        }),
        ("train_batch_size", |c| c.learner.train_batch_size = 0),
        ("train_batch_size", |c| c.learner.train_batch_size = usize::MAX),
        ("minibatch_buffer_size", |c| c.learner.minibatch_buffer_size = usize::MAX),
        ("learner_queue_timeout", |c| c.learner.learner_queue_timeout = Duration::MAX),
        ("worker_restart_backoff_max", |c| c.supervision.worker_restart_backoff_max = Duration::MAX),
        ("lr", |c| c.learner.lr = 1e39),
        ("epsilon", |c| c.learner.epsilon = 1e-60),
        ("replay_proportion", |c| c.learner.replay_proportion = f64::NAN),
        ("replay_proportion", |c| c.learner.replay_proportion = -1.0),
        ("replay_buffer_num_slots", |c| c.learner.replay_proportion = 0.5),
        ("replay_buffer_num_slots", |c| c.learner.replay_buffer_num_slots = 1 << 30),
        ("num_sgd_iter", |c| c.learner.num_sgd_iter = 0),
        ("num_sgd_iter", |c| c.learner.num_sgd_iter = 1 << 40),
        ("minibatch_buffer_size", |c| c.learner.minibatch_buffer_size = 0),
        ("learner_queue_size", |c| c.learner.learner_queue_size = Some(0)),
        ("learner_queue_size", |c| c.learner.learner_queue_size = Some(usize::MAX)),
        ("learner_queue_size", |c| {
            c.learner.inqueue_gate = Gate::FillThenDrain;
            c.learner.learner_queue_size = Some(9);
        }),
        ("inqueue_gate", |c| {
            c.learner.inqueue_gate = Gate::FillThenDrain;
            c.workers.num_rollout_workers = 0;
        }),
        ("metrics_num_episodes_for_smoothing", |c| c.results.metrics_num_episodes_for_smoothing = 0),
        ("learner_queue_timeout", |c| c.learner.learner_queue_timeout = Duration::ZERO),
        ("worker_restart_backoff", |c| c.supervision.worker_restart_backoff = Duration::from_secs(9)),
        ("broadcast_interval", |c| c.learner.broadcast_interval = 0),
        ("max_consecutive_quarantined", |c| c.learner.max_consecutive_quarantined = 0),
        ("min_time_s_per_iteration", |c| c.results.min_time_s_per_iteration = f64::NAN),
        ("min_time_s_per_iteration", |c| c.results.min_time_s_per_iteration = -1.0),
        ("lr", |c| c.learner.lr = 0.0),
        ("lr", |c| c.learner.lr = f64::NAN),
        ("lr_schedule", |c| c.learner.lr_schedule = Some(Schedule::Constant(-0.1))),
        ("grad_clip", |c| c.learner.grad_clip = Some(0.0)),
        ("decay", |c| c.learner.decay = 1.0),
        ("momentum", |c| c.learner.momentum = -0.1),
        ("momentum", |c| c.learner.momentum = 1.0),
        ("epsilon", |c| c.learner.epsilon = 0.0),
        ("algorithm", |c| c.algorithm = ImpalaConfig { gamma: 1.01, ..ImpalaConfig::default() }.into()),
        ("algorithm", |c| c.algorithm = AppoConfig { clip_param: 0.0, ..AppoConfig::default() }.into()),
        ("algorithm", |c| c.algorithm = PpoConfig { kl_target: f64::NAN, ..PpoConfig::default() }.into()),
        ("sgd_minibatch_size", |c| c.learner.sgd_minibatch_size = NonZeroUsize::new(10)),
        ("evaluation.episodes", |c| c.evaluation.episodes = 0),
        ("evaluation.episodes", |c| c.evaluation.episodes = usize::MAX),
        ("model.lstm_cell_size", |c| c.model.lstm_cell_size = 0),
        ("model.fcnet_hiddens", |c| c.model.fcnet_hiddens = vec![64, 0]),
    ];
    for (field, change) in wrong {
        let mut config = TrainerConfig::default();
        change(&mut config);
        let error = config.check().unwrap_err();
        assert_eq!(&error.field, field, "{error}");
        assert!(error.reason.len() > 10, "{field} gives no reason");
    }
    assert_eq!(TrainerConfig::default().check(), Ok(()));
}

#[test]
fn statistics_cover_no_more_episodes_than_a_report_lists() {
    let most = pronk_rollout::WorkerReport::MAX_EPISODES;
    let mut config = TrainerConfig::default();
    config.results.metrics_num_episodes_for_smoothing = most;
    config.check().unwrap();
    config.results.metrics_num_episodes_for_smoothing = most + 1;
    let error = config.check().unwrap_err();
    assert_eq!(error.field, "metrics_num_episodes_for_smoothing");
    assert!(error.reason.contains(&format!("at most {most}")), "{error}");
}

#[test]
fn the_queue_holds_what_makes_a_train_batch_with_the_fragments_of_blocked_workers() {
    assert_eq!(TrainerConfig::default().fragments_of_a_batch(), 10);
    let cases: [(usize, Change, usize); 5] = [
        (3, |_| {}, 7),
        (30, |_| {}, 1),
        (3, |c| c.learner.train_batch_size = 1, 1),
        (3, |c| c.learner.inqueue_gate = Gate::FillThenDrain, 10),
        (3, |c| c.learner.learner_queue_size = Some(5), 5),
    ];
    for (workers, change, size) in cases {
        let mut config = TrainerConfig::default();
        config.workers.num_rollout_workers = workers;
        change(&mut config);
        config.check().unwrap();
        assert_eq!(config.inqueue_size(), size, "{config:?}");
    }
}

#[test]
fn a_config_survives_json() {
    let mut config = TrainerConfig::default();
    config.learner.lr_schedule = Some(Schedule::piecewise_linear([(0.0, 0.01), (1000.0, 0.0)]).unwrap());
    config.supervision.worker_restart_backoff = Duration::from_millis(250);
    config.learner.inqueue_gate = Gate::FillThenDrain;
    let text = serde_json::to_string(&config).unwrap();
    assert!(text.contains(r#""inqueue_gate":"fill_then_drain""#), "{text}");
    assert_eq!(read(&text).unwrap(), config);
    assert_eq!(read("{}").unwrap(), TrainerConfig::default());
}

fn read(text: &str) -> Result<TrainerConfig, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn a_file_has_a_table_for_each_group_or_its_keys_at_the_top() {
    let mut config = TrainerConfig { seed: 3, ..TrainerConfig::default() };
    config.workers.num_envs_per_worker = 4;
    config.learner.lr = 0.002;
    config.supervision.env_hang_timeout = None;
    config.results.min_time_s_per_iteration = 0.5;
    config.model.burn_in = 2;
    let written = serde_json::to_value(&config).unwrap();
    assert_eq!((&written["learner"]["lr"], written.get("lr")), (&0.002.into(), None), "what is written is grouped");

    let mut flat = written.clone();
    for group in ["workers", "learner", "supervision", "results"] {
        let table = flat.as_object_mut().unwrap().remove(group).unwrap();
        flat.as_object_mut().unwrap().extend(table.as_object().unwrap().clone());
    }
    assert_eq!(read(&flat.to_string()).unwrap(), config);
    let mixed = r#"{"learner": {"lr": 0.1, "num_sgd_iter": 2}, "train_batch_size": 7}"#;
    let mixed = read(mixed).unwrap().learner;
    assert_eq!((mixed.lr, mixed.num_sgd_iter, mixed.train_batch_size), (0.1, 2, 7));
}

#[test]
fn a_setting_that_a_file_does_not_name_takes_the_default_of_its_algorithm() {
    for (algorithm, expected) in [
        ("impala", TrainerConfig::default()),
        ("appo", TrainerConfig::for_algorithm(AppoConfig::default())),
        ("ppo", TrainerConfig::for_algorithm(PpoConfig::default())),
    ] {
        let config = read(&format!(r#"{{"algorithm": {{"{algorithm}": {{}}}}}}"#)).unwrap();
        assert_eq!(config, expected);
        assert_eq!((config.check(), config.check_columns()), (Ok(()), Ok(())));
        // What is written names every setting, so it reads back the same whatever the defaults become.
        assert_eq!(read(&serde_json::to_string(&config).unwrap()).unwrap(), config);
        // A setting wins wherever it stands, also one that is IMPALA's default, and null.
        for named in [
            r#""grad_clip": 40.0, "num_sgd_iter": 1, "sgd_minibatch_size": null, "train_batch_size": 500"#,
            r#""learner": {"grad_clip": 40.0, "num_sgd_iter": 1, "sgd_minibatch_size": null, "train_batch_size": 500}"#,
        ] {
            let config = read(&format!(r#"{{{named}, "algorithm": {{"{algorithm}": {{}}}}}}"#)).unwrap();
            assert_eq!(config.learner, LearnerConfig::default(), "{algorithm}: {named}");
        }
    }
}

#[test]
fn a_default_minibatch_fits_the_fragments_and_devices_of_the_file() {
    let minibatch = |settings: &str| {
        let config = read(&format!(r#"{{{settings}, "algorithm": {{"ppo": {{}}}}}}"#)).unwrap();
        let checked = config.check().and_then(|()| config.check_columns());
        (config.learner.sgd_minibatch_size.map(NonZeroUsize::get), checked)
    };
    assert_eq!(minibatch(r#""rollout_fragment_length": 64"#), (Some(192), Ok(())));
    assert_eq!(minibatch(r#""rollout_fragment_length": 1000"#), (Some(1000), Ok(())));
    assert_eq!(minibatch(r#""rollout_fragment_length": 1"#), (Some(250), Ok(())));
    assert_eq!(minibatch(r#""devices": ["cpu", "cpu"]"#), (Some(300), Ok(())));
    assert_eq!(
        minibatch(r#""rollout_fragment_length": 64, "devices": ["cpu", "cpu", "cpu", "cpu"]"#),
        (Some(256), Ok(()))
    );
    // Nothing is made of what is refused anyway, and no panic.
    for wrong in
        [r#""rollout_fragment_length": 0"#, r#""rollout_fragment_length": 18446744073709551615"#, r#""devices": []"#]
    {
        assert!(minibatch(wrong).1.is_err(), "{wrong}");
    }
    // A minibatch that the file names is the file's.
    assert_eq!(minibatch(r#""sgd_minibatch_size": 70"#).0, Some(70));
}

#[test]
fn what_is_wrong_in_a_file_is_refused_by_its_key() {
    let wrong = [
        (r#"{"learning_rate": 1}"#, ["`learning_rate`", "`learner`"]),
        (r#"{"learner": {"learning_rate": 1}}"#, ["`learning_rate` in `learner`", "`lr`"]),
        (r#"{"learner": {"num_rollout_workers": 1}}"#, ["`num_rollout_workers` in `learner`", "`workers`"]),
        (r#"{"model": {"lr": 1}}"#, ["`model`", "unknown field `lr`"]),
        (r#"{"lr": 1, "learner": {"lr": 1}}"#, ["`lr`", "twice"]),
        (r#"{"learner": {"lr": 1}, "lr": 1}"#, ["`lr`", "twice"]),
        (r#"{"seed": 1, "seed": 2}"#, ["`seed`", "twice"]),
        (r#"{"learner": {"lr": 1, "lr": 2}}"#, ["`lr`", "twice"]),
        (r#"{"model": {"burn_in": 1, "burn_in": 2}}"#, ["`burn_in`", "twice"]),
        (r#"{"learner_queue_timeout": -1}"#, ["`learner_queue_timeout`", "-1"]),
        (r#"{"learner": {"lr": "fast"}}"#, ["`lr` in `learner`", "fast"]),
        (r#"{"evaluation": {"every": "now and then"}}"#, ["`evaluation`", "'now and then' is neither"]),
        (r#"{"evaluation": {"selection": "best"}}"#, ["`evaluation`", "`mode` or `sample`"]),
        (r#"{"every": "60 s"}"#, ["`every`", "`evaluation`"]),
        (r#"{"learner": 3}"#, ["`learner`", "3"]),
    ];
    for (text, words) in wrong {
        let error = read(text).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused_by_their_key() {
    let fields = [
        ("`lr`", "lr = ?"),
        ("`lr` in `learner`", "[learner]\nlr = ?"),
        ("`grad_clip`", "grad_clip = ?"),
        ("`lr_schedule`", "lr_schedule = [[0, ?], [9, 0.1]]"),
        ("`max_lag`", "max_lag = ?"),
        ("`learner_queue_timeout`", "learner_queue_timeout = ?"),
        ("`env_hang_timeout`", "env_hang_timeout = ?"),
        ("`gather`", "gather = { within = ? }"),
        ("`model`", "[model]\nlog_std_range = [?, 2.0]"),
        ("`algorithm`", "[algorithm.impala]\ngamma = ?"),
        ("`algorithm`", "[algorithm.impala]\nvtrace_clip_rho_threshold = ?"),
    ];
    for (key, text) in fields {
        toml::from_str::<TrainerConfig>(&text.replace('?', "1")).unwrap();
        for number in ["nan", "inf", "-inf"] {
            let error = toml::from_str::<TrainerConfig>(&text.replace('?', number)).unwrap_err().to_string();
            assert!(error.contains(key), "{text}: {error}");
        }
    }
}

#[test]
fn the_rhythm_of_a_run_tells_its_updates_and_its_lag() {
    let rhythm = |change: Change| {
        let mut config = TrainerConfig::default();
        config.workers.num_rollout_workers = 1;
        config.workers.num_envs_per_worker = 10; // a fragment is a train batch
        change(&mut config);
        config.check().unwrap();
        let rhythm = config.update_rhythm(false);
        (rhythm.per_train_batch.get(), rhythm.per_buffer.get(), rhythm.lag)
    };
    assert_eq!(rhythm(|_| {}), (1, 1, 2), "one in the queue, and one in hand");
    let mut of_hosts = TrainerConfig::default();
    (of_hosts.workers.num_rollout_workers, of_hosts.learner.learner_queue_size) = (0, Some(10));
    assert_eq!((of_hosts.update_rhythm(false).lag, of_hosts.update_rhythm(true).lag), (0, 1), "ten small fragments");
    assert_eq!(rhythm(|c| c.workers.num_rollout_workers = 4), (1, 1, 5));
    assert_eq!(rhythm(|c| c.workers.num_rollout_workers = 0), (1, 1, 0));
    assert_eq!(rhythm(|c| c.learner.learner_queue_size = Some(16)), (1, 1, 17));
    assert_eq!(rhythm(|c| c.learner.train_batch_size = 5000), (1, 1, 1), "ten fragments");
    let many_passes: Change = |c| {
        c.learner.num_sgd_iter = 3;
        c.learner.sgd_minibatch_size = NonZeroUsize::new(100); // two of ten columns
    };
    assert_eq!(rhythm(many_passes), (15, 15, 30));
    let buffered: Change = |c| (c.learner.num_sgd_iter, c.learner.minibatch_buffer_size) = (3, 4);
    assert_eq!(rhythm(buffered), (3, 12, 6));
    assert_eq!(rhythm(|c| c.learner.num_multi_gpu_tower_stacks = 2), (1, 1, 4));
    assert_eq!(rhythm(|c| c.learner.broadcast_interval = 10), (1, 1, 11));
    let limited: Change = |c| (c.learner.learner_queue_size, c.learner.max_lag) = (Some(16), Some(4));
    assert_eq!(rhythm(limited), (1, 1, 4));
    let deterministic: Change = |c| {
        c.results.min_sample_timesteps_per_iteration = 1;
        c.learner.admission = Admission::Deterministic { lag: 8 };
        c.learner.num_sgd_iter = 2;
    };
    assert_eq!(rhythm(deterministic), (2, 2, 16));
}
