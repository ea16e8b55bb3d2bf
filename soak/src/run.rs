//! The process of a cell.

use std::process::{ExitCode, exit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use pronk::buffer::shutdown;
use pronk::metrics::ThreadTime;
use pronk::signals::on_signal;
use pronk::{Checkpoint, Run};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::{Value, json};

use crate::arguments::Job;
use crate::cells::Cell;
use crate::census::Census;
use crate::envs::steps_made;
use crate::output::write;
use crate::trainings::Ended;

/// Runs a job, and prints how it ended and what is left of it in this process.
pub(crate) fn run(job: &Job) -> anyhow::Result<ExitCode> {
    let cell = Cell::named(&job.cell).with_context(|| format!("there is no cell `{}`", job.cell))?;
    // A driver that is killed leaves no run behind.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    print_few_panics();
    // What a process starts once and keeps: the thread that waits for signals. One that comes meanwhile ends
    // it, as one that comes earlier does.
    #[expect(clippy::disallowed_methods, reason = "there is nothing yet that could be left unfinished")]
    let listening = on_signal(|reason| exit(reason.signal_status().unwrap_or(1).into()))?;
    drop(listening);
    let before = census()?;
    let Ended { run, cause } = (cell.train)(job)?;
    let status = run.exit_status();
    let mut ended = outcome(&run, job);
    drop(run);
    ended["failure"] = json!(cause.map(|cause| cause.to_string()));
    ended["before"] = json!(before);
    ended["after"] = json!(settled(&before)?);
    write(&json!({ "ended": ended }).to_string())?;
    Ok(status.into())
}

fn outcome(run: &Run, job: &Job) -> Value {
    let time = |time: &ThreadTime| {
        let states: serde_json::Map<_, _> =
            time.states.iter().map(|(state, secs)| ((*state).to_owned(), json!(secs))).collect();
        (time.thread.clone(), json!({ "wall_secs": time.wall_secs, "states": states }))
    };
    let texts = |texts: Vec<String>| json!(texts);
    json!({
        "reason": run.reason,
        "steps": run.steps,
        "time": run.thread_times.iter().map(time).collect::<serde_json::Map<_, _>>(),
        "not_joined": run.not_joined,
        "abandoned": run.abandoned.newest,
        "gave_up": texts(run.worker_failures.iter().map(ToString::to_string).collect()),
        "reporter_failures": texts(run.reporter_failures.iter().map(ToString::to_string).collect()),
        "log_failure": run.log_failure(),
        "checkpoint_failures": texts(run.checkpoint_failures.iter().map(ToString::to_string).collect()),
        "steps_made": steps_made(),
        "unix_secs": unix_secs(),
        "checkpoint": Checkpoint::load_all(job.folder.join("checkpoints")).map(|_| ()).map_err(|error| error.to_string()),
    })
}

/// The wall clock, whose steps have to be felt here.
#[allow(clippy::disallowed_methods)]
pub(crate) fn unix_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// How long after a run something of it may be left: a process of environments closes for up to
/// `close_timeout`, ten seconds, and two more before it is killed, and the machine may be busy.
const CLOSING: Duration = Duration::from_secs(30);

/// What the process has once all that it had not before is gone, or after that time.
fn settled(before: &Census) -> anyhow::Result<Census> {
    let (_guard, token) = shutdown();
    let began = Instant::now();
    loop {
        let now = census()?;
        let is_left = now.threads > before.threads || now.descriptors > before.descriptors || now.children > 0;
        if !is_left || began.elapsed() > CLOSING {
            return Ok(now);
        }
        let _ = token.sleep(Duration::from_millis(20));
    }
}

fn census() -> anyhow::Result<Census> {
    Census::of(std::process::id()).context("/proc cannot be read")
}

/// Environments panic thousands of times.
fn print_few_panics() {
    static PRINTED: AtomicU64 = AtomicU64::new(0);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if PRINTED.fetch_add(1, Ordering::Relaxed) < 20 {
            print(panic);
        }
    }));
}
