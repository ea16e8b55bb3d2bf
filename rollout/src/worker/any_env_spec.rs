use std::fmt;

use crate::env::{EnvError, EnvFailure, EnvFailureCause, EnvSpec, MultiAgentSpec, VectorContext};

/// The spec of a worker's environments, with one agent or several.
///
/// ```
/// use pronk_rollout::{AnyEnvSpec, CartPole, Env, Rendezvous, MultiAgentEnv};
///
/// let alone = AnyEnvSpec::Single(CartPole::new().spec());
/// let together = AnyEnvSpec::MultiAgent(Rendezvous::new().spec());
/// assert!(alone.has_spaces_of(&alone) && !alone.has_spaces_of(&together));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum AnyEnvSpec {
    /// One agent.
    Single(EnvSpec),
    /// Several.
    MultiAgent(MultiAgentSpec),
}

impl AnyEnvSpec {
    /// Whether agents and spaces are equal; name and time limit may differ.
    pub fn has_spaces_of(&self, other: &AnyEnvSpec) -> bool {
        match (self, other) {
            (AnyEnvSpec::Single(own), AnyEnvSpec::Single(other)) => own.has_spaces_of(other),
            (AnyEnvSpec::MultiAgent(own), AnyEnvSpec::MultiAgent(other)) => own.has_spaces_of(other),
            _ => false,
        }
    }

    /// Checks the spec of rebuilt environments against this one, which the run began with.
    pub(crate) fn check_rebuilt(&self, rebuilt: &AnyEnvSpec, context: &VectorContext) -> Result<(), EnvFailure> {
        if self.has_spaces_of(rebuilt) {
            return Ok(());
        }
        let text = format!("the rebuilt environment is {rebuilt}, but the run began with {self}");
        Err(context.failure_to_make(EnvFailureCause::Error(EnvError::new(text))))
    }

    /// The environment's name.
    pub fn name(&self) -> &str {
        match self {
            AnyEnvSpec::Single(spec) => &spec.name,
            AnyEnvSpec::MultiAgent(spec) => &spec.name,
        }
    }
}

impl fmt::Display for AnyEnvSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyEnvSpec::Single(spec) => spec.fmt(f),
            AnyEnvSpec::MultiAgent(spec) => spec.fmt(f),
        }
    }
}
