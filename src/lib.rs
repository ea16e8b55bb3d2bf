#![doc = include_str!("../README.md")]

mod bottleneck;
mod config;
mod error;
mod multi_agent;

mod checkpoint;
mod prometheus;
mod result;
mod run_folder;
mod signals;
mod stop;
mod trainer;

pub mod prelude;

/// Environments that come with pronk.
pub mod envs {
    pub use pronk_rollout::{
        Acrobot, CartPole, Masked, MountainCar, MountainCarContinuous, Pendulum, Recall, Rendezvous, TicTacToe,
    };
}

pub use bottleneck::{Advice, Bottleneck, Limit, Processors};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use config::{
    ConfigError, InferencePlacement, LearnerConfig, ModelConfig, ObservationFilter, OptType, ResultsConfig,
    SupervisionConfig, TrainerConfig, Vision, WorkersConfig,
};
pub use error::{FailedRun, TrainError};
pub use multi_agent::MultiAgentConfig;
pub use prometheus::{Prometheus, PrometheusError};
pub use result::TrainResult;
pub use run_folder::{RunFolder, RunFolderError};
pub use signals::{CtrlC, on_ctrl_c};
pub use stop::{StopReason, StopWhen};
pub use trainer::{OneAgent, Run, RunSummary, SeveralAgents, Trainer, TrainerBuilder, TrainerState, Whole};

/// Wrappers: an environment around another one, that changes one thing about it.
pub mod wrappers {
    pub use pronk_rollout::{Chaos, ChaosConfig, ClipReward, TimeLimit, TransformObservation, TransformReward};
}

/// Environments in processes of their own: Gymnasium, Atari, PettingZoo, and any other language.
#[cfg(feature = "env-process")]
pub use pronk_env_process as env_process;

// The rooms, for who wires a run of their own.
pub use {
    pronk_buffer as buffer, pronk_groups as groups, pronk_learner as learner, pronk_metrics as metrics,
    pronk_policy as policy, pronk_rollout as rollout,
};

pub use pronk_buffer::{Gate, MultiAgentBatch, SampleBatch};
pub use pronk_groups::{
    CallResult, GroupError, GroupErrorCause, GroupPlace, GroupWorker, GroupsStartError, OnWorkerError, Restarts,
    StopOutcome, Stopper, WorkerGroup, WorkerGroupConfig, WorkerGroups, WorkerId, WorkerTime,
};
pub use pronk_learner::{
    Algorithm, AlgorithmConfig, AppoConfig, AppoForm, ImpalaConfig, InitialState, LearnError, Learned, Learner,
    LearnerFailure, LearnerState, OnStarved, PolicyLag, PpoConfig, Schedule, TrainBatch,
};
pub use pronk_metrics::{
    ByPolicy, Console, Csv, DEFAULT_POLICY, HtmlReport, JsonLines, LearnerInfo, PolicyId, ReportError, Reporter,
    ResultDict, StepTotals, Steps, TensorBoard, ThreadTime, Timeline, Timers, reporter_fn,
};
pub use pronk_policy::{
    ActionSelection, Activation, DeviceSpec, Gaussian, GaussianConfig, Init, LogStdRange, Network, ObsDtype, ObsLoader,
    Params, Policy, PolicyError, Rng, Space, Torso,
};
pub use pronk_rollout::{
    AbandonedThreads, ActionRef, AgentSpec, Agents, AsyncEnv, AsyncEnvs, End, Env, EnvContext, EnvError, EnvFactory,
    EnvFailure, EnvSpec, EpisodeStat, EvaluateError, Evaluation, Gather, Kernel, MultiAgentEnv, MultiAgentFactory,
    MultiAgentSpec, ObsMut, Outcome, PolicyMapping, RestartPolicy, ReturnStat, Step, Vectorised, WorkerFailure,
    WorkerStatus, check_env, check_multi_agent_env, evaluate,
};
