//! What is started: a program of any language, with its configuration.

use std::ffi::OsString;

use serde_json::{Map, Value};

/// A program that speaks the protocol of `PROTOCOL.md`, with what it is given.
///
/// [`Gymnasium`](crate::Gymnasium), [`AtariVector`](crate::AtariVector) and [`PettingZoo`](crate::PettingZoo) turn into
/// programs by themselves; this is for those in other languages.
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
    /// Variables that are set for it, besides those of this process.
    pub vars: Vec<(OsString, OsString)>,
    /// What it is told in the first line.
    pub config: Map<String, Value>,
    /// A text that it finds open as descriptor 5, such as a script for an interpreter.
    pub script: Option<&'static str>,
    /// What to do if it cannot be started.
    pub advice: &'static str,
}

impl Program {
    /// Without arguments and with an empty configuration.
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

    /// The program as messages name it.
    pub(crate) fn name(&self) -> String {
        self.command.to_string_lossy().into_owned()
    }
}
