//! The stages of CI: what each runs, how it is timed, and what is said at the end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::browser::Browser;
use crate::command::{cargo, exit_code, say, succeeds};
use crate::{cuda, deny, exports, fuzz, python, readers, soak, tidy};

/// One stage of CI; `cargo xtask <name>` runs it alone.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    work: Work,
}

enum Work {
    /// Arguments of cargo, separated by spaces.
    Cargo(&'static str),
    Tidy,
    Model,
    Fuzz,
    Deny,
    Readers,
    Onnx,
    Torch,
    Gymnasium,
    Page,
    Soak,
    Cuda,
}

/// What comes of a stage.
#[derive(Debug)]
enum Outcome {
    Passed,
    Failed,
    /// What it checks with could not be had, and why.
    NotChecked(String),
}

impl Outcome {
    fn passed(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }

    fn is_failed(&self) -> bool {
        matches!(self, Self::Failed)
    }
}

/// What environments in processes are tested with.
const GYMNASIUM: [&str; 7] = [
    "gymnasium[mujoco]==1.4.0",
    "ale-py==0.12.1",
    "opencv-python-headless==5.0.0.93",
    "box2d==2.3.10",
    "pygame==2.6.1",
    "pettingzoo==1.27.0",
    "mpe2==1.1.1",
];

impl Stage {
    const fn cargo(name: &'static str, about: &'static str, args: &'static str) -> Self {
        let work = Work::Cargo(args);
        Self { name, about, work }
    }
}

/// Builds the programs as the stage `test` does: `build --bins` would compile many crates again, with the
/// features that tests ask for turned off.
const BINS: &str = "test --no-run --quiet --workspace --lib --bins --tests --features env-process,hosts-zenoh";

/// What depends on memory orderings; alone, so that what loom needs has nothing else compiled again.
const ORDERINGS: &str = "test --package pronk-model --test orderings -- --nocapture";

/// The rooms that have models of protocols. Networks are small there, and optimising them would take minutes.
const MODELS: &str = "test --config profile.dev.package.pronk-policy.opt-level=1 --package pronk-buffer \
                      --package pronk-rollout --package pronk-learner --package pronk-hosts --lib models:: -- \
                      --nocapture";

/// Lints the models; the stage `clippy` sees none of them.
const MODEL_LINTS: &str = "clippy --config profile.dev.package.pronk-policy.opt-level=1 --package pronk-model \
                           --package pronk-buffer --package pronk-rollout --package pronk-learner \
                           --package pronk-hosts --lib --tests -- -D warnings";

/// Lints what depends on the feature `cuda`; the stage `clippy` lints the rest.
const CUDA_LINTS: &str = "clippy --package pronk-policy --package pronk --all-targets --features cuda -- -D warnings";

/// In this order: cheap ones first, so that a slip shows at once.
pub(crate) const STAGES: &[Stage] = &[
    Stage::cargo("fmt", "Check the formatting", "fmt --all --check"),
    Stage {
        name: "tidy",
        about: "Check the invariants of the house: who knows whom, and what is absent",
        work: Work::Tidy,
    },
    Stage::cargo(
        "clippy",
        "Lint every target, warnings being errors",
        "clippy --workspace --all-targets --features env-process,hosts-zenoh -- -D warnings",
    ),
    Stage::cargo(
        "docs",
        "Build the documentation, warnings being errors",
        "doc --workspace --no-deps --features env-process,hosts-zenoh",
    ),
    Stage::cargo(
        "test",
        "Run the unit and integration tests, the golden numbers included, but for those of the stage gymnasium",
        "test --workspace --lib --bins --tests --features env-process,hosts-zenoh -- --skip gymnasium::",
    ),
    Stage {
        name: "model",
        about: "Lint the models and run the protocols between threads under every schedule that their checker tries",
        work: Work::Model,
    },
    Stage {
        name: "fuzz",
        about: "Give whatever reads files, settings and messages inputs that a fuzzer makes up, for half a minute each",
        work: Work::Fuzz,
    },
    Stage {
        name: "deny",
        about: "Check licences, sources and advisories of all dependencies, with cargo-deny from crates.io",
        work: Work::Deny,
    },
    Stage {
        name: "readers",
        about: "Have TensorBoard and Prometheus read what the tests wrote, if they can be had from PyPI",
        work: Work::Readers,
    },
    Stage {
        name: "onnx",
        about: "Have ONNX Runtime run the policies that the tests exported, if it can be had from PyPI",
        work: Work::Onnx,
    },
    Stage {
        name: "torch",
        about: "Load the weights that the tests wrote into PyTorch, if it can be had from its index or is there",
        work: Work::Torch,
    },
    Stage {
        name: "gymnasium",
        about: "Step and train environments of Gymnasium, Atari and PettingZoo, if they can be had from PyPI",
        work: Work::Gymnasium,
    },
    Stage {
        name: "page",
        about: "Train and sweep, and read the live page in Chromium, if it and Playwright can be had",
        work: Work::Page,
    },
    Stage {
        name: "soak",
        about: "Train for some seconds under each fault, and check that ledgers close and nothing leaks or hangs",
        work: Work::Soak,
    },
    Stage::cargo(
        "doctest",
        "Run the examples in the documentation",
        "test --workspace --doc --features env-process,hosts-zenoh",
    ),
    Stage::cargo("examples", "Build the examples", "build --workspace --examples --features env-process,hosts-zenoh"),
    Stage::cargo("benches", "Build the benches", "build --workspace --benches --features env-process,hosts-zenoh"),
];

/// Not part of CI: nvcc compiles candle's kernels first, which takes many minutes.
pub(crate) const CUDA: Stage = Stage {
    name: "cuda",
    about: "Lint the feature `cuda`, without a GPU, if NVIDIA's compiler can be had from PyPI; not part of `ci`",
    work: Work::Cuda,
};

/// Runs all stages in order and stops at the first that fails.
pub(crate) fn ci(root: &Path) -> Result<ExitCode> {
    let started = Instant::now();
    let mut ended = Vec::new();
    for stage in STAGES {
        say(&format!("── {}: {} ──", stage.name, stage.about))?;
        let (outcome, time) = run(root, stage)?;
        let is_failed = outcome.is_failed();
        ended.push((stage.name, outcome, time));
        if is_failed {
            break;
        }
    }
    say(&table(&ended, started.elapsed()))?;
    Ok(exit_code(ended.iter().all(|(_, outcome, _)| !outcome.is_failed())))
}

/// What is said at the end: of the stages that ended, a line each.
fn table(ended: &[(&str, Outcome, Duration)], total: Duration) -> String {
    let total = seconds(total);
    let failed = ended.iter().find(|(_, outcome, _)| outcome.is_failed()).map(|(name, ..)| name);
    let n_unchecked = ended.iter().filter(|(_, outcome, _)| matches!(outcome, Outcome::NotChecked(_))).count();
    let mut text = match failed {
        Some(name) => format!("\nci FAILED at `{name}` after {total}"),
        None if n_unchecked > 0 => format!("\nci passed in {total}, but NOT CHECKED: {n_unchecked} of its stages"),
        None => format!("\nci passed in {total}"),
    };
    for (name, outcome, time) in ended {
        text += &format!("\n  {name:<10}{:>9}", seconds(*time));
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed => text += "  <- failed",
            Outcome::NotChecked(why) => text += &format!("  NOT CHECKED: {}", why.lines().next().unwrap_or_default()),
        }
    }
    if let Some(name) = failed {
        let not_run: Vec<&str> = STAGES[ended.len()..].iter().map(|later| later.name).collect();
        text += &format!("\n  not run: {}\n  rerun: cargo xtask {name}", not_run.join(", "));
    }
    text
}

/// Runs the stage called `name`.
pub(crate) fn one(root: &Path, name: &str) -> Result<ExitCode> {
    let stage = STAGES.iter().chain([&CUDA]).find(|stage| stage.name == name);
    let (outcome, time) = run(root, stage.with_context(|| format!("there is no stage `{name}`"))?)?;
    let said = match &outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
        Outcome::NotChecked(_) => "NOT CHECKED",
    };
    say(&format!("{name} {said} in {}", seconds(time)))?;
    Ok(exit_code(!outcome.is_failed()))
}

/// Runs the golden numbers of `dir`, which is relative to where the command was given; by default the
/// repository's.
pub(crate) fn golden(root: &Path, dir: Option<&PathBuf>) -> Result<ExitCode> {
    let dir = match dir {
        Some(dir) => std::env::current_dir()?.join(dir),
        None => root.join("tests/golden"),
    };
    let mut command = cargo(root, "run --quiet --package pronk-golden --");
    Ok(exit_code(succeeds(command.arg(dir))?))
}

/// Runs the test that kills processes, with so many kills.
pub(crate) fn crash(root: &Path, kills: Option<u64>) -> Result<ExitCode> {
    let mut command =
        cargo(root, "test --package pronk --test all --features env-process,hosts-zenoh -- crash:: --nocapture");
    Ok(exit_code(succeeds(command.env("PRONK_TEST_KILLS", kills.unwrap_or(100).to_string()))?))
}

/// Assembles a CUDA toolkit to build programs with and prints its folder.
pub(crate) fn toolkit(root: &Path) -> Result<ExitCode> {
    match cuda::toolkit_to_link(root)? {
        Ok(folder) => {
            say(&folder.display().to_string())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => bail!("the CUDA toolkit could not be installed: {why}"),
    }
}

/// Makes the pictures of the live page in the docs.
pub(crate) fn picture(root: &Path) -> Result<ExitCode> {
    match Browser::find(root)? {
        Ok(browser) => Ok(exit_code(succeeds(&mut cargo(root, BINS))? && browser.picture(root)?)),
        Err(why) => {
            say(&format!("no pictures, as what takes them could not be installed: {why}"))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn run(root: &Path, stage: &Stage) -> Result<(Outcome, Duration)> {
    let started = Instant::now();
    let outcome = match stage.work {
        Work::Cargo(args) => Outcome::passed(succeeds(cargo(root, args).env("RUSTDOCFLAGS", "-D warnings"))?),
        Work::Tidy => {
            let violations = tidy::check(root)?;
            for violation in &violations {
                say(&violation.to_string())?;
            }
            Outcome::passed(violations.is_empty())
        }
        Work::Model => {
            // A build of its own, as all crates are compiled with it.
            let target = python::target(root).join("model");
            let variables = [("RUSTFLAGS", "--cfg pronk_model".into()), ("CARGO_TARGET_DIR", target.into_os_string())];
            let run = |args| succeeds(cargo(root, args).envs(variables.clone()));
            Outcome::passed(run(MODEL_LINTS)? && run(ORDERINGS)? && run(MODELS)?)
        }
        Work::Fuzz => fuzz::check(root)?.map_or_else(Outcome::NotChecked, Outcome::passed),
        Work::Deny => deny::check(root)?.map_or_else(Outcome::NotChecked, Outcome::passed),
        Work::Readers => readers::check(root)?.map_or_else(Outcome::NotChecked, Outcome::passed),
        Work::Onnx => exports::onnx(root)?.map_or_else(Outcome::NotChecked, Outcome::passed),
        Work::Torch => exports::torch(root)?.map_or_else(Outcome::NotChecked, Outcome::passed),
        Work::Gymnasium => match python::with_packages(root, &GYMNASIUM)? {
            Ok(python) => {
                // As in the stage `test`, so that nothing is compiled again.
                let args = "test --workspace --lib --bins --tests --features env-process,hosts-zenoh -- gymnasium::";
                Outcome::passed(succeeds(cargo(root, args).env("PRONK_TEST_PYTHON", python))?)
            }
            Err(why) => Outcome::NotChecked(why),
        },
        Work::Page => match Browser::find(root)? {
            Ok(browser) => Outcome::passed(succeeds(&mut cargo(root, BINS))? && browser.check(root)?),
            Err(why) => Outcome::NotChecked(why),
        },
        Work::Soak if !succeeds(&mut cargo(root, BINS))? => Outcome::Failed,
        Work::Soak => soak::check(root)?.map_or_else(Outcome::NotChecked, Outcome::passed),
        // Linting runs nothing, so it needs no GPU.
        Work::Cuda => match cuda::to_compile(root)? {
            Ok(variables) => Outcome::passed(succeeds(cargo(root, CUDA_LINTS).envs(variables))?),
            Err(why) => Outcome::NotChecked(why),
        },
    };
    if let Outcome::NotChecked(why) = &outcome {
        say(&format!("NOT CHECKED, as what it needs could not be installed: {why}"))?;
    }
    Ok((outcome, started.elapsed()))
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_which_stages_were_not_checked_and_which_failed() {
        let (second, unchecked) = (Duration::from_secs(1), || Outcome::NotChecked("no network\nat all".to_owned()));
        let passed = [("fmt", Outcome::Passed, second), ("tidy", unchecked(), second)];
        let expected = "\nci passed in 9.0 s, but NOT CHECKED: 1 of its stages\n  fmt           1.0 s\n  \
                        tidy          1.0 s  NOT CHECKED: no network";
        assert_eq!(table(&passed, 9 * second), expected);
        assert_eq!(table(&passed[..1], second), "\nci passed in 1.0 s\n  fmt           1.0 s");
        let failed = [("fmt", unchecked(), second), ("tidy", Outcome::Failed, second)];
        let text = table(&failed, 2 * second);
        assert!(text.starts_with("\nci FAILED at `tidy` after 2.0 s\n  fmt           1.0 s  NOT CHECKED"), "{text}");
        assert!(
            text.contains("  <- failed\n  not run: clippy, docs, ") && text.ends_with("cargo xtask tidy"),
            "{text}"
        );
    }
}
