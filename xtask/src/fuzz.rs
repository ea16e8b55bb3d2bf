//! Fuzzing: gives the readers of `fuzz/` inputs that libFuzzer generates, and says what it found.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::command::{cargo, exit_code, say, succeeds};
use crate::python;

/// Of each target in CI.
const TIME_IN_CI: Duration = Duration::from_secs(30);

/// Builds the fuzzer with the features of the tests, so that it shares their dependencies. At full speed the
/// compiler takes many minutes for the counters in `pronk-policy`'s kernels.
const FUZZER: &str = "test --quiet --workspace --bin pronk-fuzz \
                      --features env-process,hosts-zenoh,pronk-fuzz/libfuzzer \
                      --config profile.dev.package.pronk-policy.opt-level=1 \
                      --config profile.dev.package.pronk-policy.codegen-units=16";

/// What libFuzzer takes for a finding: an input that takes longer than so many seconds, or so many megabytes.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=2048"];

/// The arguments of `cargo xtask fuzz`.
pub(crate) fn command_line(command: clap::Command) -> clap::Command {
    let path = Arg::new("input").value_name("INPUT").value_parser(value_parser!(PathBuf));
    let minutes = Arg::new("minutes").long("minutes").value_name("N").default_value("1");
    command
        .arg(Arg::new("target").value_name("TARGET").help("A folder of fuzz/corpus, or all [default: as in CI]"))
        .arg(path.help("One input to read again, instead of making up others"))
        .arg(minutes.value_parser(value_parser!(u64).range(1..)).help("How long each target is fuzzed"))
        .arg(
            Arg::new("merge")
                .long("merge")
                .action(ArgAction::SetTrue)
                .help("Add what was found to reach more code to fuzz/corpus, and fuzz no further"),
        )
}

/// Fuzzes the target that the command line names.
pub(crate) fn run(root: &Path, args: &ArgMatches) -> Result<ExitCode> {
    let target = args.get_one::<String>("target").map_or("all", String::as_str);
    let all = targets(root)?;
    let chosen = if target == "all" { all } else { all.into_iter().filter(|name| *name == target).collect() };
    if chosen.is_empty() {
        bail!("there is no target `{target}`: name a folder of fuzz/corpus, or all");
    }
    let fuzzer = Fuzzer { root };
    if let Err(why) = fuzzer.build()? {
        bail!("the fuzzer cannot be built: {why}");
    }
    let passed = match args.get_one::<PathBuf>("input") {
        Some(input) => {
            let [target] = &chosen[..] else { bail!("an input is of one target: name that instead of all") };
            let input = input.canonicalize().with_context(|| format!("cannot find {}", input.display()))?;
            succeeds(fuzzer.command(target).args(LIMITS).arg(input))?
        }
        None if args.get_flag("merge") => {
            let mut passed = true;
            for target in &chosen {
                let mut command = fuzzer.command(target);
                passed &= succeeds(command.arg("-merge=1").arg(fuzzer.seeds(target)).arg(fuzzer.corpus(target)?))?;
            }
            passed
        }
        None => {
            let minutes = args.get_one::<u64>("minutes").copied().unwrap_or(1);
            fuzzer.fuzz(&chosen, Duration::from_secs(60 * minutes))?
        }
    };
    Ok(exit_code(passed))
}

/// Fuzzes every target for a short time. `Err` says why there is no fuzzer.
pub(crate) fn check(root: &Path) -> Result<Result<bool, String>> {
    let fuzzer = Fuzzer { root };
    match fuzzer.build()? {
        Ok(()) => fuzzer.fuzz(&targets(root)?, TIME_IN_CI).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// The names of all targets: each has a folder of inputs.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/corpus");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

struct Fuzzer<'a> {
    root: &'a Path,
}

impl Fuzzer<'_> {
    /// Builds it. `Err` says which compiler is missing.
    fn build(&self) -> Result<Result<(), String>> {
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let version = Command::new(&compiler).arg("--version").stdout(Stdio::null()).status();
        if let Err(error) = version {
            return Ok(Err(format!(
                "libFuzzer needs a C++ compiler, and {} cannot be run: {error}",
                compiler.display()
            )));
        }
        if !succeeds(self.cargo().arg("--no-run"))? {
            bail!("the fuzzer does not compile");
        }
        Ok(Ok(()))
    }

    fn cargo(&self) -> Command {
        let mut command = cargo(self.root, FUZZER);
        command.env("RUSTC_WORKSPACE_WRAPPER", self.root.join("fuzz/rustc.sh"));
        command
    }

    /// The fuzzer of a target, without arguments.
    fn command(&self, target: &str) -> Command {
        let mut command = self.cargo();
        command.arg("--").env("PRONK_FUZZ_TARGET", target);
        command
    }

    /// The inputs that belong to the repository.
    fn seeds(&self, target: &str) -> PathBuf {
        self.root.join("fuzz/corpus").join(target)
    }

    /// Those that fuzzing has found to reach more code.
    fn corpus(&self, target: &str) -> Result<PathBuf> {
        self.folder(&format!("corpus/{target}"))
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = python::target(self.root).join("fuzz").join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Fuzzes each target for so long, two at a time if there are two cores; whether nothing was found.
    fn fuzz(&self, targets: &[String], time: Duration) -> Result<bool> {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get().min(2));
        let left = Mutex::new(targets.iter());
        let next = || left.lock().ok().and_then(|mut left| left.next());
        let work = || -> Result<bool> {
            let mut passed = true;
            while let Some(target) = next() {
                passed &= self.fuzz_one(target, time)?;
            }
            Ok(passed)
        };
        let outcomes: Vec<Result<bool>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let panicked = |_| bail!("a thread panicked");
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        outcomes.into_iter().try_fold(true, |passed, outcome| Ok(passed & outcome?))
    }

    /// Fuzzes one target, and says what came of it.
    fn fuzz_one(&self, target: &str, time: Duration) -> Result<bool> {
        let findings = self.folder(&format!("findings/{target}"))?;
        let log = self.folder("logs")?.join(target);
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = self.command(target);
        command.args(LIMITS).arg("-print_final_stats=1").arg(format!("-max_total_time={}", time.as_secs()));
        command.arg(format!("-artifact_prefix={}/", findings.display()));
        command.arg(self.corpus(target)?).arg(self.seeds(target)).stdout(output.try_clone()?).stderr(output);
        let passed = succeeds(&mut command)?;
        let text = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let text = String::from_utf8_lossy(&text);
        let (executions, coverage) = (last(&text, "stat::number_of_executed_units:"), last(&text, " cov:"));
        say(&format!(
            "{target:<12}{executions:>10} inputs, {coverage:>6} places reached{}",
            match passed {
                true => "",
                false => "  <- FOUND",
            }
        ))?;
        if !passed {
            let input = last(&text, "Test unit written to ");
            say(&format!(
                "  all of it: {}\n  read it again: cargo xtask fuzz {target} {input}\n  keep it: cp {input} {}",
                log.display(),
                self.seeds(target).join("WHAT-IT-IS").display()
            ))?;
        }
        Ok(passed)
    }
}

/// The word after the last place of `key` in the output of libFuzzer.
fn last<'a>(text: &'a str, key: &str) -> &'a str {
    text.rsplit_once(key).and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_figures_of_libfuzzer_are_read() {
        let text = "#2\tINITED cov: 12 ft: 13\n#9\tDONE   cov: 345 ft: 6\nstat::number_of_executed_units: 99\n";
        assert_eq!((last(text, " cov:"), last(text, "stat::number_of_executed_units:")), ("345", "99"));
        assert_eq!(last(text, "Test unit written to "), "?");
    }
}
