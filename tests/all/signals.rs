//! Ctrl-C ends runs and worker groups cleanly. Each is a process of its own: this test binary, called again for one test.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{
    ActionRef, EnvError, EnvSpec, ObsMut, ReportError, ResultDict, Step, StopReason, WorkerGroup, WorkerGroupConfig,
    WorkerGroups,
};

use crate::fixtures::{small, without_hanging};

const IS_CHILD: &str = "PRONK_TEST_IS_CHILD";
const UNDER_WAY: &str = "under way";
const SHUT_DOWN: &str = "shut down";
const ENDED: &str = "ended by Ctrl-C as it should";

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

/// The other process: a run that only Ctrl-C ends. As a test of this process it has nothing to do.
#[test]
fn child() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let config = TrainerConfig { min_time_s_per_iteration: 0.05, ..small(2) };
    let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    trainer.add_reporter(Herald);
    let run = trainer.run(StopWhen::default()).unwrap();
    assert_eq!(run.reason, Some(StopReason::Interrupted));
    assert!(run.ledger_closed());
    println!("{ENDED}");
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

/// The other process: a run whose only thread is in an environment that does not come back.
#[test]
fn child_that_hangs() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let _ = Trainer::new(small(0), |_: &EnvContext| Hanging(CartPole::new())).unwrap().run(StopWhen::default());
    unreachable!("its only thread hangs");
}

/// The other process: a run without threads, but for those of the environments, one of which does not come back.
#[test]
fn child_with_a_group_that_hangs() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let make = |context: &EnvContext| -> Box<dyn Env> {
        match context.index {
            0 => Box::new(Hanging(CartPole::new())),
            _ => Box::new(CartPole::new()),
        }
    };
    let config = TrainerConfig { num_env_groups: 2, ..small(0) };
    let run = Trainer::new(config, make).unwrap().run(StopWhen::default()).unwrap();
    assert_eq!(run.reason, Some(StopReason::Interrupted));
    assert!(run.ledger_closed());
    println!("{ENDED}");
}

/// The other process: worker groups that only Ctrl-C ends. As a test of this process it has nothing to do.
#[test]
fn child_with_groups() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
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

/// Presses Ctrl-C once `child` is under way, and gives its status and the lines that it says from then on.
#[cfg(unix)]
fn interrupted(child: &str) -> (Option<i32>, Vec<String>) {
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(IS_CHILD, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.ends_with(UNDER_WAY)), "{child} never started");
    let interrupted = Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let lines = lines.collect();
    (run.wait().unwrap().code(), lines)
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_cleanly() {
    without_hanging("a run ended by Ctrl-C", || {
        let (status, lines) = interrupted("signals::child");
        assert!(status == Some(0) && lines.iter().any(|line| line == ENDED), "{status:?} {lines:?}");
    });
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_worker_groups_with_one_shutdown() {
    without_hanging("worker groups ended by Ctrl-C", || {
        let (status, lines) = interrupted("signals::child_with_groups");
        assert_eq!(status, Some(0), "{lines:?}");
        assert_eq!(lines.iter().filter(|line| *line == SHUT_DOWN).count(), 1);
        assert!(lines.iter().any(|line| line == ENDED));
    });
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_process_where_the_only_thread_does_not_come_back() {
    without_hanging("a run that hangs", || {
        assert_eq!(interrupted("signals::child_that_hangs").0, Some(130));
        let (status, lines) = interrupted("signals::child_with_a_group_that_hangs");
        assert!(status == Some(0) && lines.iter().any(|line| line == ENDED), "{status:?} {lines:?}");
    });
}
