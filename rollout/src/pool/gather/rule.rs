//! How long to wait for the environments of a worker that step elsewhere, before the policy acts for those that answered.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// For how many groups of environments to wait before the policy acts for those that have answered.
///
/// To wait for more groups makes batches larger, so that inference costs less a step; to wait for fewer keeps the groups that
/// are fast from waiting for those that are slow.
///
/// In a file: `"all"`, `"in_turn"`, `"adaptive"`, `{ at_least = 4 }`, or in seconds `{ within = 0.005 }` and
/// `{ each_within = 0.1 }`.
///
/// ```
/// use std::time::Duration;
/// use pronk_rollout::{Arrivals, Gather};
///
/// /// Answers that come at known times, on a clock that only waiting moves.
/// struct Script { now: f64, answers: Vec<f64> }
///
/// impl Arrivals for Script {
///     type Answer = f64;
///     type Error = std::convert::Infallible;
///
///     fn now(&self) -> Duration {
///         Duration::from_secs_f64(self.now)
///     }
///
///     fn next(&mut self, deadline: Option<Duration>) -> Result<Option<f64>, Self::Error> {
///         let in_time = |at: f64| deadline.is_none_or(|deadline| at <= self.now || at < deadline.as_secs_f64());
///         let next = self.answers.first().copied().filter(|at| in_time(*at));
///         match next {
///             Some(at) => self.now = self.now.max(self.answers.remove(0)),
///             None => self.now = self.now.max(deadline.unwrap_or_default().as_secs_f64()),
///         }
///         Ok(next)
///     }
/// }
///
/// let mut script = Script { now: 0.0, answers: vec![0.2, 0.3, 2.0] };
/// let answered = Gather::Within(Duration::from_secs(1)).collect(3, &mut script)?;
/// assert_eq!((answered, script.now), (vec![0.2, 0.3], 1.0));
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gather {
    /// All groups.
    #[default]
    All,
    /// The group that has been stepping for longest, and no other: while it is acted for, the others step. With two groups this
    /// is double-buffered sampling. What is made does not depend on time.
    InTurn,
    /// So many groups; those that have answered as well by then are taken along.
    AtLeast(NonZeroUsize),
    /// The first group, and then all others that answer within so long of the call's beginning.
    Within(#[serde(with = "secs")] Duration),
    /// The first group, then as many more times for one of the others, each time so long: the rule of the experiment that this
    /// is compared with. Missing one does not end it, so that with `n` groups it may wait `n − 1` times as long.
    EachWithin(#[serde(with = "secs")] Duration),
    /// As many groups as make the most steps: how long steps take and what inference costs is measured all the time.
    Adaptive,
}

/// Where answers come from, one at a time, and what the time is there.
///
/// The example is at [`Gather`].
pub trait Arrivals {
    /// An answer.
    type Answer;
    /// Why there will be no more.
    type Error;

    /// Time since some beginning.
    fn now(&self) -> Duration;

    /// The next answer, waited for until `deadline`, or for ever. One that is there already is given whatever the deadline is;
    /// `None` if there was none in time.
    ///
    /// # Errors
    /// There will be none.
    fn next(&mut self, deadline: Option<Duration>) -> Result<Option<Self::Answer>, Self::Error>;
}

impl Gather {
    /// Waits for answers of `running` groups as the rule says; it waits for one at least, and for none of none.
    ///
    /// [`InTurn`](Self::InTurn) takes the next one: `arrivals` has to give them in the order of their sending then.
    /// [`Adaptive`](Self::Adaptive) waits for all: whoever gathers picks the number that it stands for.
    ///
    /// # Errors
    /// Those of `arrivals`.
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

/// Durations as a number of seconds.
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
