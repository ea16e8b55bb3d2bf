//! `pronk doctor`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::ValueHint;
use pronk::env_process::ChildOutput;
use pronk::{RunFolder, machine};
use serde_json::Value;

use crate::environment::Environment;
use crate::run_file::EnvOptions;

/// Check what is installed, and say how to install the rest
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// The interpreter to ask for Python packages
    #[arg(long, default_value = "python3", value_hint = ValueHint::ExecutablePath)]
    python: PathBuf,
}

/// A Python package.
struct Package {
    name: &'static str,
    module: &'static str,
    /// Who needs it.
    purpose: &'static str,
    /// An environment that can be made if the package works.
    env: Option<&'static str>,
}

const PACKAGES: [Package; 7] = [
    Package {
        name: "gymnasium",
        module: "gymnasium",
        purpose: "gymnasium:… environments",
        env: Some("gymnasium:CartPole-v1"),
    },
    Package {
        name: "gymnasium[mujoco]",
        module: "mujoco",
        purpose: "MuJoCo environments, such as gymnasium:HalfCheetah-v5",
        // One that writes no warning into a file.
        env: Some("gymnasium:InvertedPendulum-v5"),
    },
    Package {
        name: "gymnasium[box2d]",
        module: "Box2D",
        purpose: "Box2D environments, such as gymnasium:LunarLander-v3",
        env: Some("gymnasium:LunarLander-v3"),
    },
    Package { name: "ale-py", module: "ale_py", purpose: "atari:… environments", env: Some("atari:Pong") },
    Package {
        name: "opencv-python-headless",
        module: "cv2",
        purpose: "Gymnasium's wrapper AtariPreprocessing",
        env: None,
    },
    Package { name: "pettingzoo", module: "pettingzoo", purpose: "pettingzoo:… environments", env: None },
    Package {
        name: "mpe2",
        module: "mpe2",
        purpose: "the MPE environments, such as pettingzoo:mpe2.simple_spread_v3",
        env: Some("pettingzoo:mpe2.simple_spread_v3"),
    },
];

/// The folder of runs, where `--out` names no other one.
const RUNS: &str = "runs";

/// What is written to see whether there is room.
const BYTES: usize = 1 << 20;

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
        let works = [folder(), self.python()];
        Ok(if works.contains(&false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Whether what is installed works.
    fn python(&self) -> bool {
        let python = self.python.display();
        let version = match self.ask(VERSION) {
            Ok(version) => version,
            Err(why) => {
                let advice = "install Python 3.9 or newer, or name one by --python";
                line("missing", "python", &format!("{python}: {why}: {advice}"));
                return true;
            }
        };
        line("ok", "python", &format!("{python} {version}"));
        // All of them, also behind one that is broken.
        let works: Vec<bool> = PACKAGES.iter().map(|package| self.package(package)).collect();
        !works.contains(&false)
    }

    /// Whether a package works, if it is installed.
    fn package(&self, Package { name, module, purpose, env }: &Package) -> bool {
        let install = format!("{} -m pip install", self.python.display());
        // By module, because packages with several names, such as those of OpenCV, bring the same one.
        let version = match self.ask(&format!("import {module}; print(getattr({module}, '__version__', 'installed'))"))
        {
            Ok(version) => version,
            Err(why) if why.contains(&format!("No module named '{module}'")) => {
                line("missing", module, &format!("for {purpose}: {install} '{name}'"));
                return true;
            }
            Err(why) => {
                line("broken", module, &format!("{why}: try {install} --force-reinstall '{name}'"));
                return false;
            }
        };
        // Only a process that makes an environment tells whether one can be made.
        match env.map_or(Ok(()), |env| self.make(env)) {
            Ok(()) => line("ok", module, &version),
            Err(why) => line("broken", module, &format!("{version}: {why}")),
        }
    }

    /// Makes an environment, as a run does; the first line of why it cannot.
    fn make(&self, env: &str) -> Result<(), String> {
        let options = EnvOptions { python: self.python.clone(), ..EnvOptions::default() };
        let env = Environment::named(env, &options, 1, ChildOutput::default()).map_err(|error| error.to_string())?;
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        env.probe().map_err(|failure| first_line(failure.cause.to_string()))
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

/// Whether a run can be written where the program is.
fn folder() -> bool {
    let is_new = !Path::new(RUNS).exists();
    let written = write_run();
    if is_new {
        // It is empty, unless a run has begun meanwhile.
        let _ = fs::remove_dir(RUNS);
    }
    match written {
        Ok(()) => line("ok", "runs", "can be written to ./runs"),
        Err(error) => {
            line("broken", "runs", &format!("cannot be written to ./runs: {error:#}: name a folder by --out"))
        }
    }
}

/// Makes the folder of a run, writes some bytes there, and removes it.
fn write_run() -> Result<()> {
    let folder = RunFolder::create(RUNS, 0)?;
    let written = pronk::metrics::write_whole(folder.path().join("bytes"), &vec![0; BYTES]);
    folder.discard()?;
    written.context("a file of 1 MiB")
}

/// Whether nothing is broken.
fn line(state: &str, what: &str, text: &str) -> bool {
    say!("  {state:<7} {what:<10} {text}");
    state != "broken"
}
