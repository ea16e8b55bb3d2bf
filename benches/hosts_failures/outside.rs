//! What a case does to the system around its processes: networks, clocks and disks. Most of it needs root.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::Within;

/// How far the clocks of a host are off.
pub(crate) const HOUR_SECS: u64 = 3600;

/// How far ahead a monotonic clock is: a machine that was started four months earlier.
pub(crate) const AHEAD_SECS: u64 = 10_000_000;

/// Runs a command; what it wrote to its standard error if it failed.
fn command(line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let output = command.args(words).stdin(Stdio::null()).output().map_err(|error| format!("`{line}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{line}`: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// What a case can need of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// A compiler for C.
    Compiler,
    /// `prlimit`, to change the limits of a process.
    Limits,
    /// Rights to make time namespaces.
    TimeNamespace,
    /// Rights to mount.
    Mount,
    /// Rights to make network namespaces.
    NetworkNamespace,
}

impl Need {
    /// Why it is not there.
    pub(crate) fn is_missing(self) -> Option<String> {
        let tried = match self {
            Self::Nothing => Ok(()),
            Self::Compiler => command("cc --version"),
            Self::Limits => command("prlimit --version"),
            Self::TimeNamespace => command("unshare --time --monotonic 1000 --fork true"),
            Self::Mount => command("unshare --mount true"),
            Self::NetworkNamespace => Machines::connect().map(drop),
        };
        tried.err()
    }
}

/// Two machines with a cable between them: network namespaces. They are gone when this is dropped.
pub(crate) struct Machines {
    learner: String,
    host: String,
}

impl Machines {
    /// Of the learner's machine.
    pub(crate) const IP: [u8; 4] = [10, 77, 0, 1];

    pub(crate) fn connect() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pronk-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let machines = Self { learner: format!("{name}-l"), host: format!("{name}-h") };
        let Self { learner, host } = &machines;
        for line in [
            format!("ip netns add {learner}"),
            format!("ip netns add {host}"),
            format!("ip -n {learner} link add cable type veth peer name cable netns {host}"),
            format!("ip -n {learner} addr add 10.77.0.1/24 dev cable"),
            format!("ip -n {host} addr add 10.77.0.2/24 dev cable"),
            format!("ip -n {learner} link set cable up"),
            format!("ip -n {host} link set cable up"),
            format!("ip -n {learner} link set lo up"),
            format!("ip -n {host} link set lo up"),
        ] {
            command(&line)?;
        }
        Ok(machines)
    }

    pub(crate) fn at_learner(&self) -> Within {
        Within::command(["ip", "netns", "exec", &self.learner])
    }

    pub(crate) fn at_host(&self) -> Within {
        Within::command(["ip", "netns", "exec", &self.host])
    }

    /// Pulls the cable of the host's machine out, or puts it in.
    pub(crate) fn plug(&self, is_in: bool) -> Result<(), String> {
        command(&format!("ip -n {} link set cable {}", self.host, if is_in { "up" } else { "down" }))
    }

    /// Slows both directions down to `rate`, such as `10mbit`, with room for `burst`.
    pub(crate) fn slow_down(&self, rate: &str, burst: &str) -> Result<(), String> {
        [&self.learner, &self.host].into_iter().try_for_each(|machine| {
            command(&format!("tc -n {machine} qdisc add dev cable root tbf rate {rate} burst {burst} latency 400ms"))
        })
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in [&self.host, &self.learner] {
            // It was perhaps never made.
            let _ = command(&format!("ip netns del {name}"));
        }
    }
}

/// A library that moves the wall clock of a process by `PRONK_WALL_SECS`, and back to where it was and again
/// every two seconds.
const WALL_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long moved(void) {
    const char *secs = getenv("PRONK_WALL_SECS");
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    static long first;
    if (!first) first = now.tv_sec;
    return (now.tv_sec - first) / 2 % 2 || !secs ? 0 : atol(secs);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += moved();
    return failed;
}

int gettimeofday(struct timeval *time, void *zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
"#;

/// Starts processes whose wall clock is off by so many seconds now and then.
pub(crate) fn with_a_wrong_wall_clock(folder: &Path, secs: i64) -> Result<Within, String> {
    let (source, library) = (folder.join("wall_clock.c"), folder.join("wall_clock.so"));
    fs::write(&source, WALL_CLOCK).map_err(|error| error.to_string())?;
    command(&format!("cc -O1 -shared -fPIC -o {} {}", library.display(), source.display()))?;
    let variables = [("LD_PRELOAD", library.to_string_lossy().into_owned()), ("PRONK_WALL_SECS", secs.to_string())];
    Ok(Within { variables: variables.map(|(name, value)| (name.to_owned(), value)).into(), ..Within::default() })
}

/// Starts processes whose monotonic clock is far ahead.
pub(crate) fn with_a_late_start() -> Within {
    let ahead = AHEAD_SECS.to_string();
    Within::command(["unshare", "--time", "--monotonic", &ahead, "--boottime", &ahead, "--fork", "--kill-child"])
}

/// A disk for checkpoints that is soon full: mounted where only one process sees it.
pub(crate) struct SmallDisk {
    folder: PathBuf,
    filler: Option<PathBuf>,
}

impl SmallDisk {
    pub(crate) fn at(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        Self { folder: folder.to_owned(), filler: None }
    }

    /// Starts the process that sees it.
    pub(crate) fn within(&self) -> Within {
        let mount = "mount -t tmpfs -o size=4m none \"$0\" && exec \"$@\"";
        Within::command(["unshare", "--mount", "sh", "-c", mount, &self.folder.to_string_lossy()])
    }

    /// Fills it up, from outside of the process that sees it.
    pub(crate) fn fill(&mut self, process: u32) -> Result<(), String> {
        let seen_there = self.folder.strip_prefix("/").unwrap_or(&self.folder);
        let path = Path::new("/proc").join(process.to_string()).join("root").join(seen_there).join("filler");
        let mut file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        self.filler = Some(path);
        for piece in [vec![0; 1 << 16], vec![0; 1]] {
            while file.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    /// Makes room again.
    pub(crate) fn clear(&mut self) -> Result<(), String> {
        self.filler.take().map_or(Ok(()), |path| fs::remove_file(path).map_err(|error| error.to_string()))
    }
}

/// Starts processes that get an error where a file grows beyond their limit, and no signal.
pub(crate) fn without_the_signal_of_limits() -> Within {
    Within::command(["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
}

/// Sets the size that files of a process may have; `unlimited` for any.
pub(crate) fn limit_files(process: u32, bytes: &str) -> Result<(), String> {
    command(&format!("prlimit --pid {process} --fsize={bytes}:"))
}
