//! The time of a model, which moves when a wait times out.

use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};

/// A wait this long never times out, nor does what is left of it after some others.
pub const FOREVER: Duration = Duration::from_secs(3600);
/// Waits longer than this never time out.
const LONGEST: Duration = Duration::from_secs(60);

shuttle::lazy_static! {
    // Of the standard library: looking at a clock is no operation that other threads take part in.
    static ref NANOS: AtomicU64 = AtomicU64::new(0);
}

/// A point in the time of a model; as [`std::time::Instant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// Now.
    pub fn now() -> Self {
        Self(Duration::from_nanos(NANOS.load(Ordering::Relaxed)))
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// The time from `earlier` to this; zero if it is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// As [`duration_since`](Self::duration_since).
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// So much later, if that can be represented.
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// So much earlier, if the model was there already.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// The time limit of a wait that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    ends: Option<Instant>,
}

impl Limit {
    pub(crate) const NONE: Self = Self { ends: None };

    pub(crate) fn after(timeout: Duration) -> Self {
        Self { ends: if timeout > LONGEST { None } else { Some(Instant::now() + timeout) } }
    }

    pub(crate) fn at(deadline: Instant) -> Self {
        Self::after(deadline.duration_since(Instant::now()))
    }

    /// Whether the wait may never end by itself, so that its thread can sleep until it is woken.
    pub(crate) fn is_none(self) -> bool {
        self.ends.is_none()
    }

    /// Whether the wait times out at this look, which the scheduler chooses once the time has not come.
    pub(crate) fn is_over(self) -> bool {
        let Some(ends) = self.ends else { return false };
        let over = Instant::now() >= ends || thread_rng().gen_ratio(1, 3);
        if over {
            advance_to(ends);
        }
        over
    }
}

pub(crate) fn advance_to(instant: Instant) {
    NANOS.fetch_max(u64::try_from(instant.0.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}
