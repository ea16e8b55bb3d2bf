//! The run of which the corpus has a checkpoint and a record.

use std::path::Path;
use std::time::Duration;

use pronk::config::{ModelConfig, ObservationFilter};
use pronk::envs::CartPole;
use pronk::{
    AlgorithmConfig, AppoConfig, EnvContext, Every, Recording, Replay, Resume, StopWhen, TrainError, Trainer,
    TrainerConfig,
};

use crate::folder::{Folder, scratch};

/// Env-steps of a run that goes on from the checkpoint.
const ENV_STEPS: u64 = 48;

/// How long such a run goes on at most.
const SOON: Duration = Duration::from_millis(50);

/// A run with all that a checkpoint may hold, as small as it can be.
fn config() -> TrainerConfig {
    let mut config = TrainerConfig {
        algorithm: AlgorithmConfig::Appo(AppoConfig::default()),
        model: ModelConfig { fcnet_hiddens: vec![3], ..ModelConfig::default() },
        ..TrainerConfig::default()
    };
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 1;
    config.workers.rollout_fragment_length = 4;
    config.workers.observation_filter = ObservationFilter::MeanStdFilter;
    config.workers.normalize_rewards = true;
    config.learner.train_batch_size = 8;
    config.learner.replay_proportion = 0.5;
    config.learner.replay_buffer_num_slots = 2;
    config.learner.num_sgd_iter = 2;
    config.results.min_time_s_per_iteration = 0.0;
    config.results.min_sample_timesteps_per_iteration = 8;
    config.checkpoint.every = Every::EnvSteps(8);
    config.checkpoint.keep = 2;
    config
}

/// The folder of its checkpoints, and the folder of its record with fragments and of its results.
///
/// # Errors
/// The run failed.
pub fn folders() -> Result<[Folder; 2], TrainError> {
    let (checkpoints, record) = (scratch(), scratch());
    let run = || Trainer::builder(config()).env(|_: &EnvContext| CartPole::new());
    let stop = StopWhen { env_steps: Some(ENV_STEPS / 2), ..StopWhen::default() };
    run().checkpoints(checkpoints.path()).build()?.run(stop.clone())?;
    let recording = Recording::to(record.path().join("run.rec")).with_fragments();
    run().record(recording).log_to(record.path()).build()?.run(stop)?;
    Ok([checkpoints, record].map(|folder| Folder::read(folder.path()).unwrap_or_default()))
}

/// Goes on with the run of which a checkpoint is in a folder.
///
/// # Errors
/// Why it does not go on: it may be none, or another run.
pub fn go_on(folder: &Path) -> Result<(), String> {
    let builder = Trainer::builder(config()).env(|_: &EnvContext| CartPole::new());
    let trainer = builder.resume(Resume::from(folder)).build().map_err(|error| error.to_string())?;
    let stop = StopWhen { env_steps: Some(ENV_STEPS), time: Some(SOON), ..StopWhen::default() };
    let run = trainer.run(stop).map_err(|failed| failed.to_string())?;
    assert!(run.steps.is_closed(), "the ledger does not close: {:?}", run.steps);
    Ok(())
}

/// Repeats the run of which this is the record.
///
/// # Errors
/// Why it is another one.
pub fn repeat(replay: Replay) -> Result<(), String> {
    let builder = Trainer::builder(config()).env(|_: &EnvContext| CartPole::new());
    let trainer = builder.replay(replay).build().map_err(|error| error.to_string())?;
    let run = trainer.run(StopWhen { time: Some(SOON), ..StopWhen::default() });
    run.map(drop).map_err(|failed| failed.to_string())
}
