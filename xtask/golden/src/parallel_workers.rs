//! Runner of `parallel_workers.json`: what Caffe2's `parallel_workers` was observed to do, event by event.
//!
//! Each scenario drives real [`WorkerGroups`]. Where pronk does better on purpose, the scenario is also
//! listed as a deviation, and its case checks what pronk does instead.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pronk_groups::{CallResult, GroupPlace, GroupWorker, WorkerGroup, WorkerGroupConfig, WorkerGroups, WorkerId};
use serde_json::{Value, json};

use crate::json::{array_at, bool_at, get, section, str_at, usize_at, usizes_at};
use crate::{Case, Recorder};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

const KIND: &str = "scenario";

const RESTART: &str = "a group that failed starts again with new threads and numbers, where the original raises on its used \
                       thread; the error comes back as a value, where the original logs it";
const GLOBAL: &str = "there is no global coordinator: the groups of one value are";
const NAMED: &str = "stop has one deadline for all and names who missed it, where the original waits 5 s for each and returns \
                     false";
const BEFORE_START: &str = "stopping what was never started is no error; the shutdown function is not called in either";

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for entry in section(file, "scenarios") {
        let name = str_at(entry, "scenario").unwrap_or("a scenario without a name");
        let (run, deviation): (fn(&Value, &mut Case) -> Result<()>, _) = match name {
            "lifecycle" => (lifecycle, None),
            "worker_raises" => (worker_raises, Some(RESTART)),
            "raise_then_stop" => (raise_then_stop, None),
            "several_coordinators" => (several_coordinators, Some(GLOBAL)),
            "stuck_workers" => (stuck_workers, Some(NAMED)),
            "stop_before_start" => (stop_before_start, Some(BEFORE_START)),
            "logger_raises" => (logger_raises, None),
            _ => {
                r.no_runner(KIND, name, "no scenario of this name");
                continue;
            }
        };
        r.case(KIND, name, |c| run(entry, c));
        if let Some(why) = deviation {
            r.deviation(KIND, name, why);
        }
    }
}

/// One worker runs so many times; then it is stopped while it is in one call more.
fn lifecycle(entry: &Value, c: &mut Case) -> Result<()> {
    let iterations = usize_at(entry, "iterations")?;
    let (mut groups, events) = (WorkerGroups::new(), Events::default());
    let name = str_at(entry, "worker_name")?;
    let (calls, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (counted, log, runs) = (Arc::clone(&calls), Arc::clone(&shown), events.clone());
    let group = WorkerGroup::new(config(name, 1)?, move |worker| {
        run_so_often(iterations, &counted, worker, &runs);
        Ok(())
    })
    .with_logger(move |time| {
        lock(&log).push((time.group_time.as_secs_f64(), time.group_time_count, format!("{time:?}")));
        Ok(())
    });
    groups.add(with_events(group, &events, &["name", "on the caller's thread"], &[]));
    groups.start()?;
    wait_for("one call more", || calls.load(Ordering::Relaxed) > iterations)?;
    let outcome = groups.stop(LONG);
    c.equal("events", events.seen(), get(entry, "events")?.clone());
    c.equal("stop_returns", outcome.is_clean(), bool_at(entry, "stop_returns")?);
    c.equal("second_stop_returns", groups.stop(LONG).is_clean(), bool_at(entry, "second_stop_returns")?);

    let shown = lock(&shown);
    let newest = shown.last().context("no logger was called")?;
    for key in array_at(entry, "metric_keys")? {
        let key = key.as_str().context("a key is a text")?;
        c.equal(format!("metric `{key}`"), newest.2.contains(&format!("{key}: ")), true);
    }
    c.equal("worker_time only grows", shown.is_sorted_by_key(|shown| shown.0), true);
    c.equal("log_calls", shown.len(), usize_at(entry, "log_calls")?);
    c.equal("worker_time_count_last", newest.1, usize_at(entry, "worker_time_count_last")? as u64);
    c.equal("worker_ids", events.worker_ids(), usizes_at(entry, "worker_ids")?);
    Ok(())
}

/// A worker fails; its group shuts down there and then, and starts again cleanly.
fn worker_raises(entry: &Value, c: &mut Case) -> Result<()> {
    let (ok_iterations, message) = (usize_at(entry, "ok_iterations")?, str_at(entry, "message")?.to_owned());
    let (mut groups, events) = (WorkerGroups::new(), Events::default());
    let (calls, runs, boom) = (AtomicUsize::new(0), events.clone(), message.clone());
    let body = move |worker: &GroupWorker| -> CallResult {
        // The first worker fails; the one that comes after the restart does not.
        match calls.fetch_add(1, Ordering::Relaxed) {
            call if call < ok_iterations => runs.push(json!(["run", worker.id().get()])),
            call if call == ok_iterations => return Err(boom.clone().into()),
            _ => worker.sleep(LONG),
        }
        Ok(())
    };
    groups.add(with_events(WorkerGroup::new(config("train", 1)?, body), &events, &[], &["on the caller's thread"]));
    groups.start()?;
    let ended = groups.wait(LONG);
    c.equal("events", events.seen(), get(entry, "events")?.clone());
    let state = json!({"active": !ended, "started": !ended, "alive": groups.n_running() > 0});
    c.equal("state_after", state, get(entry, "state_after")?.clone());

    // Deviation: the error is a value, with what the original logs in it.
    let [error] = &groups.errors()[..] else { bail!("expected one error, got {:?}", groups.errors()) };
    let GroupPlace::Worker(worker) = error.place else { bail!("not a worker failed: {error}") };
    let logged = format!("Data input failed due to an error: Exception in worker {worker}: {}", error.cause);
    c.equal("error_log", json!([logged]), get(entry, "error_log")?.clone());

    // Deviation: the restart works. Its init is the original's, and the stop has a running group to shut
    // down.
    get(entry, "restart")?;
    events.clear();
    groups.start()?;
    c.equal("restart_events", events.seen(), get(entry, "restart_events")?.clone());
    c.equal("threads after the restart", groups.n_running(), 1);
    events.clear();
    let outcome = groups.stop(LONG);
    let want = get(entry, "events_of_stop_after_failed_restart")?;
    c.equal("events_of_stop_after_restart", events.seen(), want.clone());
    c.equal("stop_returns", outcome.not_ended.is_empty(), bool_at(entry, "stop_returns")?);
    Ok(())
}

/// The shutdown of a group that failed is not called again by the stop.
fn raise_then_stop(entry: &Value, c: &mut Case) -> Result<()> {
    let (mut groups, events) = (WorkerGroups::new(), Events::default());
    let group = WorkerGroup::new(config("train", 1)?, |_| Err("boom".into()));
    groups.add(with_events(group, &events, &[], &[]));
    groups.start()?;
    groups.wait(LONG);
    c.equal("shutdown_calls_before_stop", events.shutdowns(), usize_at(entry, "shutdown_calls_before_stop")?);
    let outcome = groups.stop(LONG);
    c.equal("shutdown_calls_after_stop", events.shutdowns(), usize_at(entry, "shutdown_calls_after_stop")?);
    c.equal("stop_returns", outcome.not_ended.is_empty(), bool_at(entry, "stop_returns")?);
    Ok(())
}

/// Several groups: stopping one by name leaves the others, and a late one has new numbers.
fn several_coordinators(entry: &Value, c: &mut Case) -> Result<()> {
    let (mut groups, events) = (WorkerGroups::new(), Events::default());
    let idle = |worker: &GroupWorker| -> CallResult {
        worker.sleep(LONG);
        Ok(())
    };
    for spec in array_at(entry, "specs")? {
        let config = config(str_at(spec, "0")?, usize_at(spec, "1")?)?;
        groups.add(with_events(WorkerGroup::new(config, idle), &events, &["name", "workers"], &["name"]));
    }
    groups.start()?;
    groups.stop_group(str_at(entry, "stop_coordinator")?, LONG);
    c.equal("events_until_stop_coordinator", events.seen(), get(entry, "events_until_stop_coordinator")?.clone());
    c.equal("left", json!(groups.names().collect::<Vec<_>>()), get(entry, "left")?.clone());
    events.clear();
    let outcome = groups.stop(LONG);
    c.equal("events_of_stop", events.seen(), get(entry, "events_of_stop")?.clone());
    c.equal("stop_returns", outcome.is_clean(), bool_at(entry, "stop_returns")?);

    let late = usizes_at(entry, "late_worker_ids")?;
    events.clear();
    groups.add(with_events(WorkerGroup::new(config("late", late.len())?, idle), &events, &[], &[]));
    groups.start()?;
    c.equal("late_worker_ids", events.worker_ids(), late);
    groups.stop(LONG);
    Ok(())
}

/// Who does not end is named, at one deadline for all.
fn stuck_workers(entry: &Value, c: &mut Case) -> Result<()> {
    let workers = usize_at(entry, "workers")?;
    let (mut groups, events) = (WorkerGroups::new(), Events::default());
    // Nothing comes through it, and the stop does not close it.
    let (open, gate) = mpsc::sync_channel::<()>(1);
    let (calling, gate) = (events.clone(), Mutex::new(gate));
    groups.add(WorkerGroup::new(config("stuck", workers)?, move |_| {
        calling.push(json!("call"));
        let _ = lock(&gate).recv();
        Ok(())
    }));
    groups.start()?;
    wait_for("a call of every worker", || lock(&events.seen).len() == workers)?;
    let outcome = groups.stop(Duration::from_millis(10));
    c.equal("stop_returns", outcome.is_clean(), bool_at(entry, "stop_returns")?);
    c.equal("coordinators_left", groups.names().count(), usize_at(entry, "coordinators_left")?);
    // Deviation: the wait is as long as was asked for, and what is waited for has names.
    usize_at(entry, "waited_seconds_rounded")?;
    let names: Vec<_> = (0..workers).map(|id| format!("stuck-{id}")).collect();
    c.equal("not_ended", outcome.not_ended, names);
    drop(open);
    Ok(())
}

/// Stopping what was never started calls no shutdown.
fn stop_before_start(entry: &Value, c: &mut Case) -> Result<()> {
    let (mut groups, events) = (WorkerGroups::new(), Events::default());
    groups.add(with_events(WorkerGroup::new(config("train", 1)?, |_| Ok(())), &events, &[], &[]));
    // Deviation: it is no error.
    str_at(entry, "outcome")?;
    c.equal("outcome", groups.stop(LONG).is_clean(), true);
    c.equal("shutdown_calls", events.shutdowns(), usize_at(entry, "shutdown_calls")?);
    Ok(())
}

/// A logger that fails keeps no other from being called, and is called again.
fn logger_raises(entry: &Value, c: &mut Case) -> Result<()> {
    let iterations = usize_at(entry, "iterations")?;
    let (mut groups, events) = (WorkerGroups::new(), Events::default());
    let [bad, good] = [(), ()].map(|()| Arc::new(AtomicUsize::new(0)));
    let (count_bad, count_good) = (Arc::clone(&bad), Arc::clone(&good));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    groups.add(
        WorkerGroup::new(config("train", 1)?, move |worker| {
            run_so_often(iterations, &counted, worker, &events);
            Ok(())
        })
        .with_logger(move |_| {
            count_bad.fetch_add(1, Ordering::Relaxed);
            Err("no paper".into())
        })
        .with_logger(move |_| {
            count_good.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }),
    );
    groups.start()?;
    wait_for("one call more", || calls.load(Ordering::Relaxed) > iterations)?;
    let outcome = groups.stop(LONG);
    c.equal("bad_calls", bad.load(Ordering::Relaxed), usize_at(entry, "bad_calls")?);
    c.equal("good_calls", good.load(Ordering::Relaxed), usize_at(entry, "good_calls")?);
    c.equal("stop_returns", outcome.not_ended.is_empty(), bool_at(entry, "stop_returns")?);
    c.equal("failed calls in the outcome", outcome.errors[0].failed_calls, bad.load(Ordering::Relaxed) as u64);
    Ok(())
}

/// A call that is one of the first `iterations`, or the one after them, which waits for the stop.
fn run_so_often(iterations: usize, calls: &AtomicUsize, worker: &GroupWorker, events: &Events) {
    if calls.fetch_add(1, Ordering::Relaxed) < iterations {
        events.push(json!(["run", worker.id().get()]));
    } else {
        worker.sleep(LONG);
    }
}

fn config(name: &str, num_workers: usize) -> Result<WorkerGroupConfig> {
    let num_workers = NonZeroUsize::new(num_workers).context("a group has at least one worker")?;
    Ok(WorkerGroupConfig { name: name.to_owned(), num_workers, ..WorkerGroupConfig::default() })
}

/// Has a group tell of its init and its shutdown, with as much beside as the scenario has.
fn with_events(group: WorkerGroup, events: &Events, init: &'static [&str], shutdown: &'static [&str]) -> WorkerGroup {
    let (name, caller) = (group.config().name.clone(), thread::current().id());
    let (begun, ended, also) = (events.clone(), events.clone(), name.clone());
    group
        .on_init(move |workers| {
            *lock(&begun.workers) = workers.to_vec();
            begun.push(event("init", init, &name, workers, caller));
            Ok(())
        })
        .on_shutdown(move || {
            ended.push(event("shutdown", shutdown, &also, &[], caller));
            Ok(())
        })
}

fn event(what: &str, beside: &[&str], name: &str, workers: &[WorkerId], caller: ThreadId) -> Value {
    let beside = beside.iter().map(|part| match *part {
        "name" => json!(name),
        "workers" => json!(workers.iter().map(|id| id.get()).collect::<Vec<_>>()),
        _ => json!(thread::current().id() == caller),
    });
    std::iter::once(json!(what)).chain(beside).collect()
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Events {
    seen: Arc<Mutex<Vec<Value>>>,
    /// The workers of the newest init.
    workers: Arc<Mutex<Vec<WorkerId>>>,
}

impl Events {
    fn push(&self, event: Value) {
        lock(&self.seen).push(event);
    }

    fn seen(&self) -> Value {
        Value::Array(lock(&self.seen).clone())
    }

    fn clear(&self) {
        lock(&self.seen).clear();
    }

    fn shutdowns(&self) -> usize {
        lock(&self.seen).iter().filter(|event| event[0] == "shutdown").count()
    }

    fn worker_ids(&self) -> Vec<usize> {
        lock(&self.workers).iter().map(|id| id.get() as usize).collect()
    }
}

fn wait_for(what: &str, condition: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !condition() {
        ensure!(began.elapsed() < LONG, "{what} did not come");
        thread::yield_now();
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
