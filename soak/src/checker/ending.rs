//! How a run ended, and what it left.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{Checker, steps_add_up, time_adds_up};
use crate::cells::{End, Fault};
use crate::census::Census;
use crate::run::unix_secs;

/// How the process of a cell ended.
pub(crate) struct Exit<'a> {
    pub(crate) status: ExitStatus,
    /// The signal that it was sent, if any.
    pub(crate) signalled: Option<Signal>,
    /// The end of its standard error.
    pub(crate) stderr: &'a str,
}

/// Lists of the outcome that are empty unless a cell may have them. `not_joined` is none of them: a thread
/// that misses its deadline on a busy machine ends a little later, or else is left behind.
const LISTS: [&str; 4] = ["abandoned", "gave_up", "reporter_failures", "checkpoint_failures"];

/// A share of a cell that is long enough for results, and one that is long enough for its fault.
const LONG_ENOUGH: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(20));

impl Checker {
    /// The process has ended.
    pub(crate) fn exit(&mut self, exit: &Exit<'_>) {
        let ended = self.ended.take();
        match (self.cell.end, exit.signalled) {
            (End::Fails(words), _) => {
                let failure = ended.as_ref().and_then(|ended| ended["failure"].as_str()).unwrap_or(exit.stderr);
                if exit.status.success() || !words.iter().any(|word| failure.contains(word)) {
                    self.fail("end", || format!("{}, not with one of {words:?}: {failure}", exit.status));
                }
                return;
            }
            (End::Well, Some(Signal::KILL)) => return,
            (End::Well, signalled) => self.status(exit, signalled, ended.as_ref()),
        }
        let Some(ended) = ended else {
            // A signal before the handler is there ends any process.
            if exit.signalled.is_none() || self.clocks.is_some() {
                self.fail("end", || format!("the run has no outcome; {}: {}", exit.status, exit.stderr));
            }
            return;
        };
        self.outcome(&ended, exit.signalled);
        self.left_behind(&ended);
        self.ended = Some(ended);
    }

    fn status(&mut self, exit: &Exit<'_>, signalled: Option<Signal>, ended: Option<&Value>) {
        use std::os::unix::process::ExitStatusExt;
        let expected = match signalled {
            Some(Signal::INT) => 130,
            Some(Signal::TERM) => 143,
            // Whether a cell's logs may lack results is a question of its lists.
            _ => ended.is_some_and(|ended| ended["log_failure"].is_string()).into(),
        };
        let was_too_early = signalled.is_some_and(|signal| exit.status.signal() == Some(signal.as_raw()));
        if exit.status.code() != Some(expected) && !(was_too_early && self.clocks.is_none()) {
            self.fail("status", || format!("{}, not {expected}: {}", exit.status, exit.stderr));
        }
    }

    fn outcome(&mut self, ended: &Value, signalled: Option<Signal>) {
        if let Some(failure) = ended["failure"].as_str() {
            self.fail("failure", || failure.to_owned());
        }
        let reason = match signalled {
            Some(Signal::INT) => "interrupted",
            Some(Signal::TERM) => "terminated",
            _ => "time",
        };
        if ended["reason"] != reason {
            self.fail("reason", || format!("the run ended by {}, not {reason}", ended["reason"]));
        }
        if let Err(why) = steps_add_up(&ended["steps"], None).and(time_adds_up(&ended["time"])) {
            self.fail("last ledger", || why);
        }
        let in_flight = &ended["steps"]["in_flight"];
        if in_flight["env"] != 0 || in_flight["agent"] != 0 {
            self.fail("last ledger", || format!("in flight: {in_flight}"));
        }
        if self.cell.is_exact && ended["steps_made"] != ended["steps"]["sampled"]["env"] {
            let (made, sampled) = (&ended["steps_made"], &ended["steps"]["sampled"]["env"]);
            self.fail("steps made", || format!("environments made {made} steps and the ledger has {sampled}"));
        }
        for list in LISTS {
            let is_empty = ended[list].as_array().is_some_and(Vec::is_empty);
            if !is_empty && !self.cell.may.contains(&list) {
                self.fail(list, || ended[list].to_string());
            }
        }
        // A disk may have been full whenever one was due.
        let has_failed = ended["checkpoint_failures"].as_array().is_some_and(|failures| !failures.is_empty());
        let is_one_expected = !has_failed || self.last().get("checkpoint.saved").is_some_and(|saved| *saved > 0.0);
        if let Some(error) = ended["checkpoint"]["Err"].as_str().filter(|_| is_one_expected) {
            self.fail("last checkpoint", || error.to_owned());
        }
    }

    /// All that the process had not before the run is gone.
    fn left_behind(&mut self, ended: &Value) {
        let census = |of: &str| serde_json::from_value::<Census>(ended[of].clone());
        let (before, after) = match (census("before"), census("after")) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(error), _) | (_, Err(error)) => return self.fail("left behind", || format!("no census: {error}")),
        };
        for (what, before, after) in [
            ("threads", before.threads, after.threads),
            ("descriptors", before.descriptors, after.descriptors),
            ("shared memory", before.shared, after.shared),
            ("children", before.children, after.children),
        ] {
            if after > before {
                let late = &ended["not_joined"];
                let what = || format!("{what}: {before} before the run, {after} after it; not joined: {late}");
                self.fail("left behind", what);
            }
        }
    }

    /// Whether there were results, and what shows that the fault was felt; a run of seconds may be spared.
    pub(crate) fn felt(&mut self, faults: u64) {
        if matches!(self.cell.end, End::Fails(_)) {
            return;
        }
        if self.results == 0 && self.share >= LONG_ENOUGH.0 {
            self.fail("no results", || "the run printed none".to_owned());
        }
        if self.share < LONG_ENOUGH.1 {
            return;
        }
        if faults == 0 && !matches!(self.cell.fault, Fault::Inside | Fault::Memory { .. }) {
            self.fail("no fault", || "nothing was done to the process".to_owned());
        }
        let clock = self.ended.as_ref().and_then(|ended| ended["unix_secs"].as_u64());
        if self.cell.fault == Fault::Clock && clock.is_none_or(|secs| secs.abs_diff(unix_secs()) < 1800) {
            self.fail("no fault", || format!("the wall clock of the process was {clock:?}, as the driver's"));
        }
        let Some(figure) = self.cell.shows else { return };
        let is_felt = match figure.strip_prefix("ended.") {
            Some(list) => {
                let listed = self.ended.as_ref().and_then(|ended| ended[list].as_array());
                listed.is_some_and(|listed| !listed.is_empty())
            }
            None => self.last().get(figure).is_some_and(|figure| *figure > 0.0),
        };
        if !is_felt {
            self.fail("no fault", || format!("{figure} does not show that the fault was felt"));
        }
    }
}
