//! [`ProcessError`]: why a process failed.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Why an environment in another process cannot be made or stepped.
///
/// It is the cause in an [`EnvFailure`](pronk_rollout::EnvFailure), which names worker, environment, episode
/// and step.
///
/// ```
/// use pronk_env_process::{Program, ProcessEnvs};
/// use pronk_rollout::probe_spec;
///
/// let failure = probe_spec(&ProcessEnvs::new(Program::new("/nowhere/simulator")), 0).unwrap_err();
/// assert!(failure.to_string().contains("cannot start `/nowhere/simulator`: "), "{failure}");
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// An invalid setting.
    #[error("{reason}")]
    Setting {
        /// Which setting, and what to do.
        reason: String,
    },
    /// The program could not be started.
    #[error("cannot start `{command}`: {source}: {advice}")]
    Start {
        /// The program.
        command: String,
        /// What to do.
        advice: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {what} for `{command}`: {source}")]
    System {
        /// The program.
        command: String,
        /// The action.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The program reported that it cannot make these environments.
    #[error("{reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The environment raised an exception.
    #[error("{message}")]
    Raised {
        /// The message of the process: for Python, the traceback.
        message: String,
    },
    /// The process has ended.
    #[error("its process `{command}` {how}{}", last_words(.output))]
    Died {
        /// The program.
        command: String,
        /// The signal or exit status.
        how: String,
        /// What it last wrote to its standard error or output.
        output: String,
    },
    /// The process did not answer in time; it has been killed.
    #[error(
        "its process `{command}` has said nothing for {:.1} s while {doing}, and was killed: raise `{setting}`, which a \
         config file calls `env_options.{setting}` and is {:.1} s for each environment, if it takes longer{}",
        .waited.as_secs_f64(),
        .value_secs,
        last_words(.output)
    )]
    Silent {
        /// The program.
        command: String,
        /// What it was doing.
        doing: &'static str,
        /// The setting that limits the time.
        setting: &'static str,
        /// Its value, for one environment.
        value_secs: f64,
        /// The time waited.
        waited: Duration,
        /// What it last wrote to its standard error or output.
        output: String,
    },
    /// The run ended, or its time was up, before the process answered; it has been killed.
    #[error("its process `{command}` was killed with the end of the run, while {doing}")]
    GivenUp {
        /// The program.
        command: String,
        /// What it was doing.
        doing: &'static str,
    },
    /// The process was ended after an earlier failure.
    #[error("its process `{command}` was ended after an earlier failure: make new environments")]
    Over {
        /// The program.
        command: String,
    },
    /// The process broke the protocol and was killed.
    #[error("its process `{command}` broke the protocol: {what}{}", last_words(.output))]
    Protocol {
        /// The program.
        command: String,
        /// What it sent, and what was expected.
        what: String,
        /// What it last wrote to its standard error or output.
        output: String,
    },
}

/// The child's output as the end of an error text.
fn last_words(output: &str) -> String {
    match output.trim() {
        "" => String::new(),
        text => format!("; its last words:\n{text}"),
    }
}
