use std::time::Duration;

use crate::error::ProcessError;
use crate::program::Program;

/// Makes environments in processes of their own.
///
/// As an [`EnvFactory`](pronk_rollout::EnvFactory) it gives a worker as many processes as its environments need, `envs_per_process` in
/// each; they step beside each other. As a [`MultiAgentFactory`](pronk_rollout::MultiAgentFactory) it makes a process for each environment,
/// and they take turns: give a worker few and a run several workers.
///
/// A process that dies, raises an exception, breaks the protocol or does not answer within `step_timeout`
/// fails like any environment: the worker loses the fragment in the making, says why, and starts new
/// processes. Processes end with whoever started them, however that comes about, and so does all that they
/// started in their process group.
///
/// Each process of a run is in its time ledger as `env-process-1`, `env-process-2`, …, with the processor
/// time that it has used.
///
/// ```no_run
/// use std::time::Duration;
///
/// use pronk_env_process::{Gymnasium, ProcessEnvs};
///
/// // `Trainer::new(config, envs)`: with `num_envs_per_worker: 16`, each worker has two processes of eight.
/// let envs = ProcessEnvs {
///     envs_per_process: 8,
///     step_timeout: Duration::from_secs(5),
///     ..ProcessEnvs::new(Gymnasium::new("CartPole-v1"))
/// };
/// # let _ = envs;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessEnvs {
    /// What is started.
    pub program: Program,
    /// How many environments a process holds, at least 1. The more there are, the less a step of each costs;
    /// as many processes as there are cores keep all of them busy. Those of one worker wait for each other in
    /// every step: a worker for each process is faster, a quarter for CartPole on two cores. The last of a
    /// worker may hold fewer.
    pub envs_per_process: usize,
    /// How long a process may take to make its environments.
    pub start_timeout: Duration,
    /// How long a process may take for a step, or a reset, of all its environments. Less than the
    /// `env_hang_timeout` of the run, which leaves a thread behind where this ends a process.
    pub step_timeout: Duration,
    /// How long a process may take to close its environments once they are not needed any more, one after the
    /// other; what is left of it is killed then. A worker does not wait for that, but a run that ends does,
    /// and so does the thread that drops environments without a run. With 0 it is killed at once. One that is
    /// in the middle of a step, because another has failed, has a second at most.
    pub close_timeout: Duration,
    /// Rewards that are learned from are limited to so much, up and down; returns of episodes are of what the
    /// environment gave. 1.0 is usual for Atari games.
    pub clip_rewards: Option<f32>,
    /// Where it goes what environments print.
    pub output: ChildOutput,
}

/// Where it goes what an environment prints. The end of it is also part of the message when its process dies.
///
/// ```
/// use pronk_env_process::{ChildOutput, Gymnasium, ProcessEnvs};
///
/// let quiet = ProcessEnvs { output: ChildOutput::Hidden, ..ProcessEnvs::new(Gymnasium::new("CartPole-v1")) };
/// # let _ = quiet;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildOutput {
    /// To the standard error of this process.
    #[default]
    Shown,
    /// Nowhere.
    Hidden,
}

impl ProcessEnvs {
    /// Of four environments to a process, which may take a minute to start or to step, and ten seconds to
    /// close.
    pub fn new(program: impl Into<Program>) -> Self {
        Self {
            program: program.into(),
            envs_per_process: 4,
            start_timeout: Duration::from_secs(60),
            step_timeout: Duration::from_secs(60),
            close_timeout: Duration::from_secs(10),
            clip_rewards: None,
            output: ChildOutput::Shown,
        }
    }

    /// Whether the settings can work.
    pub(crate) fn check(&self) -> Result<(), ProcessError> {
        let reason = if self.envs_per_process == 0 {
            "envs_per_process is 0: a process needs at least one environment".to_owned()
        } else if self.start_timeout.is_zero() || self.step_timeout.is_zero() {
            "start_timeout and step_timeout must be more than 0: no process answers at once".to_owned()
        } else if let Some(limit) = self.clip_rewards.filter(|limit| !(*limit > 0.0 && limit.is_finite())) {
            format!("clip_rewards is {limit}: it must be more than 0 and finite, or left out")
        } else {
            return Ok(());
        };
        Err(ProcessError::Setting { reason })
    }
}
