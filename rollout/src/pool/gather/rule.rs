//! How long a worker waits for its groups before the policy acts for those that have answered.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// For how many groups of environments a worker waits before the policy acts for those that have answered.
///
/// Waiting for more groups makes batches larger, so that inference costs less per step; waiting for fewer
/// keeps fast groups from waiting for slow ones.
///
/// In a file: `"all"`, `"in_turn"`, `"adaptive"`, `{ at_least = 4 }`, or in seconds `{ within = 0.005 }` and
/// `{ each_within = 0.1 }`.
///
/// ```
/// use pronk_rollout::Gather;
///
/// let gather: Gather = serde_json::from_str(r#"{"at_least": 4}"#)?;
/// assert_eq!(gather, Gather::AtLeast(4.try_into()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gather {
    /// All groups.
    #[default]
    All,
    /// The group that was sent off first, and no other: the others step while the policy acts for it. With
    /// two groups this is double-buffered sampling. Fragments do not depend on timing.
    InTurn,
    /// This many groups, and all others that have answered by then.
    AtLeast(NonZeroUsize),
    /// The first group that answers, and all others that answer within this time of the wait's beginning.
    Within(#[serde(with = "secs")] Duration),
    /// The first group that answers, then up to this time for each of the others in turn: the rule of the
    /// published experiment. Timeouts do not end the wait: `n` groups may take `n − 1` times as long.
    EachWithin(#[serde(with = "secs")] Duration),
    /// The number of groups that makes the most steps per second, found by measuring.
    Adaptive,
}

/// A source of answers with a clock: what [`Gather::collect`] waits on.
pub trait Arrivals {
    /// An answer.
    type Answer;
    /// Why there will be no more.
    type Error;

    /// Time since some beginning.
    fn now(&self) -> Duration;

    /// The next answer; `None` if none has arrived by `deadline`. An error if no more can come.
    fn next(&mut self, deadline: Option<Duration>) -> Result<Option<Self::Answer>, Self::Error>;
}

impl Gather {
    /// Waits for answers of `running` groups by this rule: for at least one, or for none if none runs.
    ///
    /// For [`InTurn`](Self::InTurn), `arrivals` must return answers in the order of sending.
    /// [`Adaptive`](Self::Adaptive) waits for all: the caller replaces it by the rule in use. Errors are
    /// those of `arrivals`.
    pub fn collect<A: Arrivals>(&self, running: usize, arrivals: &mut A) -> Result<Vec<A::Answer>, A::Error> {
        let mut answers = Vec::new();
        let began = arrivals.now();
        let waited_for = match self {
            Gather::All | Gather::Adaptive => running,
            Gather::AtLeast(n) => n.get().min(running),
            Gather::InTurn | Gather::Within(_) | Gather::EachWithin(_) => 1.min(running),
        };
        while answers.len() < waited_for {
            answers.extend(arrivals.next(None)?);
        }
        match self {
            Gather::All | Gather::InTurn | Gather::Adaptive => {}
            Gather::AtLeast(_) => take_until(began, running, arrivals, &mut answers)?,
            Gather::Within(time) => take_until(began.saturating_add(*time), running, arrivals, &mut answers)?,
            Gather::EachWithin(time) => {
                for _ in waited_for..running {
                    answers.extend(arrivals.next(Some(arrivals.now().saturating_add(*time)))?);
                }
            }
        }
        Ok(answers)
    }
}

/// Takes what comes until `deadline`, and what has come already.
fn take_until<A: Arrivals>(
    deadline: Duration,
    running: usize,
    arrivals: &mut A,
    answers: &mut Vec<A::Answer>,
) -> Result<(), A::Error> {
    while answers.len() < running
        && let Some(answer) = arrivals.next(Some(deadline))?
    {
        answers.push(answer);
    }
    Ok(())
}

/// Durations in seconds.
mod secs {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(value.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let secs = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(secs)
            .map_err(|error| D::Error::custom(format!("{secs} is not a time in seconds: {error}")))
    }
}

#[cfg(test)]
mod tests;
