//! [`Every`]: how often something happens, by time or by env-steps.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often something happens: by time, or by env-steps sampled.
///
/// As a text: `"60 s"`, `"5 min"`, `"2 h"`, `"500 ms"`; `"1M env-steps"`, `"250k env-steps"`, `"1e6
/// env-steps"`.
///
/// ```
/// use std::time::Duration;
///
/// use pronk::Every;
///
/// assert_eq!("60 s".parse(), Ok(Every::Time(Duration::from_secs(60))));
/// assert_eq!("1M env-steps".parse(), Ok(Every::EnvSteps(1_000_000)));
/// assert_eq!(Every::EnvSteps(250_000).to_string(), "250000 env-steps");
/// assert!("1 fortnight".parse::<Every>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Every {
    /// Once so much time has passed.
    Time(Duration),
    /// Once so many env-steps have been sampled.
    EnvSteps(u64),
}

/// A text that is no [`Every`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is neither a time nor a number of env-steps: write for example \"60 s\" or \"1M env-steps\"")]
pub struct EveryError {
    /// The text.
    pub text: String,
}

impl From<Duration> for Every {
    fn from(time: Duration) -> Self {
        Self::Time(time)
    }
}

impl FromStr for Every {
    type Err = EveryError;

    fn from_str(text: &str) -> Result<Self, EveryError> {
        parse(text.trim()).ok_or_else(|| EveryError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Every> {
    if let Some(count) = text.strip_suffix("env-steps") {
        let count = count.trim();
        let (number, factor) = match count.strip_suffix(['k', 'M', 'G']) {
            Some(number) if count.ends_with('k') => (number, 1e3),
            Some(number) if count.ends_with('M') => (number, 1e6),
            Some(number) => (number, 1e9),
            None => (count, 1.0),
        };
        let steps = number.trim().parse::<f64>().ok()? * factor;
        return (1.0..1e18).contains(&steps).then_some(Every::EnvSteps(steps.round() as u64));
    }
    // Longest first: every unit ends with another one.
    for (unit, secs) in [("ms", 1e-3), ("min", 60.0), ("h", 3600.0), ("s", 1.0)] {
        if let Some(number) = text.strip_suffix(unit) {
            let secs = number.trim().parse::<f64>().ok()? * secs;
            return Duration::try_from_secs_f64(secs).ok().map(Every::Time);
        }
    }
    None
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{} s", time.as_secs_f64()),
            Self::EnvSteps(steps) => write!(f, "{steps} env-steps"),
        }
    }
}

impl TryFrom<String> for Every {
    type Error = EveryError;

    fn try_from(text: String) -> Result<Self, EveryError> {
        text.parse()
    }
}

impl From<Every> for String {
    fn from(every: Every) -> Self {
        every.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        for every in [Every::Time(Duration::from_millis(1500)), Every::Time(Duration::ZERO), Every::EnvSteps(7)] {
            assert_eq!(every.to_string().parse(), Ok(every));
        }
        assert_eq!("2 h".parse(), Ok(Every::Time(Duration::from_secs(7200))));
        assert_eq!("1min".parse(), Ok(Every::Time(Duration::from_secs(60))));
        assert_eq!("1.5 k env-steps".parse(), Ok(Every::EnvSteps(1500)));
    }

    #[test]
    fn what_is_neither_is_refused_with_the_text() {
        for text in ["", "60", "-1 s", "0 env-steps", "M env-steps", "nan s", "1 env-step"] {
            let error = text.parse::<Every>().expect_err(text);
            assert!(error.to_string().contains("60 s"), "{error}");
        }
    }
}
