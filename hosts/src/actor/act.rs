//! The loop of an actor: join, stay, and join again.

use super::contact::Left;
use super::join::{Actor, Entered, JoinError};
use super::member::Member;
use crate::wire::{Facts, Over, Welcome};

/// What a host does in a run.
pub trait Act {
    /// What workers are made from.
    type Built;
    /// Why it cannot go on.
    type Error: From<JoinError>;

    /// Prepares workers by the settings of the learner, and says what both ends must agree on.
    ///
    /// # Errors
    /// Settings that nothing can be built by.
    fn build(&mut self, welcome: &Welcome) -> Result<(Self::Built, Facts), Self::Error>;

    /// Samples until the stay is over.
    ///
    /// # Errors
    /// What made going on impossible.
    fn stay(&mut self, built: Self::Built, member: Member) -> Result<Left, Self::Error>;
}

impl Actor {
    /// Joins, acts, and joins again whenever the learner was lost or resumed. Returns why it has left for
    /// good: the run is over, the host was told to end, all workers gave up, or the learner does not want it.
    ///
    /// *Blocks* until then.
    ///
    /// # Errors
    /// No learner, or one that does not let the host in; what [`Act`] returns.
    pub fn act<A: Act>(&mut self, host: &mut A) -> Result<Left, A::Error> {
        let mut stays = 0;
        let mut changed = None;
        loop {
            let welcome = match changed.take().map_or_else(|| self.hello(), Ok) {
                Ok(welcome) => welcome,
                Err(JoinError::Stopped) => return Ok(Left::Stopped),
                // It had its part in the run.
                Err(JoinError::Over { over, .. }) if stays > 0 => return Ok(Left::Over(over)),
                Err(error) => return Err(error.into()),
            };
            let (built, facts) = host.build(&welcome)?;
            let member = match self.join(&welcome, facts) {
                Ok(Entered::In(member)) => member,
                Ok(Entered::Changed(welcome)) => {
                    changed = Some(welcome);
                    continue;
                }
                Err(JoinError::Stopped) => return Ok(Left::Stopped),
                Err(JoinError::Over { over, .. }) if stays > 0 => return Ok(Left::Over(over)),
                Err(error) => return Err(error.into()),
            };
            stays += 1;
            tracing::info!(address = self.address(), "joined; the first worker is number {}", member.first_worker());
            match host.stay(built, *member)? {
                Left::Over(Over::Stopped) | Left::Gone | Left::Silent => {
                    tracing::info!(address = self.address(), "the learner is gone; looking for it");
                }
                left => {
                    tracing::info!(address = self.address(), "left: {left}");
                    return Ok(left);
                }
            }
        }
    }
}
