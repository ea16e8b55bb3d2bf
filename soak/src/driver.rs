//! The driver: runs the cells of the matrix, some at a time, and watches each.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;

use crate::arguments::{Job, Plan};
use crate::cells::{Cell, Fault, MATRIX};
use crate::census::Census;
use crate::checker::{Checker, Exit};
use crate::outside::Faults;
use crate::process::Process;
use crate::stacks;
use crate::table::{Row, Table};
use crate::tools;

/// How often a sample is taken of a process.
const SAMPLE: Duration = Duration::from_secs(1);

/// How long the driver waits for a line before it checks whether a fault is due.
const LISTEN: Duration = Duration::from_millis(50);

/// Runs what is planned; whether every check has passed.
pub(crate) fn soak(plan: &Plan) -> anyhow::Result<bool> {
    let cells = chosen(plan)?;
    fs::create_dir_all(&plan.out)?;
    let out = plan.out.canonicalize()?;
    let work = tempfile::Builder::new().prefix("work-").tempdir_in(&out)?;
    tools::compile(work.path()).context("cells need a C compiler")?;
    let table = Mutex::new(Table::begin(&out)?);
    let (share, passes) = plan.shares(cells.len());
    let mut turns = Vec::new();
    for cell in cells {
        match tools::missing(cell, work.path()) {
            Some(why) => lock(&table).not_checked(cell, &why)?,
            None => turns.extend((1..=passes).map(|pass| (pass, cell))),
        }
    }
    turns.sort_by_key(|(pass, _)| *pass);
    let turns = Mutex::new(turns.into_iter());
    let site = Site { out: &out, work: work.path(), share, seed: plan.seed };
    let run = || -> anyhow::Result<()> {
        loop {
            let Some((pass, cell)) = lock(&turns).next() else { return Ok(()) };
            let row = site.run(cell, pass);
            lock(&table).add(row)?;
        }
    };
    std::thread::scope(|threads| {
        let start = |number| std::thread::Builder::new().name(format!("soak-{number}")).spawn_scoped(threads, run);
        let jobs = (1..=plan.jobs.get()).map(start).collect::<Result<Vec<_>, _>>()?;
        jobs.into_iter().try_for_each(|job| job.join().unwrap_or_else(|_| anyhow::bail!("the driver panicked")))
    })?;
    lock(&table).end()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A driver's thread that panics fails the whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn chosen(plan: &Plan) -> anyhow::Result<Vec<&'static Cell>> {
    if plan.cell.is_empty() {
        return Ok(MATRIX.iter().collect());
    }
    let named = |name: &String| {
        let names = || MATRIX.iter().map(|cell| cell.name).collect::<Vec<_>>().join(", ");
        Cell::named(name).with_context(|| format!("there is no cell `{name}`; there are {}", names()))
    };
    plan.cell.iter().map(named).collect()
}

/// Where cells are run, and for how long.
struct Site<'a> {
    out: &'a Path,
    work: &'a Path,
    share: Duration,
    seed: u64,
}

/// One cell while it runs.
struct Watch {
    checker: Checker,
    faults: Faults,
    /// Its standard error, and the stacks of one that hangs.
    errors: PathBuf,
    stacks: PathBuf,
}

impl Site<'_> {
    fn run(&self, cell: &'static Cell, pass: u64) -> Row {
        let seed = self.seed + pass;
        let folder = self.work.join(format!("{}-{pass}", cell.name));
        let secs = (cell.fault != Fault::Signals).then_some(self.share.as_secs());
        let job = Job { cell: cell.name.to_owned(), folder, tools: self.work.to_owned(), secs, seed };
        let file = |ending: &str| self.out.join(format!("{}-{pass}.{ending}", cell.name));
        let mut watch = Watch {
            checker: Checker::new(cell, self.share),
            faults: Faults::new(cell.fault, &job.folder, seed),
            errors: file("stderr"),
            stacks: file("stacks"),
        };
        let watched = watch.processes(&job).and_then(|()| Ok(fs::write(file("csv"), watch.checker.csv())?));
        // One cell that cannot be watched, such as without a folder, does not end the others.
        if let Err(error) = watched {
            watch.checker.fail("driver", || format!("{error:#}"));
        }
        watch.checker.felt(watch.faults.count);
        let Watch { checker, faults, .. } = watch;
        Row { pass, took: checker.began.elapsed(), faults: faults.count, checker }
    }
}

impl Watch {
    /// Watches the processes of a job, one after the other, until its time is over.
    fn processes(&mut self, job: &Job) -> anyhow::Result<()> {
        fs::create_dir(&job.folder)?;
        fs::write(&self.errors, "")?;
        let mut was_killed = false;
        loop {
            self.checker.restarted(was_killed);
            self.faults.restarted();
            self.process(Process::start(self.checker.cell, job, &self.errors)?)?;
            was_killed = self.signalled() == Some(Signal::KILL);
            // One that signals end goes on in another process until its time is over.
            if self.checker.cell.fault != Fault::Signals || self.checker.began.elapsed() >= self.checker.share {
                return Ok(fs::remove_dir_all(&job.folder)?);
            }
        }
    }

    fn signalled(&self) -> Option<Signal> {
        self.faults.signalled.map(|(signal, _)| signal)
    }

    /// Watches a process until it has ended.
    fn process(&mut self, mut process: Process) -> anyhow::Result<()> {
        let mut sampled = Instant::now();
        let mut has_begun = false;
        loop {
            match process.line(LISTEN) {
                Ok(line) => {
                    has_begun = true;
                    self.checker.line(&line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Before its first result the file system of a full disk is not there.
            if (has_begun || self.checker.cell.fault == Fault::Signals) && !self.checker.has_ended() {
                self.faults.act(process.id());
            }
            if sampled.elapsed() >= SAMPLE {
                sampled = Instant::now();
                if let Some(census) = Census::of(process.id()) {
                    self.checker.sample(census);
                }
            }
            if let Some(why) = self.checker.hang().or_else(|| self.late()) {
                return self.hangs(&mut process, &why);
            }
        }
        let status = self.exit_status(&mut process)?;
        let stderr = fs::read(&self.errors).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(600)..]).into_owned();
        self.checker.exit(&Exit { status, signalled: self.signalled(), stderr: &stderr });
        Ok(())
    }

    /// Why the process is late, if it is: a signal ends it, or else its limit of time.
    fn late(&self) -> Option<String> {
        let due = match self.checker.cell.fault {
            Fault::Signals => self.faults.signalled?.1,
            _ => self.checker.began + self.checker.share,
        };
        let overtime = due.elapsed();
        (overtime > self.checker.cell.overtime()).then(|| format!("it runs {overtime:.0?} after it should have ended"))
    }

    /// Its status: it has closed its output, so it ends at once.
    fn exit_status(&mut self, process: &mut Process) -> anyhow::Result<ExitStatus> {
        let closed = Instant::now();
        loop {
            if let Some(status) = process.status()? {
                return Ok(status);
            }
            if closed.elapsed() > self.checker.cell.overtime() {
                self.hangs(process, "it has closed its output and does not end")?;
                return Ok(ExitStatus::from_raw(Signal::KILL.as_raw()));
            }
            std::thread::park_timeout(LISTEN);
        }
    }

    fn hangs(&mut self, process: &mut Process, why: &str) -> anyhow::Result<()> {
        fs::write(&self.stacks, stacks::of(process.id()))?;
        process.kill();
        // Results that it has not printed yet are lost, as after any SIGKILL.
        self.faults.signalled = Some((Signal::KILL, Instant::now()));
        let stacks = self.stacks.display().to_string();
        self.checker.fail("hang", || format!("{why}, see {stacks}"));
        Ok(())
    }
}
