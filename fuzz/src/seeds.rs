//! The runs of which the corpus has checkpoints and a record.

use std::path::Path;
use std::time::Duration;

use pronk::config::{ModelConfig, ObservationFilter};
use pronk::envs::{CartPole, TicTacToe};
use pronk::{
    AlgorithmConfig, AppoConfig, EnvContext, Every, Gather, MultiAgentConfig, Recording, Replay, Resume, Run, StopWhen,
    TrainError, Trainer, TrainerBuilder, TrainerConfig,
};

use crate::folder::{Folder, scratch};

/// Env-steps of a run that goes on from a checkpoint.
pub const ENV_STEPS: u64 = 48;

/// How long a target lets a run go on, with the time until its checkpoint.
pub(crate) const SOON: Option<Duration> = Some(Duration::from_millis(250));

/// A kind of run, by how its environments step: checkpoints hold different positions of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All together.
    Together,
    /// In groups on threads of their own, with a recurrent network.
    Groups,
    /// With several agents.
    Agents,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Together, Self::Groups, Self::Agents];

    /// A run with all that a checkpoint may hold, as small as it can be.
    fn run(self) -> TrainerBuilder {
        let mut config = TrainerConfig {
            // The corpus is of a version without the penalty, and is gone on from exactly.
            algorithm: AlgorithmConfig::Appo(AppoConfig { behaviour_kl_coeff: 0.0, ..AppoConfig::default() }),
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
        match self {
            Self::Together => {}
            Self::Groups => {
                config.workers.num_env_groups = 2;
                config.workers.num_envs_per_worker = 4;
                config.workers.rollout_fragment_length = 2;
                config.workers.gather = Gather::InTurn;
                (config.model.use_lstm, config.model.lstm_cell_size) = (true, 2);
            }
            Self::Agents => {
                config.workers.num_envs_per_worker = 2;
                config.workers.observation_filter = ObservationFilter::NoFilter;
                config.workers.normalize_rewards = false;
            }
        }
        Trainer::builder(config)
    }

    /// Adds its environments.
    fn build(self, run: TrainerBuilder) -> Result<Trainer, TrainError> {
        match self {
            Self::Together | Self::Groups => run.env(|_: &EnvContext| CartPole::new()).build(),
            Self::Agents => {
                let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
                run.multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents).build()
            }
        }
    }
}

/// Half of a run.
fn half() -> StopWhen {
    StopWhen { env_steps: Some(ENV_STEPS / 2), ..StopWhen::default() }
}

/// The folder of a run's checkpoints.
///
/// # Errors
/// The run failed.
pub fn checkpoints(kind: Kind) -> Result<Folder, TrainError> {
    let folder = scratch();
    kind.build(kind.run().checkpoints(folder.path()))?.run(half())?;
    Ok(Folder::read(folder.path()).unwrap_or_default())
}

/// The folder of a run's record with fragments, and of its results.
///
/// # Errors
/// The run failed.
pub fn record() -> Result<Folder, TrainError> {
    let folder = scratch();
    let recording = Recording::to(folder.path().join("run.rec")).with_fragments();
    Kind::Together.build(Kind::Together.run().record(recording).log_to(folder.path()))?.run(half())?;
    Ok(Folder::read(folder.path()).unwrap_or_default())
}

/// Goes on with the run of which a checkpoint is in a folder, until [`ENV_STEPS`] or the time limit.
///
/// # Errors
/// Why it does not go on: it may be none, or another run.
pub fn go_on(kind: Kind, folder: &Path, time: Option<Duration>) -> Result<Run, String> {
    let trainer = kind.build(kind.run().resume(Resume::from(folder))).map_err(|error| error.to_string())?;
    let stop = StopWhen { env_steps: Some(ENV_STEPS), time, ..StopWhen::default() };
    let run = trainer.run(stop).map_err(|failed| failed.to_string())?;
    assert!(run.steps.is_closed(), "the ledger does not close: {:?}", run.steps);
    Ok(run)
}

/// Repeats the run of which this is the record, until its end or the time limit.
///
/// # Errors
/// Why it is another one.
pub fn repeat(replay: Replay, time: Option<Duration>) -> Result<Run, String> {
    let kind = Kind::Together;
    let trainer = kind.build(kind.run().replay(replay)).map_err(|error| error.to_string())?;
    trainer.run(StopWhen { time, ..StopWhen::default() }).map_err(|failed| failed.to_string())
}
