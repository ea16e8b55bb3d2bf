//! [`Order`]: what a parent tells a child to do.

use std::time::Instant;

use crate::child::Deadline;
use crate::settings::ProcessEnvs;

/// An order to a group, or to one environment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The values are those of the header.
    Reset = 1,
    Step = 2,
    Render = 3,
}

impl Order {
    /// What is written for it.
    pub(crate) fn byte(self, only: Option<usize>) -> u8 {
        match (self, only) {
            (Order::Reset, None) => b'r',
            (Order::Reset, Some(_)) => b'R',
            (Order::Step, None) => b's',
            (Order::Step, Some(_)) => b'S',
            (Order::Render, _) => b'p',
        }
    }

    /// The deadline of an order given now.
    pub(crate) fn deadline(self, envs: &ProcessEnvs) -> Deadline {
        let doing = match self {
            Order::Reset => "its environments were reset",
            Order::Step => "its environments took a step",
            Order::Render => "an environment was drawn",
        };
        let limit = envs.step_timeout;
        Deadline { doing, since: Instant::now(), limit, setting: ("step_timeout", limit) }
    }
}
