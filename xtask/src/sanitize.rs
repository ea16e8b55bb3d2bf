//! Tests under memory checkers and race detectors, as far as they are installed. On a fresh machine only
//! AddressSanitizer is, whose runtime comes with Rust.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::Result;

use crate::command::{exit_code, say, succeeds};
use crate::python;
use crate::stages::seconds;

/// A checker, and the tests that it checks.
struct Sanitizer {
    name: &'static str,
    /// A command that succeeds where it is installed, and words that it prints there.
    probe: (&'static str, &'static [&'static str]),
    /// How to install it.
    install: &'static str,
    /// A command that runs tests under it.
    test: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// Arguments of that command: which tests.
    tests: &'static [&'static str],
}

/// What threads share.
const BUFFER: &str = "--package pronk-buffer --lib";

/// What is shared with other processes. Miri knows no such memory.
const MEMORY: &str = "--package pronk-env-process --lib -- memory::";

/// Kernels that compute with pointers.
const OPS: &str = "--package pronk-policy --lib -- ops::";

const NIGHTLY: &str = "rustup component list --toolchain nightly --installed";

const SANITIZERS: [Sanitizer; 4] = [
    Sanitizer {
        name: "address",
        probe: ("cargo --version", &[]),
        install: "install Rust",
        test: "cargo test --target x86_64-unknown-linux-gnu",
        // An option of nightly that the stable compiler takes, too.
        variables: &[("RUSTFLAGS", "-Zsanitizer=address"), ("RUSTC_BOOTSTRAP", "1")],
        tests: &[BUFFER, MEMORY, OPS],
    },
    Sanitizer {
        name: "thread",
        probe: (NIGHTLY, &["rust-src"]),
        install: "rustup toolchain install nightly --component rust-src",
        // Without a standard library built for it, it would take every lock of it for a race.
        test: "rustup run nightly cargo test -Zbuild-std --target x86_64-unknown-linux-gnu",
        variables: &[("RUSTFLAGS", "-Zsanitizer=thread")],
        tests: &[BUFFER],
    },
    Sanitizer {
        name: "valgrind",
        probe: ("valgrind --version", &[]),
        install: "apt-get install valgrind",
        test: "cargo test",
        variables: &[("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "valgrind --quiet --error-exitcode=9")],
        tests: &[BUFFER, MEMORY, OPS],
    },
    Sanitizer {
        name: "miri",
        probe: (NIGHTLY, &["miri", "rust-src"]),
        install: "rustup toolchain install nightly --component miri,rust-src",
        test: "rustup run nightly cargo miri test",
        // It hides the variables of the environment, and interprets a thousand times slower.
        variables: &[
            ("PROPTEST_CASES", "2"),
            ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"),
            ("MIRIFLAGS", "-Zmiri-env-forward=PROPTEST_CASES -Zmiri-env-forward=PROPTEST_DISABLE_FAILURE_PERSISTENCE"),
        ],
        tests: &[BUFFER],
    },
];

/// Runs all that can be had, each with a build of its own, and says at the end what came of it.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        say("sanitize: NOT CHECKED, as its commands are those of x86_64-unknown-linux-gnu")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut summary = String::new();
    let mut passed = true;
    for sanitizer in &SANITIZERS {
        let Sanitizer { name, install, .. } = sanitizer;
        let started = Instant::now();
        let said = if !is_there(sanitizer.probe) {
            format!("NOT CHECKED, as it is not installed: {install}")
        } else if sanitizer.passes(root)? {
            format!("passed in {}", seconds(started.elapsed()))
        } else {
            passed = false;
            "FAILED".to_owned()
        };
        summary += &format!("\n  {name:<10}{said}");
    }
    say(&format!("\nsanitize {}{summary}", if passed { "passed" } else { "FAILED" }))?;
    Ok(exit_code(passed))
}

impl Sanitizer {
    /// Runs all its tests, also after some that failed.
    fn passes(&self, root: &Path) -> Result<bool> {
        let mut passed = true;
        for tests in self.tests {
            say(&format!("── {}: {tests} ──", self.name))?;
            let mut test = command(&format!("{} {tests}", self.test));
            // That of the toolchain which runs this: under another one its own is meant.
            test.current_dir(root).env_remove("CARGO").envs(self.variables.iter().copied());
            passed &= succeeds(test.env("CARGO_TARGET_DIR", python::target(root).join("sanitize").join(self.name)))?;
        }
        Ok(passed)
    }
}

fn is_there((probe, words): (&str, &[&str])) -> bool {
    let output = command(probe).stderr(Stdio::null()).output();
    output.is_ok_and(|output| {
        let said = String::from_utf8_lossy(&output.stdout);
        output.status.success() && words.iter().all(|word| said.contains(word))
    })
}

fn command(line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}
