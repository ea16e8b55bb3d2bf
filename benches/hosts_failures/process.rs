//! Child processes as the bench sees them: started, signalled, listened to, and never left behind.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::{is_interrupted, pause};

/// The longest wait for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// How often a wait looks whether the bench is interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// How a process is started: within which command, and with which variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Within {
    /// A command that starts the rest of its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
}

impl Within {
    pub(crate) fn command<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        Self { command: words.into_iter().map(|word| word.as_ref().to_owned()).collect(), variables: Vec::new() }
    }
}

pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    lines: Receiver<(Instant, Value)>,
}

impl Process {
    /// Starts this program again as `kind` with `args`.
    pub(crate) fn start(kind: &str, name: String, args: &impl Serialize, within: &Within, folder: &Path) -> Self {
        // What it writes to its standard error.
        let log = folder.join(format!("{name}.log"));
        let program = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let mut words = within.command.clone();
        words.extend([program, kind.to_owned(), serde_json::to_string(args).unwrap()]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(within.variables.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(log).unwrap());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let lines = stdout.lines().map_while(Result::ok);
            // A panic message or the like is in the log.
            let lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
            for line in lines {
                if send.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Self { name, child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([format!("-{signal}"), self.id().to_string()]).status();
        assert!(sent.unwrap().success(), "{} cannot be signalled", self.name);
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Writes a line to its standard input.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").map_err(|error| format!("{} does not listen: {error}", self.name))
    }

    /// A line that has come already.
    pub(crate) fn said(&self) -> Option<(Instant, Value)> {
        self.lines.try_recv().ok()
    }

    /// The next line, with the time when it came.
    pub(crate) fn next(&self, what: &str, deadline: Instant) -> Result<(Instant, Value), String> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            return match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(line) => Ok(line),
                Err(_) if is_interrupted() => Err("interrupted".to_owned()),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => continue,
                Err(RecvTimeoutError::Timeout) => Err(format!("{} is too late: {what}", self.name)),
                Err(RecvTimeoutError::Disconnected) => Err(format!("{} has ended before {what}", self.name)),
            };
        }
    }

    /// The first line that says `what`.
    pub(crate) fn until_it_says(&self, what: &str) -> Result<Value, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let (_, line) = self.next(what, deadline)?;
            if line["says"] == what {
                return Ok(line);
            }
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn ends_within(&mut self, time: Duration) -> Result<ExitStatus, String> {
        let deadline = Instant::now() + time;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ok(status);
            }
            if Instant::now() > deadline || is_interrupted() {
                return Err(format!("{} has not ended within {:.0} s", self.name, time.as_secs_f64()));
            }
            pause(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
