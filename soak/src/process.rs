//! [`Process`]: a process of a cell, and the lines that it prints.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Context;

use crate::arguments::Job;
use crate::cells::{Cell, Fault};
use crate::outside::DISK_MIB;

/// A process that runs a cell. Dropping kills it.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts it; what it writes to its standard error goes to `errors`.
    pub(crate) fn start(cell: &Cell, job: &Job, errors: &Path) -> anyhow::Result<Self> {
        let mut command = command(cell, job)?;
        command.arg("run").arg(&job.cell).arg("--folder").arg(&job.folder).arg("--tools").arg(&job.tools);
        command.arg("--seed").arg(job.seed.to_string());
        if let Some(secs) = job.secs {
            command.arg("--secs").arg(secs.to_string());
        }
        let errors = File::options().create(true).append(true).open(errors)?;
        // Those of thousands of panics take most of the time, and much memory.
        command.env("RUST_BACKTRACE", "0");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn()?;
        let output = child.stdout.take().context("the process has no standard output")?;
        Ok(Self { child, lines: read(output)? })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its next line, if there is one within this time.
    pub(crate) fn line(&self, within: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(within)
    }

    pub(crate) fn status(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub(crate) fn kill(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// This program, as the fault of a cell needs it to be started; each wrapper becomes it.
fn command(cell: &Cell, job: &Job) -> anyhow::Result<Command> {
    let program = std::env::current_exe()?;
    let mut command = match cell.fault {
        Fault::FullDisk => {
            let script = format!(r#"mount -t tmpfs -o size={DISK_MIB}m soak "$0" && exec "$@""#);
            let mut command = Command::new("unshare");
            command.args(["--mount", "--map-root-user", "sh", "-c", &script]).arg(&job.folder).arg(program);
            command
        }
        Fault::Memory { kib } => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!(r#"ulimit -d {kib} && exec "$0" "$@""#)]).arg(program);
            // By default mimalloc reserves a gibibyte. Where it may not, it takes each page from the system
            // and keeps more and more of them, 10 MiB a minute.
            command.env("MIMALLOC_ARENA_RESERVE", "32MiB");
            command
        }
        _ => Command::new(program),
    };
    if cell.fault == Fault::Clock {
        let clock = job.folder.join("clock");
        fs::write(&clock, 0_i64.to_ne_bytes())?;
        command.env("LD_PRELOAD", job.tools.join("clock.so")).env("PRONK_SOAK_CLOCK", clock);
    }
    Ok(command)
}

/// Its lines, read by a thread that ends with its output.
fn read(output: ChildStdout) -> std::io::Result<Receiver<String>> {
    let (sender, lines) = sync_channel(64);
    std::thread::Builder::new().name("soak-lines".to_owned()).spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(lines)
}
