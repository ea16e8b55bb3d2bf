//! [`Processes`]: the processes of a sweep, and the signals that end it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Write as _, pipe};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use pronk::signals::{CtrlC, on_signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The argument of `pronk train` that ends it with its standard input.
pub(super) const END_WITH_STDIN: &str = "--end-with-stdin";

/// The processes that run, each under an id of the caller, and the signals to this one.
pub(super) struct Processes {
    program: PathBuf,
    running: Vec<Process>,
    /// Gets a byte, the exit status, with the first signal.
    signals: PipeReader,
    has_signal: bool,
    _listening: CtrlC,
}

struct Process {
    id: usize,
    /// Readable once it has ended.
    end: OwnedFd,
    started: By,
}

/// What has started a process.
enum By {
    /// This sweep.
    This(Child),
    /// An earlier sweep. It has seen that sweep end, and so ends too; a signal would end it before it has
    /// saved its run.
    Earlier,
    /// A user.
    Hand,
}

/// What a wait ends with.
#[derive(Debug)]
pub(super) enum Event {
    /// A process has ended, with its status if this one has started it.
    Ended { id: usize, status: Option<ExitStatus> },
    /// A signal, with the exit status that goes with it.
    Signal(u8),
    /// None of these within the time.
    Nothing,
}

impl Processes {
    /// None yet. From here on, the first signal is an [`Event`], and a second one ends the process.
    ///
    /// # Errors
    /// The program or its signals cannot be had from the system.
    pub(super) fn new() -> io::Result<Self> {
        let (signals, mut writer) = pipe()?;
        let listening = on_signal(move |reason| {
            // The reader lives as long as the process waits.
            let _ = writer.write_all(&[reason.signal_status().unwrap_or(1)]);
        })?;
        let program = std::env::current_exe()?;
        Ok(Self { program, running: Vec::new(), signals, has_signal: false, _listening: listening })
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Starts `pronk train` with these arguments, and returns its number. It ends with this process, because
    /// of the pipe between them, and no signal of the terminal reaches it.
    ///
    /// # Errors
    /// The system refused.
    pub(super) fn start(&mut self, id: usize, args: Vec<OsString>, output: File) -> io::Result<u32> {
        let mut command = Command::new(&self.program);
        command.args(["train", "--quiet", END_WITH_STDIN]).args(args);
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let mut child = command.spawn()?;
        let process = child.id();
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(end) => self.running.push(Process { id, end, started: By::This(child) }),
            Err(error) => {
                // Nothing else would wait for it.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.into());
            }
        }
        Ok(process)
    }

    /// Adds a process that this sweep has not started, but an earlier one or a user; whether it still
    /// runs.
    ///
    /// # Errors
    /// The system refused.
    pub(super) fn adopt(&mut self, id: usize, process: u64, is_earlier: bool) -> io::Result<bool> {
        let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Ok(false) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(end) => {
                let started = if is_earlier { By::Earlier } else { By::Hand };
                self.running.push(Process { id, end, started });
            }
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Asks each to end, which it does once it has saved its run.
    pub(super) fn terminate(&mut self) {
        for Process { end, started, .. } in &mut self.running {
            match started {
                By::This(child) => drop(child.stdin.take()),
                By::Earlier => {}
                // It fails only for one that has ended.
                By::Hand => drop(pidfd_send_signal(end, Signal::TERM)),
            }
        }
    }

    /// Waits until a process ends, or for the first signal, no longer than `limit`.
    ///
    /// *Blocks* without limit if that is `None`.
    ///
    /// # Errors
    /// The system refused.
    pub(super) fn wait(&mut self, limit: Option<Timespec>) -> io::Result<Event> {
        loop {
            let mut ends: Vec<PollFd<'_>> =
                self.running.iter().map(|process| PollFd::new(&process.end, PollFlags::IN)).collect();
            if !self.has_signal {
                ends.push(PollFd::new(&self.signals, PollFlags::IN));
            }
            match poll(&mut ends, limit.as_ref()) {
                Ok(0) => return Ok(Event::Nothing),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            match ends.iter().position(|end| !end.revents().is_empty()) {
                None => {}
                Some(at) if at < self.running.len() => {
                    let Process { id, started, .. } = self.running.remove(at);
                    let status = if let By::This(mut child) = started { Some(child.wait()?) } else { None };
                    return Ok(Event::Ended { id, status });
                }
                Some(_) => {
                    let mut status = [1];
                    io::Read::read_exact(&mut self.signals, &mut status)?;
                    self.has_signal = true;
                    return Ok(Event::Signal(status[0]));
                }
            }
        }
    }
}
