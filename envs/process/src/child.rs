//! [`Child`]: a process with its pipes, deadlines and end.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use pronk_metrics::StateClock;
use pronk_rollout::CallMonitor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::clock::{ChildProcessorTime, ChildState};
use crate::error::ProcessError;
use crate::greeting::excerpt;
use crate::memory::text_file;
use crate::output::{Output, how_it_ended};
use crate::program::Program;
use crate::settings::ChildOutput;

/// File descriptors of a child.
const MEMORY: i32 = 3;
const SHUTDOWN: i32 = 4;
const SCRIPT: i32 = 5;

/// The variable that holds the seed for what is random in the construction of environments.
const SEED: &str = "PRONK_SEED";

/// How long a child without environments, or in the middle of an order, may take to end before it is killed,
/// and any child after that before it is left to the system.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// How long a child whose pipes are closed may take to end: nearly always it is ending already, which on a
/// busy machine takes seconds.
const ENDING: Duration = Duration::from_secs(10);

/// How often a wait looks for what else ends it.
const LOOK: Duration = Duration::from_millis(200);

/// The shortest wait that is worth a message.
const LONG: Duration = Duration::from_secs(10);

/// The longest line.
const MAX_LINE: usize = 64 << 20;

/// A process that receives orders and answers them. Dropping it ends its whole process group.
pub(crate) struct Child {
    command: String,
    process: std::process::Child,
    /// A pidfd: readable once the process has ended, even if others hold its pipes.
    end: OwnedFd,
    /// `None` once closed.
    orders: Option<ChildStdin>,
    answers: ChildStdout,
    output: Output,
    /// When `orders` was closed.
    hung_up: Option<Instant>,
    /// How long it may take to end after that.
    close_timeout: Duration,
    /// Its clock in the time ledger; `None` once it was reaped.
    clock: Option<StateClock<ChildState>>,
    processor_time: Arc<ChildProcessorTime>,
    /// Of the worker that it belongs to.
    monitor: CallMonitor,
    /// How long a wait takes before the next message. It doubles, so that a slow child is not always spoken
    /// of.
    speaks_after: Duration,
    /// Never written to: the kernel ends the child's group when it is closed.
    _shutdown: OwnedFd,
}

/// A deadline for a child, and what its error names.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    /// What the child is doing.
    pub(crate) doing: &'static str,
    pub(crate) since: Instant,
    pub(crate) limit: Duration,
    /// The setting that `limit` comes from, and its value, which is for each environment.
    pub(crate) setting: (&'static str, Duration),
}

impl Deadline {
    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.since.elapsed())
    }
}

/// What to wait for.
#[derive(Clone, Copy, PartialEq)]
enum For {
    /// Room in its standard input.
    Orders,
    /// Data, or the end, of its standard output.
    Answers,
    /// The end of the process.
    End,
}

impl Child {
    /// Starts a program with `memory` open, the `seed` of its construction, and a clock in the ledger of
    /// `monitor`.
    pub(crate) fn start(
        program: &Program,
        seed: u64,
        memory: OwnedFd,
        output: ChildOutput,
        monitor: &CallMonitor,
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
            FdMapping { parent_fd: theirs, child_fd: SHUTDOWN },
        ];
        if let Some(script) = program.script {
            let script = text_file(script).map_err(cannot("write the script"))?;
            descriptors.push(FdMapping { parent_fd: script, child_fd: SCRIPT });
        }
        let mut start = Command::new(&program.command);
        start.args(&program.args).env(SEED, seed.to_string());
        start.envs(program.vars.iter().map(|(name, value)| (name, value)));
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        start.fd_mappings(descriptors).map_err(io::Error::other).map_err(cannot("arrange the descriptors"))?;
        let mut process = start.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                ProcessError::Start { command: command.clone(), advice: program.advice, source }
            }
            _ => cannot("start a process")(source),
        })?;
        // All three are piped above.
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(orders), Some(answers), Some(errors)) = pipes else {
            return Err(cannot("open the pipes")(io::Error::other("one is missing")));
        };
        let end = pidfd_open(Pid::from_child(&process), PidfdFlags::empty()).map_err(io::Error::from);
        let end = end.map_err(cannot("open a pidfd"));
        // A child that does not read must not block the writer.
        let does_not_block = ioctl_fionbio(&orders, true).map_err(io::Error::from).map_err(cannot("prepare the pipes"));
        let end = end.and_then(|end| does_not_block.map(|()| end)).inspect_err(|_| {
            // It is not in a `Child` yet, so nothing else would reap it.
            let _ = process.kill();
            let _ = process.wait();
        })?;
        let processor_time = Arc::new(ChildProcessorTime::new(process.id()));
        let clock = monitor.time().start_process("env-process", ChildState::Starting, Arc::clone(&processor_time) as _);
        Ok(Self {
            command,
            process,
            end,
            orders: Some(orders),
            answers,
            output: Output::new(errors, output),
            hung_up: None,
            close_timeout: GRACE,
            clock: Some(clock),
            processor_time,
            monitor: monitor.clone(),
            speaks_after: LONG,
            _shutdown: shutdown,
        })
    }

    /// Records that its environments are made, and how long they may take to close.
    pub(crate) fn is_ready(&mut self, close_timeout: Duration) {
        self.close_timeout = close_timeout;
        self.enter(ChildState::Waiting);
    }

    fn enter(&mut self, state: ChildState) {
        if let Some(clock) = &mut self.clock {
            clock.enter(state);
        }
    }

    /// Writes an order or a line. A child that does not read it in time is killed.
    pub(crate) fn say(&mut self, text: &[u8], deadline: &Deadline) -> Result<(), ProcessError> {
        let mut rest = text;
        while !rest.is_empty() {
            let Some(orders) = &mut self.orders else { return Err(self.over()) };
            match orders.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_until(For::Orders, deadline, &mut || false)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The child has ended; its output or exit status says why.
                Err(_) => {
                    self.orders = None;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes an order of one byte. Unsolicited output before it is an error.
    pub(crate) fn order(&mut self, order: u8, deadline: &Deadline) -> Result<(), ProcessError> {
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
        self.say(&[order], deadline)
    }

    /// Waits a moment for something to read, which the next call handles.
    pub(crate) fn listen(&self, deadline: &Deadline) {
        let _ = self.ready(For::Answers, Some(deadline.left().min(LOOK)));
    }

    /// Reads the answer, one byte. Without one in time the child is killed; where it has `moved` on, such as
    /// to another of its environments, its time begins anew.
    pub(crate) fn answer(
        &mut self,
        deadline: &Deadline,
        has_moved: &mut dyn FnMut() -> bool,
    ) -> Result<u8, ProcessError> {
        self.wait_until(For::Answers, deadline, has_moved)?;
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

    /// Reads a line, without its line break; nothing may follow it.
    pub(crate) fn line(&mut self, deadline: &Deadline) -> Result<Vec<u8>, ProcessError> {
        let (mut line, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            // However much it says, and however slowly. What it has said in time may be read later.
            if !line.is_empty() && deadline.left().is_zero() {
                return Err(self.silent(deadline));
            }
            self.wait_until(For::Answers, deadline, &mut || false)?;
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

    /// Kills a child that broke the protocol.
    pub(crate) fn broke(&mut self, what: String) -> ProcessError {
        self.finish(Duration::ZERO);
        ProcessError::Protocol { command: self.command.clone(), what, output: self.output.text() }
    }

    /// An error of the system.
    pub(crate) fn cannot(&self, what: &'static str, source: impl Into<io::Error>) -> ProcessError {
        ProcessError::System { command: self.command.clone(), what, source: source.into() }
    }

    /// Closes its standard input, which tells it to end. Does not wait.
    pub(crate) fn hang_up(&mut self) {
        self.orders = None;
        self.hung_up.get_or_insert_with(Instant::now);
        // A child in the middle of an order may be hanging, so it gets less time.
        if self.clock.as_ref().is_some_and(|clock| clock.state() == ChildState::Stepping) {
            self.close_timeout = self.close_timeout.min(GRACE);
        }
        self.enter(ChildState::Closing);
    }

    #[cold]
    fn silent(&mut self, deadline: &Deadline) -> ProcessError {
        let waited = deadline.since.elapsed();
        self.finish(Duration::ZERO);
        let Deadline { doing, setting: (setting, value), .. } = *deadline;
        let (command, output, value_secs) = (self.command.clone(), self.output.text(), value.as_secs_f64());
        ProcessError::Silent { command, doing, setting, value_secs, waited, output }
    }

    /// The error of a child that ended or closed a pipe.
    #[cold]
    fn died(&mut self) -> ProcessError {
        let how = match self.finish(ENDING) {
            Some(status) => how_it_ended(status),
            None => "closed its standard input or output and continued".to_owned(),
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

    /// Waits for `what` until the deadline, which begins anew where the child has moved on. Says so if it
    /// takes long.
    ///
    /// # Errors
    /// The child has ended, or is killed: after its time, or when the worker has to give up.
    fn wait_until(
        &mut self,
        what: For,
        deadline: &Deadline,
        has_moved: &mut dyn FnMut() -> bool,
    ) -> Result<(), ProcessError> {
        let mut current = *deadline;
        while !self.wait(what, current.left().min(LOOK))? {
            if has_moved() {
                current.since = Instant::now();
            } else if current.left().is_zero() {
                return Err(self.silent(&current));
            }
            if self.monitor.has_to_give_up() {
                self.finish(Duration::ZERO);
                return Err(ProcessError::GivenUp { command: self.command.clone(), doing: deadline.doing });
            }
            self.monitor.keep_alive();
            let waited = deadline.since.elapsed();
            if waited >= self.speaks_after {
                self.speaks_after = 2 * waited;
                let (process, (setting, value)) = (self.process.id(), deadline.setting);
                tracing::warn!(
                    "process {process} (`{}`): {:.0} s have passed while {}; `env_options.{setting}` is {:.0} s for each \
                     environment",
                    self.command,
                    waited.as_secs_f64(),
                    deadline.doing,
                    value.as_secs_f64()
                );
            }
        }
        Ok(())
    }

    /// Waits for `what` and forwards the child's standard error meanwhile; `false` after `timeout`.
    ///
    /// # Errors
    /// The child has ended without `what`.
    fn wait(&mut self, what: For, timeout: Duration) -> Result<bool, ProcessError> {
        // A timeout too long for an instant is none.
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
            // Checked by pidfd, because a process that it started may hold its pipes open.
            if ready.end {
                return Err(self.died());
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// Polls once for up to `left`; `None` is without limit.
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

    /// Ends the child: gives it `grace` since its standard input was closed, then kills its group. Returns
    /// its status if it was not killed.
    fn finish(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.clock.as_ref()?;
        self.hang_up();
        let told = self.hung_up.unwrap_or_else(Instant::now);
        let by_itself = matches!(self.wait(For::End, grace.saturating_sub(told.elapsed())), Ok(true));
        // Before it is reaped, while no other process can reuse its id. The child may have left its group, so
        // it is killed as well.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.kill();
        // A process stuck in the kernel is abandoned.
        let _ = self.wait(For::End, GRACE);
        let status = self.processor_time.before(|| self.process.try_wait().ok().flatten());
        // Its last output is still in the pipe; bounded, as a process outside its group may keep writing.
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

/// The result of a poll.
struct Ready {
    output: bool,
    main: bool,
    /// The process has ended.
    end: bool,
}

/// Reads that empty a full pipe.
const LAST_READS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Unmapped;

    #[test]
    fn what_a_child_says_unasked_is_not_taken_for_an_answer() {
        let program = Program { args: vec!["-c".into(), "printf k; sleep 60".into()], ..Program::new("/bin/sh") };
        let (_, theirs) = Unmapped::create().unwrap();
        let mut child = Child::start(&program, 0, theirs, ChildOutput::Hidden, &CallMonitor::new()).unwrap();
        assert!(child.wait(For::Answers, Duration::from_secs(60)).unwrap());
        let deadline = Deadline {
            doing: "it waited",
            since: Instant::now(),
            limit: Duration::from_secs(60),
            setting: ("step_timeout", Duration::from_secs(60)),
        };
        let text = child.order(b's', &deadline).unwrap_err().to_string();
        assert!(text.contains("it wrote \"k\" before it was asked for anything"), "{text}");
        let text = child.order(b's', &deadline).unwrap_err().to_string();
        assert!(text.contains("was ended after an earlier failure: make new environments"), "{text}");
    }
}
