//! Ctrl-C, SIGTERM and SIGHUP end runs and worker groups cleanly. Each is a process of its own: this test
//! binary, called again for the same test, which then plays the process that hears the signals.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::groups::{WorkerGroup, WorkerGroupConfig, WorkerGroups};
use pronk::prelude::*;
use pronk::{Checkpoint, ReportError, Reporter, ResultDict, Resume, Run, StopReason};

use crate::deterministic::deterministic;
use crate::fixtures::{small, with, without_hanging};
use crate::what_is_left::hooked;

/// Set in the other process, to a folder for what it writes.
const CHILD_FOLDER: &str = "PRONK_TEST_CHILD_FOLDER";
const UNDER_WAY: &str = "under way";
const HEARD: &str = "heard a signal";
const SHUT_DOWN: &str = "shut down";
const ENDED: &str = "ended by the signal as it should";

/// How the other process ended.
#[derive(Debug)]
struct Ended {
    status: Option<i32>,
    /// What it said after it was under way.
    lines: Vec<String>,
    folder: tempfile::TempDir,
}

impl Ended {
    fn says(&self, line: &str) -> bool {
        self.lines.iter().any(|said| said.ends_with(line))
    }
}

/// Runs `child` in a process of its own and sends it `signals`: the first once it says that it is under way,
/// each other one once it says that it has heard one.
///
/// In that process it runs `child` and returns `None`.
fn signalled(test: &str, signals: &[&str], child: fn(&Path)) -> Option<Ended> {
    let this_test = std::env::current_exe().unwrap();
    let mut process = Command::new(&this_test);
    if ignores_hang_up() {
        process = Command::new("env");
        process.arg("--default-signal=HUP").arg(&this_test);
    }
    signalled_as(process, test, signals, child)
}

/// Whether these tests run below `nohup`, or another program that ignores SIGHUP: what they start would, too.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// The same, where `process` runs this test binary.
fn signalled_as(mut process: Command, test: &str, signals: &[&str], child: fn(&Path)) -> Option<Ended> {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        child(folder.as_ref());
        return None;
    }
    let (test, signals) = (format!("signals::{test}"), signals.iter().map(ToString::to_string).collect::<Vec<_>>());
    Some(without_hanging("a process that hears signals", move || {
        let folder = tempfile::tempdir().unwrap();
        let mut process = process
            .args(["--exact", &test, "--nocapture"])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        for (signal, cue) in signals.iter().zip([UNDER_WAY].into_iter().chain(std::iter::repeat(HEARD))) {
            assert!(lines.by_ref().any(|line| line.ends_with(cue)), "{test} never said '{cue}'");
            assert!(Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap().success());
        }
        let lines = lines.collect();
        Ended { status: process.wait().unwrap().code(), lines, folder }
    }))
}

/// The kinds of signals, with the status of a process that one of them ended, and the reason of a run.
const KINDS: [(&str, i32, StopReason); 3] =
    [("-INT", 130, StopReason::Interrupted), ("-TERM", 143, StopReason::Terminated), ("-HUP", 129, StopReason::HungUp)];

/// Says that results come in.
struct Herald;

impl Reporter for Herald {
    fn name(&self) -> &str {
        "herald"
    }

    fn report(&mut self, _result: &ResultDict) -> Result<(), ReportError> {
        println!("{UNDER_WAY}");
        Ok(())
    }
}

fn trainer(folder: &Path) -> Trainer {
    let mut config = small(2);
    config.results.min_time_s_per_iteration = 0.05;
    config.checkpoint.every = Duration::from_secs(3600).into();
    let builder = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    let mut trainer = builder.checkpoints(folder).log_to(folder).build().unwrap();
    trainer.add_reporter(Herald);
    trainer
}

/// A run that only a signal ends, in a program as examples are.
fn run(folder: &Path) {
    end(&trainer(folder).run(StopWhen::default()).unwrap());
}

fn end(run: &Run) -> ! {
    assert!(run.ledger_closed());
    println!("updates {}", crate::fixtures::only(run).state.updates);
    println!("{:?}", run.reason);
    #[allow(clippy::disallowed_methods)] // what `main` would return; all is joined
    std::process::exit(run.exit_status().into());
}

#[test]
fn a_signal_ends_a_run_with_a_last_checkpoint_and_its_status() {
    for (signal, status, reason) in KINDS {
        let test = "a_signal_ends_a_run_with_a_last_checkpoint_and_its_status";
        let Some(ended) = signalled(test, &[signal], run) else { return };
        assert!(ended.status == Some(status) && ended.says(&format!("{:?}", Some(reason))), "{ended:?}");
        let updates = Checkpoint::load(ended.folder.path()).unwrap().state.updates;
        assert!(updates > 0 && ended.says(&format!("updates {updates}")), "{ended:?}");
        // Written as reporters finish.
        assert!(ended.folder.path().join("report.html").exists());
    }
}

/// A program that looks at results itself.
fn iterate(folder: &Path) {
    let mut trainer = trainer(folder);
    (&mut trainer).for_each(|result| drop(result.unwrap()));
    end(&trainer.finish().unwrap());
}

/// The same, asynchronously.
fn iterate_asynchronously(folder: &Path) {
    let mut trainer = trainer(folder);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { while trainer.next_result().await.transpose().unwrap().is_some() {} });
    end(&trainer.finish().unwrap());
}

#[test]
fn a_signal_ends_the_iteration_with_a_last_checkpoint_and_its_status() {
    for (signal, status, reason) in KINDS {
        for child in [iterate, iterate_asynchronously] {
            let test = "a_signal_ends_the_iteration_with_a_last_checkpoint_and_its_status";
            let Some(ended) = signalled(test, &[signal], child) else { return };
            assert!(ended.status == Some(status) && ended.says(&format!("{:?}", Some(reason))), "{ended:?}");
            let updates = Checkpoint::load(ended.folder.path()).unwrap().state.updates;
            assert!(updates > 0 && ended.says(&format!("updates {updates}")), "{ended:?}");
        }
    }
}

/// A run that is built when the signal comes, and begins afterwards.
fn run_after_the_signal(folder: &Path) {
    let trainer = trainer(folder);
    let (heard, hears) = std::sync::mpsc::channel();
    let listening = pronk::on_ctrl_c(move || heard.send(()).unwrap()).unwrap();
    println!("{UNDER_WAY}");
    hears.recv().unwrap();
    drop(listening);
    end(&trainer.run(StopWhen::default()).unwrap());
}

#[test]
fn a_signal_before_a_run_begins_ends_it() {
    let Some(ended) = signalled("a_signal_before_a_run_begins_ends_it", &["-TERM"], run_after_the_signal) else {
        return;
    };
    assert!(ended.status == Some(143) && ended.says(&format!("{:?}", Some(StopReason::Terminated))), "{ended:?}");
}

/// A run that has reached its limit when the signal comes, and is saved afterwards.
fn save_after_the_signal(folder: &Path) {
    let run = trainer(folder).run(StopWhen { iterations: Some(1), ..StopWhen::default() }).unwrap();
    while run.exit_status() == 0 {
        std::thread::yield_now();
    }
    run.save(folder.join("saved")).unwrap();
    println!("{ENDED}");
    end(&run);
}

#[test]
fn a_signal_after_a_run_lets_it_be_saved() {
    for (signal, status, _) in KINDS {
        let Some(ended) = signalled("a_signal_after_a_run_lets_it_be_saved", &[signal], save_after_the_signal) else {
            return;
        };
        assert!(ended.status == Some(status) && ended.says(ENDED), "{ended:?}");
        assert!(ended.says(&format!("{:?}", Some(StopReason::Iterations))), "{ended:?}");
        assert!(Checkpoint::load(ended.folder.path().join("saved")).is_ok());
    }
}

/// A run that says that it goes on after some results.
fn go_on(folder: &Path) {
    let mut trainer = trainer(folder);
    trainer.add_reporter(pronk::reporter_fn("goes on", |result| {
        if result.get("training_iteration").and_then(|number| number.as_u64()) >= Some(10) {
            println!("{HEARD}");
        }
        Ok(())
    }));
    end(&trainer.run(StopWhen::default()).unwrap());
}

#[test]
fn a_run_below_nohup_outlives_its_terminal() {
    let mut process = Command::new("sh");
    process.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    let test = "a_run_below_nohup_outlives_its_terminal";
    let Some(ended) = signalled_as(process, test, &["-HUP", "-TERM"], go_on) else { return };
    assert!(ended.status == Some(143) && ended.says(&format!("{:?}", Some(StopReason::Terminated))), "{ended:?}");
}

/// A run whose signals are the program's own.
fn run_without_signals(folder: &Path) {
    let builder = Trainer::builder(small(2)).env(|_: &EnvContext| CartPole::new());
    let trainer = builder.reporter(Herald).checkpoints(folder).without_signals().build().unwrap();
    let listening = pronk::on_ctrl_c(|| println!("{HEARD}")).unwrap();
    let _ = trainer.run(StopWhen::default());
    drop(listening);
    println!("{ENDED}");
}

#[test]
fn a_run_without_signals_leaves_them_to_the_program() {
    let test = "a_run_without_signals_leaves_them_to_the_program";
    let Some(ended) = signalled(test, &["-TERM", "-TERM"], run_without_signals) else { return };
    assert!(ended.status == Some(143) && !ended.says(ENDED), "{ended:?}");
}

/// A deterministic run that saves itself at its end only.
fn in_turns(folder: &Path) -> Trainer {
    let config = with(deterministic(2, 1), |config| config.checkpoint.every = Duration::from_secs(3600).into());
    let builder = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    builder.checkpoints(folder).resume(Resume::auto()).build().unwrap()
}

fn run_in_turns(folder: &Path) {
    let mut trainer = in_turns(folder);
    trainer.add_reporter(Herald);
    let run = trainer.run(StopWhen::default()).unwrap();
    println!("updates {}", crate::fixtures::only(&run).state.updates);
}

#[test]
fn a_deterministic_run_that_a_signal_ended_goes_on_exactly() {
    for (signal, ..) in KINDS {
        let Some(ended) = signalled("a_deterministic_run_that_a_signal_ended_goes_on_exactly", &[signal], run_in_turns)
        else {
            return;
        };
        let saved = Checkpoint::load(ended.folder.path()).unwrap().state.updates;
        assert!(ended.says(&format!("updates {saved}")), "{ended:?}");
        let result = in_turns(ended.folder.path()).next().unwrap().unwrap();
        assert_eq!(result.dict.get("resume.exact"), Some(&true.into()), "{result}");
        let folder = tempfile::tempdir().unwrap();
        let whole = in_turns(folder.path()).map(Result::unwrap).find(|whole| whole.iteration == result.iteration);
        let digest = result.dict.get("weights_digest");
        assert!(digest.is_some() && digest == whole.unwrap().dict.get("weights_digest"), "{result}");
    }
}

/// The same without threads.
fn alone(folder: &Path) -> Trainer {
    let config = with(deterministic(0, 0), |config| config.checkpoint.every = Duration::from_secs(3600).into());
    let builder = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    builder.checkpoints(folder).resume(Resume::auto()).build().unwrap()
}

fn run_alone(folder: &Path) {
    let mut trainer = alone(folder);
    trainer.add_reporter(Herald);
    let run = trainer.run(StopWhen::default()).unwrap();
    println!("updates {}", crate::fixtures::only(&run).state.updates);
}

#[test]
fn a_run_without_threads_that_a_signal_ended_goes_on_exactly() {
    let test = "a_run_without_threads_that_a_signal_ended_goes_on_exactly";
    let Some(ended) = signalled(test, &["-TERM"], run_alone) else { return };
    let saved = Checkpoint::load(ended.folder.path()).unwrap().state.updates;
    assert!(ended.says(&format!("updates {saved}")), "{ended:?}");
    let result = alone(ended.folder.path()).next().unwrap().unwrap();
    assert_eq!(result.dict.get("resume.exact"), Some(&true.into()), "{result}");
    let folder = tempfile::tempdir().unwrap();
    let whole = alone(folder.path()).map(Result::unwrap).find(|whole| whole.iteration == result.iteration);
    let digest = result.dict.get("weights_digest");
    assert!(digest.is_some() && digest == whole.unwrap().dict.get("weights_digest"), "{result}");
}

/// A run that takes a minute to end, because its learner does not come back.
fn run_that_ends_slowly(_: &Path) {
    let hang = |update| {
        if update == 3 {
            println!("{UNDER_WAY}");
            loop {
                std::thread::park();
            }
        }
        Ok(())
    };
    let _listening = pronk::on_ctrl_c(|| println!("{HEARD}")).unwrap();
    let _ = hooked(small(2), hang).run(StopWhen::default());
}

/// A run that goes on saving after its first signal.
fn run_that_is_told_twice(folder: &Path) {
    let (heard, hears) = std::sync::mpsc::channel();
    let listening = pronk::on_ctrl_c(move || heard.send(()).unwrap()).unwrap();
    let run = trainer(folder).run(StopWhen::default()).unwrap();
    hears.recv().unwrap();
    println!("{HEARD}");
    drop(listening);
    end(&run);
}

#[test]
fn a_terminal_that_closes_may_say_so_twice() {
    let test = "a_terminal_that_closes_may_say_so_twice";
    let Some(ended) = signalled(test, &["-HUP", "-HUP"], run_that_is_told_twice) else { return };
    assert!(ended.status == Some(129) && ended.says(&format!("{:?}", Some(StopReason::HungUp))), "{ended:?}");
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    for (first, ..) in KINDS {
        // SIGHUP comes twice by itself.
        for (second, status, _) in KINDS.into_iter().filter(|(signal, ..)| *signal != "-HUP") {
            let test = "a_second_signal_ends_the_process_at_once";
            let Some(ended) = signalled(test, &[first, second], run_that_ends_slowly) else { return };
            assert_eq!(ended.status, Some(status), "{first} {second} {ended:?}");
        }
    }
}

/// CartPole that says that it is under way, and then does not come back.
struct Hanging(CartPole);

impl Env for Hanging {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, _action: ActionRef<'_>, _obs: ObsMut<'_>) -> Result<Step, EnvError> {
        println!("{UNDER_WAY}");
        loop {
            std::thread::park();
        }
    }
}

/// A run whose only thread is in an environment that does not come back.
fn run_that_hangs(_: &Path) {
    let _ = Trainer::new(small(0), |_: &EnvContext| Hanging(CartPole::new())).unwrap().run(StopWhen::default());
    unreachable!("its only thread hangs");
}

#[test]
fn a_signal_ends_the_process_where_the_only_thread_does_not_come_back() {
    for (signal, status, _) in KINDS {
        let test = "a_signal_ends_the_process_where_the_only_thread_does_not_come_back";
        let Some(ended) = signalled(test, &[signal], run_that_hangs) else { return };
        assert_eq!(ended.status, Some(status), "{ended:?}");
    }
}

/// A run without threads, but for those of the environments, one of which does not come back.
fn run_with_a_group_that_hangs(_: &Path) {
    let make = |context: &EnvContext| -> Box<dyn Env> {
        match context.index {
            0 => Box::new(Hanging(CartPole::new())),
            _ => Box::new(CartPole::new()),
        }
    };
    let mut config = small(0);
    config.workers.num_env_groups = 2;
    let run = Trainer::new(config, make).unwrap().run(StopWhen::default()).unwrap();
    assert_eq!(run.reason, Some(StopReason::Interrupted));
    assert!(run.ledger_closed());
    println!("{ENDED}");
}

#[test]
fn ctrl_c_ends_a_run_without_threads_though_a_group_hangs() {
    let test = "ctrl_c_ends_a_run_without_threads_though_a_group_hangs";
    let Some(ended) = signalled(test, &["-INT"], run_with_a_group_that_hangs) else { return };
    assert!(ended.status == Some(0) && ended.says(ENDED), "{ended:?}");
}

/// Worker groups that only a signal ends.
fn groups(_: &Path) {
    let mut groups = WorkerGroups::new();
    let group = WorkerGroup::new(WorkerGroupConfig::default(), |worker| {
        worker.sleep(Duration::from_secs(3600));
        Ok(())
    });
    groups.add(group.on_shutdown(|| {
        println!("{SHUT_DOWN}");
        Ok(())
    }));
    let stopper = groups.stopper();
    let _listening = pronk::on_ctrl_c(move || stopper.stop()).unwrap();
    groups.start().unwrap();
    println!("{UNDER_WAY}");
    assert!(groups.wait(Duration::MAX));
    assert!(groups.stop(Duration::ZERO).is_clean());
    println!("{ENDED}");
}

#[test]
fn a_signal_ends_worker_groups_with_one_shutdown() {
    for (signal, ..) in KINDS {
        let Some(ended) = signalled("a_signal_ends_worker_groups_with_one_shutdown", &[signal], groups) else { return };
        assert!(ended.status == Some(0) && ended.says(ENDED), "{ended:?}");
        assert_eq!(ended.lines.iter().filter(|line| *line == SHUT_DOWN).count(), 1);
    }
}
