//! What goes wrong with a process.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Why an environment in another process cannot be made or stepped.
///
/// It reaches users inside of an [`EnvFailure`](pronk_rollout::EnvFailure), which names worker, environment, episode
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
    /// A setting that cannot work.
    #[error("{reason}")]
    Setting {
        /// Which, and what to do.
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
    /// Something that the operating system should have done for a process that runs.
    #[error("cannot {what} for `{command}`: {source}")]
    System {
        /// The program.
        command: String,
        /// What was to be done.
        what: &'static str,
        /// Why it could not.
        source: io::Error,
    },
    /// The program itself says that it cannot make these environments.
    #[error("{reason}")]
    Refused {
        /// In its own words.
        reason: String,
    },
    /// The environment raised an exception.
    #[error("{message}")]
    Raised {
        /// What the process says of it: of a Python environment, the traceback.
        message: String,
    },
    /// The process has ended.
    #[error("its process `{command}` {how}{}", last_words(.output))]
    Died {
        /// The program.
        command: String,
        /// By which signal, or with which status.
        how: String,
        /// What it last wrote to its standard error or output.
        output: String,
    },
    /// The process did not answer in time; it has been killed.
    #[error(
        "its process `{command}` has said nothing for {:.1} s while {doing}, and was killed: raise `{setting}` if it takes longer{}",
        .waited.as_secs_f64(),
        last_words(.output)
    )]
    Silent {
        /// The program.
        command: String,
        /// What it was asked to do.
        doing: &'static str,
        /// The setting that says how long it may take.
        setting: &'static str,
        /// How long it was waited for.
        waited: Duration,
        /// What it last wrote to its standard error or output.
        output: String,
    },
    /// The process was ended after an earlier failure.
    #[error("its process `{command}` was ended after what it did before: make another")]
    Over {
        /// The program.
        command: String,
    },
    /// The process said something that is not of the protocol; it has been killed.
    #[error("its process `{command}` broke the protocol: {what}{}", last_words(.output))]
    Protocol {
        /// The program.
        command: String,
        /// What it said, and what was due.
        what: String,
        /// What it last wrote to its standard error or output.
        output: String,
    },
}

/// The end of an error's text.
fn last_words(output: &str) -> String {
    match output.trim() {
        "" => String::new(),
        text => format!("; its last words:\n{text}"),
    }
}
