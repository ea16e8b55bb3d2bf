//! [`Program`]: the program of a child process, with its configuration.

use std::ffi::OsString;

use serde_json::{Map, Value};

/// A program that implements `PROTOCOL.md`, with its arguments and configuration.
///
/// [`Gymnasium`](crate::Gymnasium), [`AtariVector`](crate::AtariVector) and [`PettingZoo`](crate::PettingZoo)
/// convert into programs; this is for other languages.
///
/// ```
/// use pronk_env_process::{ProcessEnvs, Program};
/// use serde_json::json;
///
/// let simulator = Program {
///     args: vec!["--headless".into()],
///     config: [("length".to_owned(), json!(5))].into_iter().collect(),
///     ..Program::new("./corridor")
/// };
/// let envs = ProcessEnvs::new(simulator);
/// # let _ = envs;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name, looked up in `PATH`, or its path.
    pub command: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Additional environment variables.
    pub vars: Vec<(OsString, OsString)>,
    /// The configuration, sent in the first line.
    pub config: Map<String, Value>,
    /// A text that it can read from descriptor 5, such as a script for an interpreter.
    pub script: Option<&'static str>,
    /// Advice for the error if it cannot be started.
    pub advice: &'static str,
}

impl Program {
    /// A program without arguments or configuration.
    pub fn new(command: impl Into<OsString>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            vars: Vec::new(),
            config: Map::new(),
            script: None,
            advice: "check the path, and whether it is an executable file",
        }
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        self.command.to_string_lossy().into_owned()
    }
}
