#![doc = include_str!("../README.md")]
//!
//! # The guide
//!
//! [`guide`] has pages for people who train agents: a first run, environments, reading a run, choosing sizes,
//! algorithms, and what to do when something goes wrong.

pub mod bottleneck;
pub mod checkpoint;
pub mod config;
mod digest;
mod error;
#[cfg(any(doc, doctest))]
pub mod guide;
mod multi_agent;
pub mod prelude;
mod prometheus;
mod record;
mod result;
mod resume;
mod run_folder;
mod run_info;
pub mod signals;
mod stop;
pub mod trainer;
pub mod video;

/// Environments that come with pronk.
pub mod envs {
    pub use pronk_rollout::{
        Acrobot, CartPole, Masked, MountainCar, MountainCarContinuous, Pendulum, Recall, Rendezvous, TicTacToe,
    };
}

/// Environments around another one that change one thing about it.
pub mod wrappers {
    pub use pronk_rollout::{Chaos, ChaosConfig, ClipReward, TimeLimit, TransformObservation, TransformReward};
}

/// Environments in processes of their own: Gymnasium, Atari, PettingZoo, and any other language.
#[cfg(feature = "env-process")]
pub use pronk_env_process as env_process;

/// Workers on other machines, over Zenoh.
#[cfg(feature = "hosts-zenoh")]
pub use pronk_hosts_zenoh as hosts_zenoh;

// The rooms: types that a run rarely needs, and all that a program needs to wire one by hand.
pub use {
    pronk_buffer as buffer, pronk_groups as groups, pronk_hosts as hosts, pronk_learner as learner,
    pronk_metrics as metrics, pronk_policy as policy, pronk_rollout as rollout,
};

pub use checkpoint::{Checkpoint, CheckpointError};
pub use config::{ConfigError, Every, TrainerConfig};
pub use digest::Digest;
pub use error::{HostsError, TrainError};
pub use multi_agent::MultiAgentConfig;
pub use prometheus::{Prometheus, PrometheusError};
pub use record::{RecordError, Recording, Replay};
pub use result::TrainResult;
pub use resume::{Resume, ResumeError};
pub use run_folder::{RunFolder, RunFolderError};
pub use run_info::{RunInfo, RunInfoError, RunState, machine};
pub use signals::on_ctrl_c;
pub use stop::{StopReason, StopWhen};
pub use trainer::{
    ActingError, ActingHost, ActingOutcome, EnvFailures, FailedRun, Run, Trainer, TrainerBuilder, Whole,
};

pub use pronk_buffer::SampleBatch;
pub use pronk_learner::{
    Algorithm, AlgorithmConfig, AppoConfig, ImpalaConfig, LearnError, Learner, PpoConfig, Schedule,
};
pub use pronk_metrics::{
    ByPolicy, Console, Csv, DEFAULT_POLICY, HtmlReport, JsonLines, PolicyId, ReportError, Reporter, ResultDict, Steps,
    TensorBoard, Timeline, Timers, reporter_fn,
};
pub use pronk_policy::{
    ActionSelection, Activation, DeviceSpec, Init, Network, Params, Policy, PolicyError, Rng, Space,
};
pub use pronk_rollout::{
    ActionRef, AsyncEnv, AsyncEnvs, End, Env, EnvContext, EnvError, EnvFactory, EnvFailure, EnvPurpose, EnvSpec,
    Gather, MultiAgentEnv, ObsMut, PolicyMapping, Step, Vectorised, check_env, check_env_twice, check_multi_agent_env,
    check_multi_agent_env_twice, evaluate, evaluate_agents,
};
