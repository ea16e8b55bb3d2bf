//! `pronk doctor`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::ValueHint;
use pronk::machine;
use serde_json::Value;

/// Check what is installed, and say how to install the rest
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// The interpreter to ask for Python packages
    #[arg(long, default_value = "python3", value_hint = ValueHint::ExecutablePath)]
    python: PathBuf,
}

/// A Python package, the module to import, and what it is for.
const PACKAGES: [(&str, &str, &str); 7] = [
    ("gymnasium", "gymnasium", "gymnasium:… environments"),
    ("gymnasium[mujoco]", "mujoco", "MuJoCo environments, such as gymnasium:HalfCheetah-v5"),
    ("gymnasium[box2d]", "Box2D", "Box2D environments, such as gymnasium:LunarLander-v3"),
    ("ale-py", "ale_py", "atari:… environments"),
    ("opencv-python-headless", "cv2", "atari:… environments"),
    ("pettingzoo", "pettingzoo", "pettingzoo:… environments"),
    ("mpe2", "mpe2", "the MPE environments, such as pettingzoo:mpe2.simple_spread_v3"),
];

/// Prints the version of the interpreter, or says on the standard error that it is too old. Python 2 reads it
/// too.
const VERSION: &str = "\
import sys
version = sys.version.split()[0]
if sys.version_info < (3, 9):
    sys.exit('it is Python ' + version)
print(version)";

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode> {
        say!("pronk {}", env!("CARGO_PKG_VERSION"));
        if let Value::Object(machine) = machine() {
            for (name, value) in machine {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                say!("  {name:<13} {value}");
            }
        }
        self.folder();
        self.python();
        Ok(ExitCode::SUCCESS)
    }

    /// Whether runs can be written where the program is.
    fn folder(&self) {
        match tempfile::NamedTempFile::new_in(".") {
            Ok(_) => line(true, "runs", "can be written to ./runs"),
            Err(error) => line(false, "runs", &format!("cannot be written to ./runs: {error}; name a folder by --out")),
        }
    }

    fn python(&self) {
        let python = self.python.display();
        let version = match self.ask(VERSION) {
            Ok(version) => version,
            Err(why) => {
                line(
                    false,
                    "python",
                    &format!("{python}: {why}: install Python 3.9 or newer, or name one by --python"),
                );
                return;
            }
        };
        line(true, "python", &format!("{python} {version}"));
        for (package, module, purpose) in PACKAGES {
            // By module, because packages with several names, such as those of OpenCV, bring the same one.
            match self.ask(&format!("import {module}; print(getattr({module}, '__version__', 'installed'))")) {
                Ok(version) => line(true, module, &version),
                Err(_) => line(false, module, &format!("for {purpose}: {python} -m pip install '{package}'")),
            }
        }
    }

    /// What a script prints, or why it failed.
    fn ask(&self, script: &str) -> Result<String, String> {
        let asked = Command::new(&self.python).args(["-c", script]).output().map_err(|error| error.to_string())?;
        let last = |text: &[u8]| String::from_utf8_lossy(text).lines().last().unwrap_or_default().trim().to_owned();
        if asked.status.success() {
            return Ok(last(&asked.stdout));
        }
        Err(Some(last(&asked.stderr)).filter(|why| !why.is_empty()).unwrap_or_else(|| asked.status.to_string()))
    }
}

fn line(is_there: bool, what: &str, text: &str) {
    let mark = if is_there { "ok     " } else { "missing" };
    say!("  {mark} {what:<10} {text}");
}
