//! One repetition of a case: its processes, what it waits for, and what must hold at its end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use pronk::Rng;
use serde_json::Value;

use crate::children::{HOST_CHILD, HostArgs, LEARNER_CHILD, LearnerArgs, ON_THE_WAY};
use crate::gate::Gate;
use crate::pause;
use crate::process::{DEADLINE, Process, Within};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Quic,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

/// What a repetition has shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// Seconds until fragments of the host were booked again.
    pub(crate) recover_secs: f64,
    pub(crate) duplicates: u64,
    /// Env-steps by cause.
    pub(crate) lost: BTreeMap<String, u64>,
    /// Further counts.
    pub(crate) notes: BTreeMap<&'static str, u64>,
}

/// What a case needs around it.
pub(crate) struct Scene {
    pub(crate) protocol: Protocol,
    pub(crate) rng: Rng,
    /// Of this repetition, for logs and checkpoints.
    pub(crate) folder: PathBuf,
    certificates: PathBuf,
    /// Numbers of an observation that say nothing.
    pub(crate) width: usize,
    /// How the next processes are started.
    pub(crate) within: Within,
    /// The address of the learner's machine.
    pub(crate) ip: [u8; 4],
    next_process: u32,
    pub(crate) shown: Shown,
}

/// Ports below those that systems give away, each used once, so that a learner gets its port back.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 50) as u16 * 200;
    first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000
}

impl Scene {
    pub(crate) fn new(protocol: Protocol, seed: u64, folder: &Path, certificates: &Path) -> Self {
        Self {
            protocol,
            rng: Rng::seed_from(seed),
            folder: folder.to_owned(),
            certificates: certificates.to_owned(),
            width: 0,
            within: Within::default(),
            ip: [127, 0, 0, 1],
            next_process: 1,
            shown: Shown::default(),
        }
    }

    /// A time between these seconds.
    pub(crate) fn secs(&mut self, from: f64, to: f64) -> Duration {
        Duration::from_secs_f64(from + (to - from) * self.rng.next_f64())
    }

    pub(crate) fn free_address(&self) -> SocketAddr {
        SocketAddr::from((self.ip, port()))
    }

    fn endpoint(&self, address: SocketAddr) -> String {
        format!("{}/{address}", self.protocol.name())
    }

    fn certificates(&self) -> Option<PathBuf> {
        (self.protocol == Protocol::Quic).then(|| self.certificates.clone())
    }

    /// The settings of a learner that neither saves nor resumes.
    pub(crate) fn learner_args(&self) -> LearnerArgs {
        LearnerArgs {
            address: self.endpoint(self.free_address()),
            certificates: self.certificates(),
            width: self.width,
            checkpoints: None,
            log: None,
            until_signal: false,
        }
    }

    pub(crate) fn learner(&mut self) -> Result<Learner, String> {
        self.start_learner(self.learner_args())
    }

    pub(crate) fn start_learner(&mut self, args: LearnerArgs) -> Result<Learner, String> {
        let name = format!("learner-{}", self.next_process);
        self.next_process += 1;
        let process = Process::start(LEARNER_CHILD, name, &args, &self.within, &self.folder);
        process.until_it_says("address")?;
        let (_, address) = args.address.split_once('/').unwrap();
        Ok(Learner {
            process,
            address: address.parse().unwrap(),
            latest: Value::Null,
            duplicates: 0,
            counts: 0,
            trained: Vec::new(),
        })
    }

    /// A host that reaches the learner at `address`.
    pub(crate) fn host(&mut self, name: &str, address: SocketAddr) -> Host {
        let number = self.next_process;
        self.next_process += 1;
        let args = HostArgs {
            address: self.endpoint(address),
            certificates: self.certificates(),
            width: self.width,
            name: name.to_owned(),
            process: number,
        };
        let process = Process::start(HOST_CHILD, format!("host-{name}-{number}"), &args, &self.within, &self.folder);
        Host { process, number }
    }

    /// A gate before the learner.
    pub(crate) fn gate(&mut self, learner: &Learner) -> (Gate, SocketAddr) {
        let at = self.free_address();
        (self.gate_at(at, learner), at)
    }

    pub(crate) fn gate_at(&mut self, at: SocketAddr, learner: &Learner) -> Gate {
        Gate::open(at, learner.address, self.protocol == Protocol::Quic, self.rng.next_u64())
    }

    /// Notes how long it takes from now until fragments of the host are booked.
    pub(crate) fn recovers(&mut self, learner: &mut Learner, host: &Host) -> Result<(), String> {
        self.recovers_since(Instant::now(), learner, host)
    }

    pub(crate) fn recovers_since(&mut self, since: Instant, learner: &mut Learner, host: &Host) -> Result<(), String> {
        learner.catch_up();
        let when = learner.sees_more_of(host, 1)?;
        self.shown.recover_secs = when.saturating_duration_since(since).as_secs_f64();
        Ok(())
    }

    /// Drains the run, and checks that its books are right. `causes` is what steps may be lost to.
    pub(crate) fn ends(&mut self, mut learner: Learner, hosts: Vec<Host>, causes: &[&str]) -> Result<(), String> {
        learner.drains_after(200)?;
        self.has_ended(learner, hosts, causes)
    }

    /// The same for a run that drains already.
    pub(crate) fn has_ended(&mut self, mut learner: Learner, hosts: Vec<Host>, causes: &[&str]) -> Result<(), String> {
        let end = learner.end()?;
        self.closes(&learner, &end, 0, causes)?;
        let mut arrived = 0;
        for mut host in hosts {
            let status = host.process.ends_within(DEADLINE)?;
            let outcome = host.process.until_it_says("outcome");
            let outcome = outcome.map_err(|error| format!("{error}: {status}"))?;
            if !status.success() || outcome["closed"] != true {
                return Err(format!("{} ends with {status}: {outcome}", host.process.name));
            }
            arrived += number(&outcome["env_steps"]);
        }
        // A host does not know of a fragment whose acknowledgement was lost.
        let ended = number(&end["steps"]["trained_once"]) + sum(&end["steps"]["dropped"]);
        if arrived > ended {
            return Err(format!("hosts say that {arrived} env-steps arrived, the learner has {ended}"));
        }
        Ok(())
    }

    /// Checks the last line of a learner, of a run that had `trained_before` trained when it began.
    pub(crate) fn closes(
        &mut self,
        learner: &Learner,
        end: &Value,
        trained_before: u64,
        causes: &[&str],
    ) -> Result<(), String> {
        let steps = &end["steps"];
        if end["closed"] != true || number(&end["open_results"]) > 0 || number(&steps["in_flight"]) > 0 {
            return Err(format!("the ledger is open: {end}"));
        }
        if !end["wrong"].is_null() {
            return Err(format!("{}", end["wrong"]));
        }
        if number(&steps["trained_once"]) - trained_before != number(&end["distinct"]) {
            return Err(format!("it trained on other than the {} steps it was given: {end}", end["distinct"]));
        }
        for (cause, lost) in steps["lost"].as_object().into_iter().flatten() {
            *self.shown.lost.entry(cause.clone()).or_default() += number(lost);
            if number(lost) > 0 && !causes.contains(&cause.as_str()) {
                return Err(format!("{lost} steps are lost to {cause}, which nothing explains: {end}"));
            }
            if number(lost) > ON_THE_WAY * learner.joined().max(1) {
                return Err(format!("{lost} steps are lost to {cause}, more than can have been on the way"));
            }
        }
        self.shown.duplicates += learner.duplicates();
        Ok(())
    }
}

/// A host that acts.
pub(crate) struct Host {
    pub(crate) process: Process,
    /// The number of the process, which its observations carry.
    pub(crate) number: u32,
}

/// A learner that listens.
pub(crate) struct Learner {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// The newest result.
    pub(crate) latest: Value,
    /// Duplicates of sessions that have ended, and of those that there are.
    duplicates: u64,
    counts: u64,
    /// Steps that it had trained on, in each result.
    pub(crate) trained: Vec<u64>,
}

impl Learner {
    /// Reads the results that have come.
    pub(crate) fn catch_up(&mut self) {
        while let Some((_, line)) = self.process.said() {
            self.note(line);
        }
    }

    /// Waits for a result that fulfils the condition; the time when it came.
    pub(crate) fn until(&mut self, what: &str, mut is_met: impl FnMut(&Value) -> bool) -> Result<Instant, String> {
        self.until_within(what, DEADLINE, &mut is_met)
    }

    fn until_within(
        &mut self,
        what: &str,
        time: Duration,
        is_met: &mut dyn FnMut(&Value) -> bool,
    ) -> Result<Instant, String> {
        let deadline = Instant::now() + time;
        loop {
            let (when, line) =
                self.process.next(what, deadline).map_err(|error| format!("{error}; last: {}", self.latest))?;
            self.note(line);
            if is_met(&self.latest) {
                return Ok(when);
            }
        }
    }

    /// Waits for so many more steps of a host.
    pub(crate) fn sees_more_of(&mut self, host: &Host, steps: u64) -> Result<Instant, String> {
        self.sees_more_of_within(host, steps, DEADLINE)
    }

    /// Waits for so many more steps of a host, for at most `time`.
    pub(crate) fn sees_more_of_within(&mut self, host: &Host, steps: u64, time: Duration) -> Result<Instant, String> {
        let number_of = host.number.to_string();
        let before = number(&self.latest["seen"][&number_of]);
        let what = format!("{steps} steps of {}", host.process.name);
        self.until_within(&what, time, &mut |line| number(&line["seen"][&number_of]) >= before + steps)
    }

    /// Waits until so many hosts have lost their leases.
    pub(crate) fn loses(&mut self, hosts: u64) -> Result<(), String> {
        self.until("the end of a lease", |line| number(&line["hosts"]["lost"]) >= hosts).map(drop)
    }

    pub(crate) fn joined(&self) -> u64 {
        number(&self.latest["hosts"]["joined"])
    }

    /// Tells it to end so many env-steps after those that it has.
    pub(crate) fn drains_after(&mut self, env_steps: u64) -> Result<(), String> {
        self.process.say(&env_steps.to_string())
    }

    /// Its last line.
    pub(crate) fn end(&mut self) -> Result<Value, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let (_, line) = self.process.next("the end of the run", deadline)?;
            if line["says"] == "end" {
                return Ok(line);
            }
            self.note(line);
        }
    }

    fn note(&mut self, line: Value) {
        if line["says"] != "result" {
            return;
        }
        // They begin anew with each session.
        let hosts = line["hosts"]["by_name"].as_object();
        let counts = hosts.into_iter().flatten().map(|(_, host)| number(&host["duplicates"])).sum();
        if counts < self.counts {
            self.duplicates += self.counts;
        }
        self.counts = counts;
        self.trained.push(number(&line["steps"]["trained_once"]["env"]));
        self.latest = line;
    }

    fn duplicates(&self) -> u64 {
        self.duplicates + self.counts
    }
}

/// Waits, and checks meanwhile that a process lives.
pub(crate) fn stays(process: &mut Process, time: Duration) -> Result<(), String> {
    pause(time);
    if process.has_ended() { Err(format!("{} has ended by itself", process.name)) } else { Ok(()) }
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

pub(crate) fn sum(steps: &Value) -> u64 {
    steps.as_object().into_iter().flatten().map(|(_, steps)| number(steps)).sum()
}
