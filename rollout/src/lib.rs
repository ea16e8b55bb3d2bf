//! How is experience sampled?
//!
//! Users write an [`Env`], or a [`MultiAgentEnv`]. A [`VectorEnv`] steps several environments together and
//! resets each as its episode ends; a [`RolloutWorker`] turns weights into fragments. A [`WorkerSet`] runs
//! workers on threads, an [`InlineSource`] runs one on the caller's. A failure of an environment costs a
//! fragment, never the run.

mod act;
mod check;
mod env;
mod envs;
#[cfg(all(test, pronk_model))]
#[allow(clippy::unwrap_used)]
mod models;
mod pool;
mod run;
mod sync;
mod vector;
mod worker;
mod wrappers;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod testing;

pub use pronk_buffer::End;

pub use act::{
    Inference, InferenceClient, InferencePort, InferenceState, InferenceThread, MappingError, PolicyBuildError,
    PolicyFault, PolicyMapping, WorkerPolicy,
};
pub use check::{
    EnvCheckError, EnvFault, check_env, check_env_twice, check_multi_agent_env, check_multi_agent_env_twice,
};
pub use env::{
    ActionRef, AgentSpec, Agents, AsyncEnv, CallMonitor, Env, EnvCall, EnvContext, EnvError, EnvFailure,
    EnvFailureCause, EnvPurpose, EnvSpec, EpisodeStat, Episodes, FailurePlace, Frame, IntoAsyncEnv, IntoEnv,
    IntoMultiAgentEnv, MultiAgentEnv, MultiAgentSpec, ObsMut, Reaper, ReaperHandle, Restarted, ReturnStat, SavedEnv,
    SavedEnvs, SavedEpisodes, Step, VectorContext, Way,
};
pub use envs::{
    Acrobot, CartPole, Masked, MountainCar, MountainCarContinuous, Pendulum, Recall, Rendezvous, TicTacToe,
};
pub use pool::{
    Arrivals, AsyncEnvs, EnvFactory, EnvTasks, EnvThreadState, Gather, MultiAgentFactory, Vectorised,
    probe_multi_agent_spec, probe_spec,
};
pub use run::{
    AbandonedThreads, AgentStat, Audience, EvaluateError, Evaluation, EvaluationPlan, Evaluator, EvaluatorState,
    FailureLog, InlineSource, JoinOutcome, OnFrame, OnProgress, Players, PostedSeat, Progress, ResumedSeats,
    SpentRestarts, StartError, SupervisorState, WorkerEdges, WorkerFailure, WorkerFailureCause, WorkerReport,
    WorkerSet, WorkerSetConfig, WorkerStatus, evaluate, evaluate_agents, evaluate_and_render, evaluate_beside,
};
pub use vector::{Kernel, KernelAction, NativeVectorEnv, Outcome, SerialVectorEnv, VectorEnv, VectorStep};
pub use worker::{
    AnyEnvSpec, BuildError, Collected, GatheringWorkerConfig, MakeWorker, MultiAgentWorkerConfig, NormalizerConfig,
    RestartPolicy, RolloutWorker, SampleError, SeatState, WorkerConfig, WorkerLinks, WorkerSeat, WorkerState,
    obs_normalizer,
};
pub use wrappers::{Chaos, ChaosConfig, ClipReward, TimeLimit, TransformObservation, TransformReward};
