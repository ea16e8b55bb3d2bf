//! One process: its pipes, its deadlines and its end.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use pronk_metrics::{StateClock, TimeLedger};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::clock::{ChildProcessorTime, ChildState};
use crate::error::ProcessError;
use crate::greeting::excerpt;
use crate::memory::text_file;
use crate::program::Program;
use crate::settings::ChildOutput;

/// Where a child finds what.
const MEMORY: i32 = 3;
const LIFELINE: i32 = 4;
const SCRIPT: i32 = 5;

/// How long a child without environments, or in the middle of an order, may take for its end before it is
/// killed, and any after that before it is left to the system.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// The longest line.
const MAX_LINE: usize = 64 << 20;

/// A process that is told what to do and answers. Dropped, it is ended, with all of its group.
pub(crate) struct Child {
    command: String,
    process: std::process::Child,
    /// Ready to be read once the process has ended, whoever else holds its pipes.
    end: OwnedFd,
    /// `None` once there are no more.
    orders: Option<ChildStdin>,
    answers: ChildStdout,
    output: Output,
    /// When it was told that there are no more orders.
    hung_up: Option<Instant>,
    /// How long it may take for its end from then on.
    close_timeout: Duration,
    /// Where its time goes; `None` once it was killed and waited for.
    clock: Option<StateClock<ChildState>>,
    processor_time: Arc<ChildProcessorTime>,
    /// Nothing is ever written into it; the child's group ends when it is closed.
    _lifeline: OwnedFd,
}

/// Something a child is waited for with.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// What it does meanwhile.
    pub(crate) doing: &'static str,
    pub(crate) since: Instant,
    pub(crate) limit: Duration,
    /// The setting that the limit is.
    pub(crate) setting: &'static str,
}

impl Patience {
    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.since.elapsed())
    }
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq)]
enum For {
    /// That it can be told something.
    Orders,
    /// That it says something, or has closed its end.
    Answers,
    /// That it has ended.
    End,
}

impl Child {
    /// Starts a program that finds `memory` open. Where its time goes is written down in `time`.
    pub(crate) fn start(
        program: &Program,
        memory: OwnedFd,
        output: ChildOutput,
        time: &TimeLedger,
    ) -> Result<Self, ProcessError> {
        let command = program.name();
        let cannot = |what| {
            let command = command.clone();
            move |source: io::Error| ProcessError::System { command, what, source }
        };
        let (theirs, shutdown) =
            pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).map_err(cannot("make a pipe"))?;
        let mut descriptors = vec![
            FdMapping { parent_fd: memory, child_fd: MEMORY },
            FdMapping { parent_fd: theirs, child_fd: LIFELINE },
        ];
        if let Some(script) = program.script {
            let script = text_file(script).map_err(cannot("write down the script"))?;
            descriptors.push(FdMapping { parent_fd: script, child_fd: SCRIPT });
        }
        let mut start = Command::new(&program.command);
        start.args(&program.args).envs(program.vars.iter().map(|(name, value)| (name, value)));
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        start.fd_mappings(descriptors).map_err(io::Error::other).map_err(cannot("arrange the descriptors"))?;
        let mut process = start.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                ProcessError::Start { command: command.clone(), advice: program.advice, source }
            }
            _ => cannot("start a process")(source),
        })?;
        // The three were asked for above.
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(orders), Some(answers), Some(errors)) = pipes else {
            return Err(cannot("open the pipes")(io::Error::other("one is missing")));
        };
        let end = pidfd_open(Pid::from_child(&process), PidfdFlags::empty()).map_err(io::Error::from);
        let end = end.map_err(cannot("watch the end"));
        // A child that does not listen must not hold up who speaks.
        let does_not_block = ioctl_fionbio(&orders, true).map_err(io::Error::from).map_err(cannot("prepare the pipes"));
        let end = end.and_then(|end| does_not_block.map(|()| end)).inspect_err(|_| {
            // It waits for a line that will not come, and ends with its pipe.
            let _ = process.kill();
            let _ = process.wait();
        })?;
        let processor_time = Arc::new(ChildProcessorTime::new(process.id()));
        let clock = time.start_process("env-process", ChildState::Starting, Arc::clone(&processor_time) as _);
        Ok(Self {
            command,
            process,
            end,
            orders: Some(orders),
            answers,
            output: Output { pipe: Some(errors), last: Vec::new(), shown: output },
            hung_up: None,
            close_timeout: GRACE,
            clock: Some(clock),
            processor_time,
            _lifeline: shutdown,
        })
    }

    /// Its environments are made, and may take so long to be closed.
    pub(crate) fn is_ready(&mut self, close_timeout: Duration) {
        self.close_timeout = close_timeout;
        self.enter(ChildState::Waiting);
    }

    fn enter(&mut self, state: ChildState) {
        if let Some(clock) = &mut self.clock {
            clock.enter(state);
        }
    }

    /// Says something: an order, or a line. If the child does not take it in time, it is killed.
    pub(crate) fn say(&mut self, text: &[u8], patience: &Patience) -> Result<(), ProcessError> {
        let mut rest = text;
        while !rest.is_empty() {
            let Some(orders) = &mut self.orders else { return Err(self.over()) };
            match orders.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(For::Orders, patience.left())? {
                        return Err(self.silent(patience));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nobody is there who could read it. Why shows in what it said before, or in how it ended.
                Err(_) => {
                    self.orders = None;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Gives an order of one byte. What the child said unasked before shows here.
    pub(crate) fn order(&mut self, order: u8, patience: &Patience) -> Result<(), ProcessError> {
        if self.clock.is_none() {
            return Err(self.over());
        }
        if self.wait(For::Answers, Duration::ZERO)? {
            let mut unasked = [0; 256];
            return Err(match self.read(&mut unasked)? {
                0 => self.died(),
                n => self.broke(format!("it wrote {} before it was asked for anything", excerpt(&unasked[..n]))),
            });
        }
        self.enter(ChildState::Stepping);
        self.say(&[order], patience)
    }

    /// Waits until there is something to be heard of it. What it is shows when it is asked for.
    pub(crate) fn listen(&self, patience: &Patience) {
        let _ = self.ready(For::Answers, Some(patience.left()));
    }

    /// Its answer of one byte. If none comes in time, the child is killed.
    pub(crate) fn answer(&mut self, patience: &Patience) -> Result<u8, ProcessError> {
        if !self.wait(For::Answers, patience.left())? {
            return Err(self.silent(patience));
        }
        let mut bytes = [0; 256];
        match self.read(&mut bytes)? {
            0 => Err(self.died()),
            1 => {
                self.enter(ChildState::Waiting);
                Ok(bytes[0])
            }
            n => Err(self.broke(format!("it wrote {} where one byte was due", excerpt(&bytes[..n])))),
        }
    }

    /// Its next line, without the line break; nothing may follow it.
    pub(crate) fn line(&mut self, patience: &Patience) -> Result<Vec<u8>, ProcessError> {
        let (mut line, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let left = patience.left();
            if !self.wait(For::Answers, left)? || left.is_zero() {
                return Err(self.silent(patience));
            }
            let n = match self.read(&mut bytes)? {
                0 if line.is_empty() => return Err(self.died()),
                0 => {
                    let text = format!("it wrote {} where a line of JSON was due, and ended", excerpt(&line));
                    return Err(self.broke(text));
                }
                n => n,
            };
            let end = bytes[..n].iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&bytes[..end.unwrap_or(n)]);
            match end {
                Some(end) if end + 1 == n => return Ok(line),
                Some(end) => return Err(self.broke(format!("it wrote {} after its line", excerpt(&bytes[end + 1..n])))),
                None if line.len() > MAX_LINE => {
                    let text = format!("its line is longer than {MAX_LINE} bytes and begins {}", excerpt(&line));
                    return Err(self.broke(text));
                }
                None => {}
            }
        }
    }

    /// Something it said is not of the protocol: kills it.
    pub(crate) fn broke(&mut self, what: String) -> ProcessError {
        self.finish(Duration::ZERO);
        ProcessError::Protocol { command: self.command.clone(), what, output: self.output.text() }
    }

    /// Something the system refused.
    pub(crate) fn cannot(&self, what: &'static str, source: impl Into<io::Error>) -> ProcessError {
        ProcessError::System { command: self.command.clone(), what, source: source.into() }
    }

    /// Lets the child end by itself, without waiting for it.
    pub(crate) fn hang_up(&mut self) {
        self.orders = None;
        self.hung_up.get_or_insert_with(Instant::now);
        // In the middle of an order it may hang, and is not waited for like one that only has to close.
        if self.clock.as_ref().is_some_and(|clock| clock.state() == ChildState::Stepping) {
            self.close_timeout = self.close_timeout.min(GRACE);
        }
        self.enter(ChildState::Closing);
    }

    #[cold]
    fn silent(&mut self, patience: &Patience) -> ProcessError {
        let waited = patience.since.elapsed();
        self.finish(Duration::ZERO);
        let Patience { doing, setting, .. } = *patience;
        ProcessError::Silent { command: self.command.clone(), doing, setting, waited, output: self.output.text() }
    }

    /// It has ended, or closed a pipe: finds out how.
    #[cold]
    fn died(&mut self) -> ProcessError {
        let how = match self.finish(GRACE) {
            Some(status) => how_it_ended(status),
            None => "closed its standard input or output and went on".to_owned(),
        };
        ProcessError::Died { command: self.command.clone(), how, output: self.output.text() }
    }

    #[cold]
    fn over(&self) -> ProcessError {
        ProcessError::Over { command: self.command.clone() }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, ProcessError> {
        loop {
            match self.answers.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.cannot("read from standard output", error)),
                Ok(n) => return Ok(n),
            }
        }
    }

    /// Waits until it can go on, and meanwhile passes on what the child writes to its standard error; `false`
    /// if it takes too long.
    ///
    /// # Errors
    /// The child has ended without what is waited for.
    fn wait(&mut self, what: For, timeout: Duration) -> Result<bool, ProcessError> {
        // A limit too far away to be told as an instant is none.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let ready = self.ready(what, left).map_err(|error| self.cannot("wait for the pipes", error))?;
            if ready.output {
                self.output.read();
            }
            if ready.main {
                return Ok(true);
            }
            // A process that it has started may hold its pipes open.
            if ready.end {
                return Err(self.died());
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// Looks at the pipes until one of them can go on, or for so long; `None` is for ever.
    fn ready(&self, what: For, left: Option<Duration>) -> Result<Ready, Errno> {
        let end = || PollFd::new(&self.end, PollFlags::IN);
        let main = match (what, &self.orders) {
            (For::Orders, Some(orders)) => PollFd::new(orders, PollFlags::OUT),
            (For::Answers, _) => PollFd::new(&self.answers, PollFlags::IN),
            (For::End, _) | (For::Orders, None) => end(),
        };
        let output = self.output.pipe.as_ref().map_or_else(end, |pipe| PollFd::new(pipe, PollFlags::IN));
        let mut fds = [output, main, end()];
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready { output: false, main: false, end: false }),
            Err(error) => return Err(error),
        }
        let [output, main, end] = fds.map(|fd| !fd.revents().is_empty());
        Ok(Ready { output: output && self.output.pipe.is_some(), main, end })
    }

    /// Ends the child: lets it end by itself within `grace` of being told to, and kills what is left of its
    /// group. How it ended, if by itself.
    fn finish(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.clock.as_ref()?;
        self.hang_up();
        let told = self.hung_up.unwrap_or_else(Instant::now);
        let by_itself = matches!(self.wait(For::End, grace.saturating_sub(told.elapsed())), Ok(true));
        // Not reaped before its group is killed: until then no other process can be given its number. Refused
        // only if nobody is left; the child itself may have left its group.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.kill();
        // One that the system cannot end now, in the middle of a driver say, is left to it.
        let _ = self.wait(For::End, GRACE);
        let status = self.processor_time.before(|| self.process.try_wait().ok().flatten());
        // What it wrote last is still in the pipe, unless somebody outside of its group goes on writing.
        for _ in 0..LAST_READS {
            if !matches!(self.ready(For::End, Some(Duration::ZERO)), Ok(Ready { output: true, .. })) {
                break;
            }
            self.output.read();
        }
        self.clock = None;
        status.filter(|_| by_itself)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.finish(self.close_timeout);
    }
}

/// What can go on.
struct Ready {
    output: bool,
    main: bool,
    /// The process has ended.
    end: bool,
}

/// How often what is left in a pipe is read: more than a pipe holds.
const LAST_READS: usize = 32;

/// How much of a child's output is kept for the message about its end.
const KEPT: usize = 8 << 10;

/// What a child writes besides its answers.
struct Output {
    /// `None` once the child has closed it.
    pipe: Option<ChildStderr>,
    /// The end of it.
    last: Vec<u8>,
    shown: ChildOutput,
}

impl Output {
    /// Takes some of what is there.
    fn read(&mut self) {
        let mut bytes = [0; KEPT];
        match self.pipe.as_mut().map(|pipe| pipe.read(&mut bytes)) {
            Some(Ok(0) | Err(_)) => self.pipe = None,
            Some(Ok(n)) => self.take(&bytes[..n]),
            None => {}
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.shown == ChildOutput::Shown {
            // Whoever cannot read it loses only what a stranger printed.
            let _ = io::stderr().write_all(bytes);
        }
        self.last.extend_from_slice(bytes);
        if self.last.len() > 2 * KEPT {
            self.last.drain(..self.last.len() - KEPT);
        }
    }

    fn text(&self) -> String {
        let from = self.last.len().saturating_sub(KEPT);
        String::from_utf8_lossy(&self.last[from..]).into_owned()
    }
}

/// In words.
fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL: by hand, or by the system when memory ran out)",
                11 => " (SIGSEGV: it touched memory that is not its own)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("was killed by signal {signal}{name}")
        }
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => format!("ended: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Unmapped;

    #[test]
    fn what_a_child_says_unasked_is_not_taken_for_an_answer() {
        let program = Program { args: vec!["-c".into(), "printf k; sleep 60".into()], ..Program::new("/bin/sh") };
        let (_, theirs) = Unmapped::create().unwrap();
        let mut child = Child::start(&program, theirs, ChildOutput::Hidden, &TimeLedger::new()).unwrap();
        assert!(child.wait(For::Answers, Duration::from_secs(60)).unwrap());
        let patience = Patience {
            doing: "it waited",
            since: Instant::now(),
            limit: Duration::from_secs(60),
            setting: "step_timeout",
        };
        let text = child.order(b's', &patience).unwrap_err().to_string();
        assert!(text.contains("it wrote \"k\" before it was asked for anything"), "{text}");
        let text = child.order(b's', &patience).unwrap_err().to_string();
        assert!(text.contains("was ended after what it did before: make another"), "{text}");
    }
}
