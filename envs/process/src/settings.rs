use std::time::Duration;

use crate::error::ProcessError;
use crate::program::Program;

/// A factory of environments in other processes.
///
/// As an [`EnvFactory`](pronk_rollout::EnvFactory) it gives a worker processes of `envs_per_process`
/// environments each, which step in parallel. As a [`MultiAgentFactory`](pronk_rollout::MultiAgentFactory) it
/// makes a process for each environment, and they step in turn: use few per worker and several workers.
///
/// A process that dies, raises an exception, breaks the protocol or does not answer within `step_timeout`
/// fails like any environment: the worker loses the current fragment, reports why, and starts new processes.
/// Processes, with all that they start in their process group, end with this process, even if it is killed.
///
/// The time ledger of a run has each process as `env-process-1`, `env-process-2`, …, with its processor time.
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
    /// The program to start.
    pub program: Program,
    /// Environments per process, at least 1. More make a step cheaper; one process per core keeps all cores
    /// busy. The processes of a worker wait for each other in every step, so a worker per process is faster:
    /// by a quarter for CartPole on two cores. A worker's last process may hold fewer.
    pub envs_per_process: usize,
    /// How long a process may take to make an environment; with several, so many times as long. What takes
    /// more than ten seconds is said in a warning.
    pub start_timeout: Duration,
    /// How long a process may take for a step, or a reset, of an environment; one that does not say which
    /// environment it calls, for those of all. The run's `env_hang_timeout` is for environments in this
    /// process.
    pub step_timeout: Duration,
    /// How long a process may take to close its environments, one after the other, before it is killed; 0
    /// kills it at once. The end of a run waits for it, workers do not; without a run, dropping the
    /// environments blocks. A process in the middle of a step has a second at most.
    pub close_timeout: Duration,
    /// Clips the rewards that are learned from to ± this; episode returns stay unclipped. 1.0 is usual for
    /// Atari.
    pub clip_rewards: Option<f32>,
    /// Where the output of environments goes.
    pub output: ChildOutput,
}

/// Where the output of environments goes. Its end is also in the error when a process dies.
///
/// ```
/// use pronk_env_process::{ChildOutput, Gymnasium, ProcessEnvs};
///
/// let shown = ProcessEnvs::new(Gymnasium::new("CartPole-v1"));
/// let quiet = ProcessEnvs { output: ChildOutput::Hidden, ..shown };
/// # let _ = quiet;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildOutput {
    /// To the standard error of this process.
    #[default]
    Shown,
    /// To the program's subscriber, each line as a `tracing` event of the level `INFO`.
    Logged,
    /// Nowhere.
    Hidden,
}

impl ProcessEnvs {
    /// Four environments per process, which may take five minutes to start, a minute to step, and ten seconds
    /// to close.
    pub fn new(program: impl Into<Program>) -> Self {
        Self {
            program: program.into(),
            envs_per_process: 4,
            start_timeout: Duration::from_secs(300),
            step_timeout: Duration::from_secs(60),
            close_timeout: Duration::from_secs(10),
            clip_rewards: None,
            output: ChildOutput::Shown,
        }
    }

    /// Checks the settings.
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
