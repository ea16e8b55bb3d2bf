//! [`Faults`]: what is done to the process of a cell from outside, at random times.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pronk::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::cells::Fault;
use crate::census::{children, is_live_child};

/// The faults of one cell.
pub(crate) struct Faults {
    fault: Fault,
    rng: Rng,
    folder: PathBuf,
    due: Instant,
    /// Children that are stopped, and until when.
    stopped: Vec<(u32, Instant)>,
    is_full: bool,
    pub(crate) count: u64,
    /// The signal that the process was sent, if it ends by one, and when.
    pub(crate) signalled: Option<(Signal, Instant)>,
}

/// The size of a disk that is filled.
pub(crate) const DISK_MIB: usize = 64;

/// Longest pause between two faults, in seconds.
const PAUSE: f64 = 3.0;

/// Longest stop of a child, in seconds: some are longer than a step may take.
const STOP: f64 = 4.0;

/// Steps of the wall clock, in seconds.
const STEPS: [i64; 6] = [-10 * 365 * 86_400, -86_400, -3_600, 3_600, 86_400, 10 * 365 * 86_400];

impl Faults {
    pub(crate) fn new(fault: Fault, folder: &Path, seed: u64) -> Self {
        let mut rng = Rng::stream(seed, &[1]);
        let due = soon(&mut rng);
        let folder = folder.to_owned();
        Self { fault, rng, folder, due, stopped: Vec::new(), is_full: false, count: 0, signalled: None }
    }

    /// Another process runs the cell.
    pub(crate) fn restarted(&mut self) {
        self.signalled = None;
        self.due = soon(&mut self.rng);
    }

    /// Does to the process what is due.
    pub(crate) fn act(&mut self, process: u32) {
        let now = Instant::now();
        let (over, still): (Vec<_>, _) = self.stopped.drain(..).partition(|(_, until)| *until <= now);
        self.stopped = still;
        for (child, _) in over {
            send_to_child(child, process, Signal::CONT);
        }
        if now < self.due {
            return;
        }
        self.due = soon(&mut self.rng);
        let is_done = match self.fault {
            Fault::Inside | Fault::Memory { .. } => false,
            Fault::Children => self.hit_a_child(process),
            Fault::Signals => self.signal(process),
            Fault::FullDisk => self.fill_or_empty(process).is_ok(),
            Fault::Clock => self.step_the_clock().is_ok(),
        };
        self.count += u64::from(is_done);
    }

    fn hit_a_child(&mut self, process: u32) -> bool {
        let mut children = children(process);
        children.retain(|child| self.stopped.iter().all(|(stopped, _)| stopped != child));
        if children.is_empty() {
            return false;
        }
        let child = children[self.rng.below(children.len() as u64) as usize];
        if self.rng.below(2) == 0 {
            return send_to_child(child, process, Signal::KILL);
        }
        self.stopped.push((child, Instant::now() + Duration::from_secs_f64(STOP * self.rng.next_f64())));
        send_to_child(child, process, Signal::STOP)
    }

    /// Once for each process.
    fn signal(&mut self, process: u32) -> bool {
        if self.signalled.is_some() {
            return false;
        }
        let signal = [Signal::INT, Signal::TERM, Signal::KILL][self.rng.below(3) as usize];
        self.signalled = Some((signal, Instant::now()));
        send(process, signal)
    }

    /// The disk is seen through the process, because it has it for itself.
    fn fill_or_empty(&mut self, process: u32) -> std::io::Result<()> {
        let folder = format!("/proc/{process}/root{}", self.folder.display());
        let ballast = Path::new(&folder).join("ballast");
        if std::mem::take(&mut self.is_full) {
            return fs::remove_file(ballast);
        }
        let mut file = File::create(&ballast)?;
        // A bound, should it be the disk of others after all.
        for piece in [1 << 16, 1 << 4] {
            let most = 2 * (DISK_MIB << 20) / piece;
            let pieces = (0..most).take_while(|_| file.write_all(&vec![0; piece]).is_ok()).count();
            if pieces == most {
                return fs::remove_file(ballast);
            }
        }
        self.is_full = true;
        Ok(())
    }

    fn step_the_clock(&mut self) -> std::io::Result<()> {
        let step = STEPS[self.rng.below(STEPS.len() as u64) as usize];
        // In place: the process has mapped the file.
        File::options().write(true).open(self.folder.join("clock"))?.write_all(&step.to_ne_bytes())
    }
}

fn soon(rng: &mut Rng) -> Instant {
    Instant::now() + Duration::from_secs_f64(0.3 + (PAUSE - 0.3) * rng.next_f64())
}

/// Whether the child was there and had not ended; its number may be another process's by now.
fn send_to_child(child: u32, parent: u32, signal: Signal) -> bool {
    is_live_child(child, parent) && send(child, signal)
}

/// Whether the process was there.
fn send(process: u32, signal: Signal) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}
