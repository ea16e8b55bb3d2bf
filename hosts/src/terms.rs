//! The settings of a learner for its hosts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a learner treats its hosts; they get these settings when they join.
///
/// ```
/// use std::time::Duration;
/// use pronk_hosts::Terms;
///
/// let terms = Terms { lease: Duration::from_secs(60), ..Terms::default() };
/// assert!(terms.check().is_ok());
/// assert!(Terms { beat: terms.lease, ..terms }.check().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// How long a host may be silent before its session ends, at most a week. A host that is cut off for less
    /// goes on as if nothing had happened. Default 30 s.
    pub lease: Duration,
    /// How often a host reports. Default 1 s.
    pub beat: Duration,
    /// Most sessions at once. Default 1024.
    pub max_hosts: u32,
    /// Most of them under one name, which are processes with the same certificate. Default 64.
    pub max_of_name: u32,
    /// Most workers of one host. Default 256.
    pub max_workers: u32,
    /// Bytes of weights in one reply. Default 1 MiB; a link that cannot carry one within the lease gets no
    /// weights.
    pub weights_piece: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            beat: Duration::from_secs(1),
            max_hosts: 1024,
            max_of_name: 64,
            max_workers: 256,
            weights_piece: 1 << 20,
        }
    }
}

/// The largest number of hosts that can be allowed.
const MAX_HOSTS: u32 = 1 << 16;

/// The longest lease.
const MAX_LEASE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Settings for hosts that cannot work; the text names the setting and says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hosts: {field} = {value} cannot work: {reason}")]
pub struct TermsError {
    /// The setting.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// Why it cannot work, and what to set instead.
    pub reason: &'static str,
}

impl Terms {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first that cannot work.
    pub fn check(&self) -> Result<(), TermsError> {
        let refuse = |field, value: String, reason| Err(TermsError { field, value, reason });
        let Self { lease, beat, max_hosts, max_of_name, max_workers, weights_piece } = *self;
        if beat.is_zero() {
            return refuse("beat", format!("{beat:?}"), "hosts would report without a pause; set at least 10 ms");
        }
        if beat > lease / 4 {
            let reason = "a host reports once a beat and would lose its lease by a single late report; \
                          set a lease of at least 4 beats";
            return refuse("lease", format!("{lease:?}"), reason);
        }
        if lease > MAX_LEASE {
            return refuse(
                "lease",
                format!("{lease:?}"),
                "a host that is gone would keep its place; set a week at most",
            );
        }
        for (field, most) in [("max_hosts", max_hosts), ("max_of_name", max_of_name), ("max_workers", max_workers)] {
            if most == 0 {
                return refuse(field, "0".to_owned(), "no host could ever join; set at least 1, or do not listen");
            }
        }
        if max_hosts > MAX_HOSTS {
            return refuse("max_hosts", max_hosts.to_string(), "set at most 65536: the learner keeps room for each");
        }
        if !(1 << 10..=1 << 28).contains(&weights_piece) {
            return refuse("weights_piece", weights_piece.to_string(), "set between 1 KiB and 256 MiB");
        }
        Ok(())
    }

    /// Names of hosts that the learner remembers at most, those with a session among them.
    pub(crate) fn max_names(&self) -> u32 {
        self.max_hosts.saturating_mul(2).max(4096)
    }

    /// Shipments that wait for the learner at most, of all hosts together: the credits of all of them.
    pub(crate) fn max_parked(&self) -> u32 {
        self.max_hosts.saturating_mul(4).max(4096)
    }
}
