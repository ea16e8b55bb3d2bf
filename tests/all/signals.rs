//! Ctrl-C ends a run cleanly. The run is a process of its own: this test binary, called again for one test.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pronk::StopReason;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{ReportError, ResultDict};

use crate::fixtures::{small, without_hanging};

const IS_CHILD: &str = "PRONK_TEST_IS_CHILD";
const UNDER_WAY: &str = "under way";
const ENDED: &str = "ended by Ctrl-C, ledger closed";

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

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_cleanly() {
    without_hanging("a run ended by Ctrl-C", || {
        let mut run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::child", "--nocapture"])
            .env(IS_CHILD, "yes")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.by_ref().any(|line| line.ends_with(UNDER_WAY)), "the run never started");
        let interrupted = Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
        assert!(interrupted.success());
        assert!(lines.any(|line| line == ENDED), "the run did not end as it should");
        assert!(run.wait().unwrap().success());
    });
}
