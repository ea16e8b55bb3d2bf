use super::{ActionColumn, BatchError, BatchShape, ObsColumn, ObsView, SampleBatch};
use crate::Pool;

impl SampleBatch {
    /// Copies columns, in the order given, into a new batch: a minibatch, or one device's share. It has the
    /// tags of this one, as many as its columns allow, but not the ticket.
    ///
    /// # Errors
    /// No columns, or one out of range.
    ///
    /// # Example
    /// ```
    /// # use pronk_buffer::{ActionKind, BatchShape, ObsKind};
    /// use pronk_buffer::{Pool, SampleBatch, Tag};
    ///
    /// # let shape = BatchShape {
    /// #     steps: 2,
    /// #     columns: 3,
    /// #     obs_len: 4,
    /// #     obs_kind: ObsKind::F32,
    /// #     act_len: 1,
    /// #     act_kind: ActionKind::U32,
    /// #     dist_len: 2,
    /// #     state_len: 0,
    /// # };
    /// let mut batch = SampleBatch::blank(shape, Tag::default()); // two steps of three columns
    /// batch.rewards_mut().copy_from_slice(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
    /// let minibatch = batch.select_columns(&[2, 0], &Pool::new(1))?;
    /// assert_eq!(minibatch.rewards(), [2.0, 0.0, 12.0, 10.0]);
    /// # Ok::<(), pronk_buffer::BatchError>(())
    /// ```
    pub fn select_columns(&self, columns: &[usize], pool: &Pool) -> Result<SampleBatch, BatchError> {
        let BatchShape { columns: width, obs_len, act_len, dist_len, state_len, .. } = *self.shape();
        if columns.is_empty() {
            return Err(BatchError::Empty { what: "a selection of columns" });
        }
        if let Some(&column) = columns.iter().find(|&&column| column >= width) {
            return Err(BatchError::NoColumn { column, columns: width });
        }
        let mut selected = self.take_like(self.shape().with_columns(columns.len()), pool);
        let tags = &self.tags()[..self.tags().len().min(columns.len())];
        selected.tags_mut().extend_from_slice(tags);

        selected.share_columns(self, columns.iter().copied(), 0);
        let (from, to) = (self.columns(), selected.columns_mut());
        let gather = Gather { columns, width };
        match (&mut to.obs, self.obs().apart()) {
            (ObsColumn::F32(to), Some(ObsView::F32(from))) => gather.rows(to, from, obs_len),
            (ObsColumn::U8(to), Some(ObsView::U8(from))) => gather.rows(to, from, obs_len),
            _ => {}
        }
        match (&mut to.actions, &from.actions) {
            (ActionColumn::U32(to), ActionColumn::U32(from)) => gather.rows(to, from, act_len),
            (ActionColumn::F32(to), ActionColumn::F32(from)) => gather.rows(to, from, act_len),
            _ => {}
        }
        gather.rows(&mut to.rewards, &from.rewards, 1);
        gather.rows(&mut to.ends, &from.ends, 1);
        gather.rows(&mut to.behaviour_logp, &from.behaviour_logp, 1);
        gather.rows(&mut to.behaviour_inputs, &from.behaviour_inputs, dist_len);
        gather.rows(&mut to.behaviour_values, &from.behaviour_values, 1);
        gather.rows(&mut to.state_in, &from.state_in, state_len);
        gather.rows(&mut to.versions, &from.versions, 1);
        for (i, &(t, b)) in from.final_obs.index().iter().enumerate() {
            for (at, _) in columns.iter().enumerate().filter(|(_, column)| **column == b as usize) {
                to.final_obs.push(t as usize, at, from.final_obs.rows().view().row(i, obs_len))?;
            }
        }
        Ok(selected)
    }

    /// Copies all but the first `skipped` steps into a new batch, with the tags but not the ticket.
    /// `state_in` stays that of the first step of all.
    ///
    /// # Errors
    /// No step is left.
    pub fn skip_steps(&self, skipped: usize, pool: &Pool) -> Result<SampleBatch, BatchError> {
        let BatchShape { steps, columns: width, obs_len, act_len, dist_len, .. } = *self.shape();
        if skipped >= steps {
            return Err(BatchError::Empty { what: "what follows the skipped steps" });
        }
        let mut rest = self.take_like(BatchShape { steps: steps - skipped, ..*self.shape() }, pool);
        rest.tags_mut().extend_from_slice(self.tags());

        rest.share_columns(self, 0..width, skipped);
        let (from, to) = (self.columns(), rest.columns_mut());
        let first = skipped * width;
        match (&mut to.obs, self.obs().apart()) {
            (ObsColumn::F32(to), Some(ObsView::F32(from))) => to.copy_from_slice(&from[first * obs_len..]),
            (ObsColumn::U8(to), Some(ObsView::U8(from))) => to.copy_from_slice(&from[first * obs_len..]),
            _ => {}
        }
        match (&mut to.actions, &from.actions) {
            (ActionColumn::U32(to), ActionColumn::U32(from)) => to.copy_from_slice(&from[first * act_len..]),
            (ActionColumn::F32(to), ActionColumn::F32(from)) => to.copy_from_slice(&from[first * act_len..]),
            _ => {}
        }
        to.rewards.copy_from_slice(&from.rewards[first..]);
        to.ends.copy_from_slice(&from.ends[first..]);
        to.behaviour_logp.copy_from_slice(&from.behaviour_logp[first..]);
        to.behaviour_inputs.copy_from_slice(&from.behaviour_inputs[first * dist_len..]);
        to.behaviour_values.copy_from_slice(&from.behaviour_values[first..]);
        to.state_in.copy_from_slice(&from.state_in);
        to.versions.copy_from_slice(&from.versions[first..]);
        for (i, &(t, b)) in from.final_obs.index().iter().enumerate().filter(|(_, (t, _))| *t as usize >= skipped) {
            to.final_obs.push(t as usize - skipped, b as usize, from.final_obs.rows().view().row(i, obs_len))?;
        }
        Ok(rest)
    }
}

/// Columns to take from rows of `width`.
struct Gather<'a> {
    columns: &'a [usize],
    width: usize,
}

impl Gather<'_> {
    /// Fills the rows of `to` from those of `from`, with `len` elements for each column.
    fn rows<T: Copy>(&self, to: &mut [T], from: &[T], len: usize) {
        if len == 0 {
            return;
        }
        let rows = to.chunks_exact_mut(self.columns.len() * len).zip(from.chunks_exact(self.width * len));
        for (to, from) in rows {
            for (to, &column) in to.chunks_exact_mut(len).zip(self.columns) {
                to.copy_from_slice(&from[column * len..][..len]);
            }
        }
    }
}
