//! The driver: plays the cells of the matrix, some at a time, and watches each.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;

use crate::arguments::{Plan, Scene};
use crate::cells::{Cell, Fault, MATRIX};
use crate::census::Census;
use crate::checker::{Checker, Exit};
use crate::outside::Faults;
use crate::process::Process;
use crate::stacks;
use crate::table::{Row, Table};
use crate::tools;

/// How often a process is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long the driver listens before it looks whether a fault is due.
const LISTEN: Duration = Duration::from_millis(50);

/// How long after its limit of time a run may take to end, and its process after it has closed its output.
const OVERTIME: Duration = Duration::from_secs(120);

/// Plays what is planned; whether every check has passed.
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
    let play = || -> anyhow::Result<()> {
        loop {
            let Some((pass, cell)) = lock(&turns).next() else { return Ok(()) };
            let row = site.play(cell, pass).with_context(|| format!("cell `{}`", cell.name))?;
            lock(&table).add(row)?;
        }
    };
    std::thread::scope(|threads| {
        let start = |job| std::thread::Builder::new().name(format!("soak-{job}")).spawn_scoped(threads, play);
        let jobs = (1..=plan.jobs.get()).map(start).collect::<Result<Vec<_>, _>>()?;
        jobs.into_iter().try_for_each(|job| job.join().unwrap_or_else(|_| anyhow::bail!("the driver panicked")))
    })?;
    Ok(lock(&table).passed())
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

/// Where cells are played, and for how long.
struct Site<'a> {
    out: &'a Path,
    work: &'a Path,
    share: Duration,
    seed: u64,
}

/// One cell while it is played.
struct Watch {
    cell: &'static Cell,
    checker: Checker,
    faults: Faults,
    began: Instant,
    share: Duration,
    /// Its standard error, and the stacks of one that hangs.
    errors: PathBuf,
    stacks: PathBuf,
}

impl Site<'_> {
    fn play(&self, cell: &'static Cell, pass: u64) -> anyhow::Result<Row> {
        let seed = self.seed + pass;
        let folder = self.work.join(format!("{}-{pass}", cell.name));
        fs::create_dir(&folder)?;
        let secs = (cell.fault != Fault::Signals).then_some(self.share.as_secs());
        let scene = Scene { cell: cell.name.to_owned(), folder, tools: self.work.to_owned(), secs, seed };
        let file = |ending: &str| self.out.join(format!("{}-{pass}.{ending}", cell.name));
        let mut watch = Watch {
            cell,
            checker: Checker::new(cell, self.share),
            faults: Faults::new(cell.fault, &scene.folder, seed),
            began: Instant::now(),
            share: self.share,
            errors: file("stderr"),
            stacks: file("stacks"),
        };
        fs::write(&watch.errors, "")?;
        let mut was_killed = false;
        loop {
            watch.checker.restarted(was_killed);
            watch.faults.restarted();
            watch.process(Process::start(cell, &scene, &watch.errors)?)?;
            was_killed = watch.faults.signalled == Some(Signal::KILL);
            // One that signals end goes on in another process until its time is over.
            if cell.fault != Fault::Signals || watch.began.elapsed() >= self.share {
                break;
            }
        }
        fs::remove_dir_all(&scene.folder)?;
        fs::write(file("csv"), watch.checker.csv())?;
        watch.checker.felt(watch.faults.count, self.share);
        Ok(Row::of(cell, pass, watch.began.elapsed(), watch.faults.count, watch.checker))
    }
}

impl Watch {
    /// Watches a process until it has ended.
    fn process(&mut self, mut process: Process) -> anyhow::Result<()> {
        let mut looked = Instant::now();
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
            if (has_begun || self.cell.fault == Fault::Signals) && !self.checker.has_ended() {
                self.faults.act(process.id());
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if let Some(census) = Census::of(process.id()) {
                    self.checker.sample(census);
                }
            }
            let is_late = self.cell.fault != Fault::Signals && self.began.elapsed() > self.share + OVERTIME;
            if self.checker.hangs() || is_late {
                self.hangs(&mut process)?;
                return Ok(());
            }
        }
        let status = self.exit_status(&mut process)?;
        let said = fs::read(&self.errors).unwrap_or_default();
        let last_words = String::from_utf8_lossy(&said[said.len().saturating_sub(600)..]).into_owned();
        self.checker.exit(&Exit { status, signalled: self.faults.signalled, last_words: &last_words });
        Ok(())
    }

    /// Its status: it has closed its output, so it ends at once.
    fn exit_status(&mut self, process: &mut Process) -> anyhow::Result<ExitStatus> {
        let closed = Instant::now();
        loop {
            if let Some(status) = process.status()? {
                return Ok(status);
            }
            if closed.elapsed() > OVERTIME {
                self.hangs(process)?;
                return Ok(ExitStatus::from_raw(Signal::KILL.as_raw()));
            }
            std::thread::park_timeout(LISTEN);
        }
    }

    fn hangs(&mut self, process: &mut Process) -> anyhow::Result<()> {
        let still = self.checker.still_for();
        fs::write(&self.stacks, stacks::of(process.id()))?;
        process.kill();
        let stacks = self.stacks.display().to_string();
        self.checker.fail("hang", || format!("nothing has moved for {still:.0?}, see {stacks}"));
        Ok(())
    }
}
