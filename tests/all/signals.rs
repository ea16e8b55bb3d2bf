//! Ctrl-C ends runs and worker groups cleanly. Each is a process of its own: this test binary, called again for one test.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{ReportError, ResultDict, StopReason, WorkerGroup, WorkerGroupConfig, WorkerGroups};

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

/// Presses Ctrl-C once `child` is under way, and gives the lines that it says from then on.
#[cfg(unix)]
fn interrupted(child: &str) -> Vec<String> {
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
    assert!(run.wait().unwrap().success(), "{child} did not end as it should: {lines:?}");
    lines
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_cleanly() {
    without_hanging("a run ended by Ctrl-C", || {
        assert!(interrupted("signals::child").iter().any(|line| line == ENDED));
    });
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_worker_groups_with_one_shutdown() {
    without_hanging("worker groups ended by Ctrl-C", || {
        let lines = interrupted("signals::child_with_groups");
        assert_eq!(lines.iter().filter(|line| *line == SHUT_DOWN).count(), 1);
        assert!(lines.iter().any(|line| line == ENDED));
    });
}
