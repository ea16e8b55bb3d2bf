#![allow(clippy::unwrap_used)]
use pronk_learner::{AppoConfig, ImpalaConfig, PpoConfig};

use super::*;

type Change = fn(&mut TrainerConfig);

#[test]
fn every_relation_that_cannot_work_is_refused_by_name() {
    let wrong: &[(&str, Change)] = &[
        ("num_envs_per_worker", |c| c.num_envs_per_worker = 0),
        ("rollout_fragment_length", |c| c.rollout_fragment_length = 0),
        ("rollout_fragment_length", |c| {
            c.rollout_fragment_length = usize::MAX;
            c.num_envs_per_worker = 2;
        }),
        ("rollout_fragment_length", |c| c.rollout_fragment_length = 1 << 33),
        ("rollout_fragment_length", |c| {
            c.rollout_fragment_length = 1;
            c.algorithm = ImpalaConfig { vtrace_drop_last_ts: true, ..ImpalaConfig::default() }.into();
        }),
        ("num_rollout_workers", |c| c.num_rollout_workers = 1 << 20),
        ("train_batch_size", |c| c.train_batch_size = 0),
        ("train_batch_size", |c| c.train_batch_size = usize::MAX),
        ("minibatch_buffer_size", |c| c.minibatch_buffer_size = usize::MAX),
        ("learner_queue_timeout", |c| c.learner_queue_timeout = Duration::MAX),
        ("worker_restart_backoff_max", |c| c.worker_restart_backoff_max = Duration::MAX),
        ("lr", |c| c.lr = 1e39),
        ("epsilon", |c| c.epsilon = 1e-60),
        ("replay_proportion", |c| c.replay_proportion = f64::NAN),
        ("replay_proportion", |c| c.replay_proportion = -1.0),
        ("replay_buffer_num_slots", |c| c.replay_proportion = 0.5),
        ("replay_buffer_num_slots", |c| c.replay_buffer_num_slots = 1 << 30),
        ("num_sgd_iter", |c| c.num_sgd_iter = 0),
        ("num_sgd_iter", |c| c.num_sgd_iter = 1 << 40),
        ("minibatch_buffer_size", |c| c.minibatch_buffer_size = 0),
        ("learner_queue_size", |c| c.learner_queue_size = Some(0)),
        ("learner_queue_size", |c| c.learner_queue_size = Some(usize::MAX)),
        ("learner_queue_size", |c| {
            c.inqueue_gate = Gate::FillThenDrain;
            c.learner_queue_size = Some(9);
        }),
        ("inqueue_gate", |c| {
            c.inqueue_gate = Gate::FillThenDrain;
            c.num_rollout_workers = 0;
        }),
        ("metrics_num_episodes_for_smoothing", |c| c.metrics_num_episodes_for_smoothing = 0),
        ("learner_queue_timeout", |c| c.learner_queue_timeout = Duration::ZERO),
        ("worker_restart_backoff", |c| c.worker_restart_backoff = Duration::from_secs(9)),
        ("broadcast_interval", |c| c.broadcast_interval = 0),
        ("max_consecutive_quarantined", |c| c.max_consecutive_quarantined = 0),
        ("min_time_s_per_iteration", |c| c.min_time_s_per_iteration = f64::NAN),
        ("min_time_s_per_iteration", |c| c.min_time_s_per_iteration = -1.0),
        ("lr", |c| c.lr = 0.0),
        ("lr", |c| c.lr = f64::NAN),
        ("lr_schedule", |c| c.lr_schedule = Some(Schedule::Constant(-0.1))),
        ("grad_clip", |c| c.grad_clip = Some(0.0)),
        ("decay", |c| c.decay = 1.0),
        ("momentum", |c| c.momentum = -0.1),
        ("momentum", |c| c.momentum = 1.0),
        ("epsilon", |c| c.epsilon = 0.0),
        ("algorithm", |c| c.algorithm = ImpalaConfig { gamma: 1.01, ..ImpalaConfig::default() }.into()),
        ("algorithm", |c| c.algorithm = AppoConfig { clip_param: 0.0, ..AppoConfig::default() }.into()),
        ("algorithm", |c| c.algorithm = PpoConfig { kl_target: f64::NAN, ..PpoConfig::default() }.into()),
        ("sgd_minibatch_size", |c| c.sgd_minibatch_size = NonZeroUsize::new(10)),
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
fn the_queue_holds_what_makes_a_train_batch_with_the_fragments_of_blocked_workers() {
    let batch_of_ten = TrainerConfig::default();
    assert_eq!(batch_of_ten.fragments_of_a_batch(), 10);
    let cases = [
        (TrainerConfig { num_rollout_workers: 3, ..batch_of_ten.clone() }, 7),
        (TrainerConfig { num_rollout_workers: 30, ..batch_of_ten.clone() }, 1),
        (TrainerConfig { num_rollout_workers: 3, train_batch_size: 1, ..batch_of_ten.clone() }, 1),
        (TrainerConfig { num_rollout_workers: 3, inqueue_gate: Gate::FillThenDrain, ..batch_of_ten.clone() }, 10),
        (TrainerConfig { num_rollout_workers: 3, learner_queue_size: Some(5), ..batch_of_ten }, 5),
    ];
    for (config, size) in cases {
        config.check().unwrap();
        assert_eq!(config.inqueue_size(), size, "{config:?}");
    }
}

#[test]
fn a_config_survives_json_and_unknown_keys_are_refused() {
    let config = TrainerConfig {
        lr_schedule: Some(Schedule::piecewise_linear([(0.0, 0.01), (1000.0, 0.0)]).unwrap()),
        worker_restart_backoff: Duration::from_millis(250),
        inqueue_gate: Gate::FillThenDrain,
        ..TrainerConfig::default()
    };
    let text = serde_json::to_string(&config).unwrap();
    assert!(text.contains(r#""inqueue_gate":"fill_then_drain""#), "{text}");
    assert_eq!(serde_json::from_str::<TrainerConfig>(&text).unwrap(), config);
    assert_eq!(serde_json::from_str::<TrainerConfig>("{}").unwrap(), TrainerConfig::default());
    let unknown = serde_json::from_str::<TrainerConfig>(r#"{"learning_rate": 1}"#).unwrap_err();
    assert!(unknown.to_string().contains("learning_rate"), "{unknown}");
    let negative = serde_json::from_str::<TrainerConfig>(r#"{"learner_queue_timeout": -1}"#).unwrap_err();
    assert!(negative.to_string().contains("-1"), "{negative}");
}
