//! The step ledger: accounts for every sampled step.

mod ledger;
mod totals;

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

pub use ledger::{StepLedger, StepTicket};
use serde::{Deserialize, Serialize};
pub use totals::StepTotals;

/// Steps of environments and of agents.
///
/// ```
/// use pronk_metrics::Steps;
///
/// let fragment = Steps { env: 50, agent: 100 };
/// assert_eq!(fragment + fragment, Steps { env: 100, agent: 200 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Env-steps.
    pub env: u64,
    /// Agent-steps.
    pub agent: u64,
}

impl Add for Steps {
    type Output = Steps;

    fn add(self, other: Steps) -> Steps {
        // A damaged checkpoint may hold any number.
        Steps { env: self.env.saturating_add(other.env), agent: self.agent.saturating_add(other.agent) }
    }
}

impl AddAssign for Steps {
    fn add_assign(&mut self, other: Steps) {
        *self = *self + other;
    }
}

impl Sub for Steps {
    type Output = Steps;

    fn sub(self, other: Steps) -> Steps {
        Steps { env: self.env - other.env, agent: self.agent - other.agent }
    }
}

impl SubAssign for Steps {
    fn sub_assign(&mut self, other: Steps) {
        *self = *self - other;
    }
}

impl Sum for Steps {
    fn sum<I: Iterator<Item = Steps>>(steps: I) -> Steps {
        steps.fold(Steps::default(), Add::add)
    }
}

#[cfg(test)]
mod tests;
