use super::error::BatchError;
use super::shape::BatchShape;

impl BatchShape {
    /// Checks that a batch of these sizes is possible. Call it once, where the sizes are read.
    ///
    /// # Errors
    /// [`BatchError::ZeroSize`] with the size that is 0; [`BatchError::TooLarge`].
    pub fn check(&self) -> Result<(), BatchError> {
        let sizes = [
            ("steps", self.steps),
            ("columns", self.columns),
            ("obs_len", self.obs_len),
            ("act_len", self.act_len),
            ("dist_len", self.dist_len),
        ];
        if let Some((what, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(BatchError::ZeroSize { what, shape: *self });
        }
        // The longest column is `[T+1, B, longest row]`; four bytes an element must stay addressable, and `t`
        // and `b` are kept as u32 beside final observations.
        let longest = self.obs_len.max(self.act_len).max(self.dist_len).max(self.state_len);
        let fits = self
            .steps
            .checked_add(1)
            .and_then(|rows| rows.checked_mul(self.columns))
            .and_then(|cells| cells.checked_mul(longest))
            .is_some_and(|elements| elements <= isize::MAX as usize / 4);
        let indexable = u32::try_from(self.steps).is_ok() && u32::try_from(self.columns).is_ok();
        if fits && indexable { Ok(()) } else { Err(BatchError::TooLarge { shape: *self }) }
    }
}
