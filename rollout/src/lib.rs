//! How is data made?
//!
//! An [`Env`] is what a user writes; a [`VectorEnv`] steps several of them together and resets each as its episode ends;
//! a [`RolloutWorker`] turns weights into fragments. With several agents it is a [`MultiAgentEnv`] and a [`MultiAgentWorker`].
//! A [`WorkerSet`] runs workers on threads and an [`InlineSource`] runs one on the thread of its caller, whatever kind they are.
//! An environment that fails costs its fragment, never the run. [`WorkerGroups`] are threads for anything else.

mod acting;
mod columns;
mod convert;
mod env;
mod episode;
mod factory;
mod failure;
mod mask;
mod part;
mod seed;

mod async_env;
mod check_env;
mod envs;
mod multi_agent;
mod normalize;
mod vector;
mod vectorised;
mod wrappers;

mod gather;
mod groups;

mod evaluate;
mod gathering_worker;
mod inference;
mod inline;
mod reaper;
mod report;
mod sampler;
mod supervise;
mod watch;
mod worker;
mod worker_groups;
mod worker_set;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod testing;

pub use env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};
pub use episode::Episodes;
pub use factory::{EnvContext, EnvFactory, IntoEnv, VectorContext, probe_spec};
pub use failure::{EnvFailure, FailureCause, FailurePlace};
pub use pronk_buffer::End;

pub use async_env::{AsyncEnv, AsyncEnvs, EnvTasks, IntoAsyncEnv};
pub use check_env::{EnvCheckError, EnvFault, check_env};
pub use envs::{
    Acrobot, CartPole, Masked, MountainCar, MountainCarContinuous, Pendulum, Recall, Rendezvous, TicTacToe,
};
pub use multi_agent::{
    AgentSpec, Agents, IntoMultiAgentEnv, MappingError, MultiAgentEnv, MultiAgentFactory, MultiAgentSpec,
    MultiAgentWorker, MultiAgentWorkerConfig, PolicyMapping, WorkerPolicy, check_multi_agent_env,
    probe_multi_agent_spec,
};
pub use normalize::{Normalizer, NormalizerConfig, NormalizerMoments, RunningMoments};
pub use vector::{EpisodeStat, SerialVectorEnv, VectorEnv, VectorStep};
pub use vectorised::{Kernel, KernelAction, NativeVectorEnv, Outcome, Vectorised};
pub use wrappers::{Chaos, ChaosConfig, ClipReward, TimeLimit, TransformObservation, TransformReward};

pub use evaluate::{EvaluateError, Evaluation, evaluate};
pub use gather::{Arrivals, Gather};
pub use gathering_worker::{GatheringWorker, GatheringWorkerConfig};
pub use groups::EnvThreadState;
pub use inference::{Inference, InferenceClient, InferencePort, InferenceState, InferenceThread};
pub use inline::InlineSource;
pub use reaper::{Reaper, ReaperHandle};
pub use report::{AbandonedThreads, ReturnStat, WorkerFailure, WorkerFailureCause, WorkerReport};
pub use sampler::{AnyEnvSpec, MakeSampler, Sampler, WorkerSeat};
pub use supervise::RestartPolicy;
pub use watch::{EnvCall, Watch};
pub use worker::{BuildError, PolicyFault, RolloutWorker, SampleError, WorkerConfig, WorkerLinks, WorkerState};
pub use worker_groups::{
    CallResult, GroupError, GroupErrorCause, GroupPlace, GroupWorker, GroupsStartError, OnWorkerError, StopOutcome,
    Stopper, WorkerGroup, WorkerGroupConfig, WorkerGroups, WorkerId, WorkerTime,
};
pub use worker_set::{JoinOutcome, StartError, SupervisorState, WorkerEdges, WorkerSet, WorkerSetConfig, WorkerStatus};
