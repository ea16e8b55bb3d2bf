//! Runs whose environments are in processes of a program in C: what the processes use is counted, and how
//! they end is no hang.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use pronk::bottleneck::Limit;
use pronk::env_process::{ChildOutput, ProcessEnvs, Program};
use pronk::metrics::ThreadTime;
use pronk::prelude::*;
use pronk::{Run, TrainResult};
use serde_json::{Map, json};

use crate::deterministic::deterministic;
use crate::fixtures::{alone, iterations, small, with, without_hanging};
use crate::resume_exact;

/// How many environments a process has.
const ENVS_PER_PROCESS: usize = 2;

/// Processor time that a corridor that is `busy` uses for a step of all its environments.
const BUSY: Duration = Duration::from_millis(2);

/// The child of the protocol's conformance tests, compiled by the C compiler that `CC` names, or `cc`.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("envs/process/conformance/corridor.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("corridor-{}", std::process::id()));
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let status = Command::new(compiler).args(["-std=c11", "-O2", "-o"]).arg(&program).arg(source).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot compile the corridor");
        program
    })
}

/// Corridors that are `busy` in every step or `slow` to close.
fn corridors(how: &str) -> ProcessEnvs {
    let config = Map::from_iter([("lie".to_owned(), json!(how))]);
    let program = Program { config, ..Program::new(program()) };
    ProcessEnvs { envs_per_process: ENVS_PER_PROCESS, output: ChildOutput::Shown, ..ProcessEnvs::new(program) }
}

#[test]
fn runs_go_on_in_the_middle_of_episodes_in_processes() {
    let honest = ProcessEnvs { program: Program::new(program()), ..corridors("") };
    for groups in [1, 2] {
        let config = with(deterministic(2, 1), |config| config.workers.num_env_groups = groups);
        resume_exact::check_env(&format!("corridors, {groups} groups"), &config, &honest);
    }
}

/// The processes that this one has started and not waited for.
fn children() -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parent == Some(std::process::id())
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_child).collect()
}

fn of_processes(threads: &[ThreadTime]) -> Vec<&ThreadTime> {
    threads.iter().filter(|time| time.thread.starts_with("env-process-")).collect()
}

/// Results of a run whose children are busy, and how it ended.
fn busy_run(workers: usize) -> (Vec<TrainResult>, Run) {
    let mut config = small(workers);
    config.workers.num_envs_per_worker = 2 * ENVS_PER_PROCESS;
    config.workers.rollout_fragment_length = 10;
    config.learner.train_batch_size = 40;
    config.results.min_time_s_per_iteration = 0.3;
    let mut trainer = Trainer::new(config, corridors("busy")).unwrap();
    let results = trainer.by_ref().take(4).map(Result::unwrap).collect();
    (results, trainer.finish().unwrap())
}

/// Processor time in seconds that the children of such a run used at least for so many env-steps.
fn used_at_least(env_steps: u64) -> f64 {
    (env_steps / ENVS_PER_PROCESS as u64) as f64 * BUSY.as_secs_f64()
}

#[test]
fn processor_time_of_children_is_counted() {
    alone("processes::processor_time_of_children_is_counted", || {
        for workers in [0, 2] {
            let (results, _) = without_hanging("a busy run", move || busy_run(workers));
            // The processors that were busy, over all iterations but the first, in which processes also
            // start.
            let mut busy_secs = 0.0;
            for result in &results[1..] {
                let busy = result.dict.number("bottleneck.processors_busy").unwrap();
                busy_secs += busy * result.time_this_iteration.as_secs_f64();
            }
            let steps = results[3].env_steps_sampled - results[0].env_steps_sampled;
            let least = used_at_least(steps);
            // A clock of the system ticks a hundred times a second, for each of four children at either end.
            assert!(busy_secs > 0.9 * least - 0.1, "{workers} workers: {busy_secs} s, children alone {least} s");
        }
    });
}

#[test]
fn advice_promises_no_more_than_the_machine_has_left() {
    alone("processes::advice_promises_no_more_than_the_machine_has_left", || {
        for workers in [0, 1] {
            let (results, _) = without_hanging("a busy run", move || busy_run(workers));
            for (before, result) in results.iter().zip(&results[1..]) {
                let bottleneck = result.bottleneck.as_ref().unwrap();
                let available = result.dict.number("bottleneck.processors").unwrap();
                let least = used_at_least(result.env_steps_sampled - before.env_steps_sampled);
                let busy = (0.9 * least - 0.1) / result.time_this_iteration.as_secs_f64();
                let promised = bottleneck.advice.map_or(1.0, |advice| advice.speedup);
                assert!(promised * busy <= available, "{bottleneck}, with {busy} of {available} processors busy");
            }
        }
    });
}

#[test]
fn children_are_threads_of_the_ledger_which_closes_for_them() {
    alone("processes::children_are_threads_of_the_ledger_which_closes_for_them", || {
        let (results, run) = without_hanging("a busy run", || busy_run(2));
        let last = results.last().unwrap();
        assert!(last.ledger_closed(), "{last}");
        let names: Vec<_> = of_processes(&last.time).into_iter().map(|time| &*time.thread).collect();
        assert_eq!(names, ["env-process-1", "env-process-2", "env-process-3", "env-process-4"]);
        for name in &names {
            let path = |key: &str| last.dict.number(&format!("ledger.time.{name}.{key}")).unwrap();
            assert!(path("states.stepping") > 0.0 && path("states.waiting") > 0.0, "{last}");
            assert!(path("processor_secs") > 0.0, "{last}");
            // One processor at most, but for its threads: it has none.
            assert!(path("processor_secs") <= path("wall_secs") + 0.05, "{last}");
        }
        // What a child has used does not vanish with it.
        assert!(run.ledger_closed(), "{:?}", run.thread_times);
        let used: f64 = of_processes(&run.thread_times).iter().filter_map(|time| time.processor_secs).sum();
        assert!(used >= used_at_least(run.steps.sampled.env) - 0.1, "{used} s: {:?}", run.thread_times);
        assert!(of_processes(&run.thread_times).iter().all(|time| time.current.is_none()), "{:?}", run.thread_times);
    });
}

#[test]
fn workers_that_wait_for_children_that_step_are_no_idle_ones() {
    alone("processes::workers_that_wait_for_children_that_step_are_no_idle_ones", || {
        let (results, _) = without_hanging("a busy run", || busy_run(1));
        let limits: Vec<_> = results[1..].iter().map(|result| result.bottleneck.as_ref().unwrap().limit).collect();
        // Two children share the processors with whatever else runs on this machine.
        let is_right = |limit: &Limit| matches!(limit, Limit::Environments | Limit::Processors);
        assert!(limits.iter().all(is_right), "{limits:?}");
    });
}

#[test]
fn a_close_that_takes_its_time_is_no_hang_and_ends() {
    let name = "processes::a_close_that_takes_its_time_is_no_hang_and_ends";
    let said = alone(name, || {
        for (workers, num_env_groups) in [(0, 1), (1, 1), (2, 1), (1, 2)] {
            let mut config = small(workers);
            config.workers.num_envs_per_worker = 4;
            config.learner.train_batch_size = 32;
            config.workers.num_env_groups = num_env_groups;
            let run = without_hanging("a run with slow ends", || {
                Trainer::new(config, corridors("slow")).unwrap().run(iterations(2)).unwrap()
            });
            assert_eq!(
                (run.not_joined, run.abandoned.newest),
                (vec![], vec![]),
                "{workers} workers: they are no hangs"
            );
            assert_eq!(children(), Vec::<u32>::new(), "{workers} workers: processes are left");
        }
    });
    if let Some(said) = said {
        // One process makes the environments that say what all are; then each run has two, or two for each
        // worker.
        assert_eq!(said.lines().filter(|line| *line == "closed").count(), 2 + 2 + 4 + 2 + 4, "{said}");
    }
}
