//! The account of a host's steps in the ledger of the run.

use std::collections::{BTreeMap, BTreeSet};

use pronk_metrics::{StepLedger, StepTicket, Steps};

use crate::sync::{Arc, Mutex, PoisonError};
use crate::wire::Statement;

/// More steps than one session can have made.
const MOST: u64 = 1 << 50;

/// Most reasons and causes that a host may name, and the longest name.
const MAX_NAMES: usize = 32;
const MAX_NAME: usize = 64;

/// Most of them in the ledger of a run, of all hosts together.
const MAX_OF_ALL: usize = 64;

/// Where more than these are booked.
const OTHER: &str = "other";

/// The reasons and causes that hosts of a run have named: those that come and go and invent some do not add
/// to the ledger for ever.
#[derive(Clone, Debug, Default)]
pub(super) struct Causes(Arc<Mutex<BTreeSet<String>>>);

impl Causes {
    /// The name under which `name` is booked.
    fn booked<'a>(&self, name: &'a str) -> &'a str {
        // A set is whole after each call.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_OF_ALL && !known.contains(name) {
            return OTHER;
        }
        known.insert(name.to_owned());
        name
    }
}

/// What a host has stated, booked in the run's ledger: what has not arrived is on the way.
#[derive(Debug)]
pub(super) struct Account {
    ledger: StepLedger,
    sampled: Steps,
    dropped: BTreeMap<String, Steps>,
    lost: BTreeMap<String, Steps>,
    on_the_way: StepTicket,
    /// Most env-steps and agent-steps that can be on the way.
    bound: Steps,
    causes: Causes,
}

impl Account {
    /// The account of a host that has done nothing yet.
    pub(super) fn new(ledger: StepLedger, bound: Steps, causes: Causes) -> Self {
        let on_the_way = ledger.sampled(Steps::default());
        let (sampled, dropped, lost) = Default::default();
        Self { ledger, sampled, dropped, lost, on_the_way, bound, causes }
    }

    /// Books what is new in a statement. Statements are cumulative and may come in any order: what is less
    /// than stated before is old.
    ///
    /// # Errors
    /// What no host can have done; nothing is booked then.
    pub(super) fn state(&mut self, statement: &Statement) -> Result<(), String> {
        let made = news(self.sampled, statement.sampled);
        let dropped = by_name(&self.dropped, &statement.dropped)?;
        let lost = by_name(&self.lost, &statement.lost)?;
        let gone = |steps: &BTreeMap<&str, Steps>, of: fn(&Steps) -> u64| steps.values().map(of).sum::<u64>();
        for (what, of, bound) in [
            ("env-steps", (|steps| steps.env) as fn(&Steps) -> u64, self.bound.env),
            ("agent-steps", |steps| steps.agent, self.bound.agent),
        ] {
            let total = of(&statement.sampled);
            if total > MOST {
                return Err(format!("it states {total} {what}, more than any host can make"));
            }
            let there = of(&self.on_the_way.steps()) + of(&made);
            let ended = gone(&dropped, of) + gone(&lost, of);
            let left = there.checked_sub(ended).ok_or_else(|| {
                format!("it states {ended} {what} dropped or lost where only {there} were on the way")
            })?;
            if left > bound {
                return Err(format!("it states {left} {what} on the way, where its workers can have {bound}"));
            }
        }
        self.sampled += made;
        self.on_the_way.join(self.ledger.sampled(made));
        for (name, steps) in dropped {
            self.on_the_way.split_off(steps).dropped(self.causes.booked(name));
            *self.dropped.entry(name.to_owned()).or_default() += steps;
        }
        for (name, steps) in lost {
            self.on_the_way.split_off(steps).lost(self.causes.booked(name));
            *self.lost.entry(name.to_owned()).or_default() += steps;
        }
        Ok(())
    }

    /// The ticket of a fragment that has arrived.
    ///
    /// # Errors
    /// More steps than are on the way.
    pub(super) fn arrives(&mut self, steps: Steps) -> Result<StepTicket, String> {
        let there = self.on_the_way.steps();
        if steps.env > there.env || steps.agent > there.agent {
            let (got, there) = (steps.env, there.env);
            return Err(format!("a fragment of {got} env-steps arrived where {there} were on the way"));
        }
        Ok(self.on_the_way.split_off(steps))
    }

    /// Ends the account: what has not arrived is lost.
    pub(super) fn close(self, cause: &'static str) {
        self.on_the_way.lost(cause);
    }

    /// What was lost on the host.
    pub(super) fn lost(&self) -> Steps {
        self.lost.values().copied().sum()
    }
}

/// What is new since `before`.
fn news(before: Steps, now: Steps) -> Steps {
    Steps { env: now.env.saturating_sub(before.env), agent: now.agent.saturating_sub(before.agent) }
}

fn by_name<'a>(
    before: &BTreeMap<String, Steps>,
    now: &'a [(String, Steps)],
) -> Result<BTreeMap<&'a str, Steps>, String> {
    let mut all = BTreeMap::new();
    for (name, steps) in now {
        if name.is_empty() || name.len() > MAX_NAME || steps.env > MOST || steps.agent > MOST {
            return Err("it states a cause without a name, or more steps than any host can make".to_owned());
        }
        if all.insert(name.as_str(), news(before.get(name).copied().unwrap_or_default(), *steps)).is_some() {
            return Err(format!("it states `{name}` twice"));
        }
    }
    let unknown = all.keys().filter(|name| !before.contains_key(**name)).count();
    if before.len() + unknown > MAX_NAMES {
        return Err(format!("it states more than {MAX_NAMES} causes"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(env: u64) -> Steps {
        Steps { env, agent: 2 * env }
    }

    fn statement(sampled: u64, dropped: u64, lost: u64) -> Statement {
        let named = |name: &str, n| if n == 0 { vec![] } else { vec![(name.to_owned(), steps(n))] };
        Statement { sampled: steps(sampled), dropped: named("shutdown", dropped), lost: named("env_error", lost) }
    }

    #[test]
    fn what_is_stated_is_booked_once_in_any_order_and_the_rest_is_lost() {
        let ledger = StepLedger::new();
        let mut account = Account::new(ledger.clone(), steps(100), Causes::default());
        account.state(&statement(30, 0, 5)).unwrap();
        account.state(&statement(20, 0, 0)).unwrap();
        account.state(&statement(30, 0, 5)).unwrap();
        account.arrives(steps(10)).unwrap().trained();
        account.state(&statement(40, 2, 5)).unwrap();
        assert_eq!((ledger.snapshot().sampled, ledger.snapshot().in_flight), (steps(40), steps(23)));
        account.close("host_lost");
        let totals = ledger.snapshot();
        assert_eq!((totals.lost["host_lost"], totals.lost["env_error"]), (steps(23), steps(5)));
        assert_eq!((totals.dropped["shutdown"], totals.in_flight), (steps(2), steps(0)));
        assert!(totals.is_closed());
    }

    #[test]
    fn names_that_hosts_invent_fill_the_ledger_to_a_bound_only() {
        let (ledger, causes) = (StepLedger::new(), Causes::default());
        for stay in 0..10 {
            let mut account = Account::new(ledger.clone(), steps(100), causes.clone());
            let named = |i| (format!("{stay}-{i}"), steps(1));
            let stated = Statement { sampled: steps(20), dropped: vec![], lost: (0..20).map(named).collect() };
            account.state(&stated).unwrap();
            account.close("host_lost");
        }
        let totals = ledger.snapshot();
        assert_eq!((totals.lost.len(), totals.lost[OTHER]), (MAX_OF_ALL + 1, steps(200 - MAX_OF_ALL as u64)));
        assert!(totals.is_closed());
    }

    #[test]
    fn what_no_host_can_have_done_is_refused_and_not_booked() {
        let ledger = StepLedger::new();
        let mut account = Account::new(ledger.clone(), steps(100), Causes::default());
        account.state(&statement(50, 0, 0)).unwrap();
        let before = ledger.snapshot();
        let many = Statement {
            lost: (0..40).map(|i| (format!("cause {i}"), Steps::default())).collect(),
            ..statement(50, 0, 0)
        };
        let long = Statement { lost: vec![("x".repeat(65), steps(1))], ..statement(50, 0, 0) };
        let twice = Statement { lost: vec![("x".into(), steps(1)), ("x".into(), steps(1))], ..statement(50, 0, 0) };
        for wrong in [statement(151, 0, 0), statement(50, 30, 21), statement(u64::MAX / 2, 0, 0), many, long, twice] {
            assert!(account.state(&wrong).is_err(), "{wrong:?}");
            assert_eq!(ledger.snapshot(), before);
        }
        assert!(account.arrives(steps(51)).is_err());
        assert!(account.arrives(Steps { env: 1, agent: 101 }).is_err());
        assert_eq!(ledger.snapshot(), before);
        account.close("host_lost");
    }
}
