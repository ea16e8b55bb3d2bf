//! Batches of samples, as checkpoints and records hold them.

use pronk::SampleBatch;
use pronk::buffer::{MultiAgentBatch, ObsView};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "batch",
    promise: "A batch that is accepted has columns of the lengths that its shape says, and reads back the same.",
    run,
};

fn run(bytes: &[u8]) -> bool {
    let Ok(batch) = postcard::from_bytes::<MultiAgentBatch>(bytes) else { return false };
    let _ = (batch.steps(), batch.oldest_version());
    batch.policies().for_each(|(_, batch)| rows(batch));
    let written = postcard::to_stdvec(&batch).unwrap_or_else(|error| panic!("{batch:?} cannot be written: {error}"));
    let again: MultiAgentBatch = postcard::from_bytes(&written).unwrap_or_else(|error| panic!("{batch:?}: {error}"));
    assert_eq!(postcard::to_stdvec(&again).ok(), Some(written), "{batch:?} is not {again:?}");
    true
}

/// Reads every row.
fn rows(batch: &SampleBatch) {
    let shape = batch.shape();
    let cells = shape.steps * shape.columns;
    let len = |view: ObsView<'_>| view.len();
    for cell in 0..cells {
        assert_eq!(batch.actions().row(cell, shape.act_len).len(), shape.act_len);
    }
    for (t, b, obs) in batch.final_obs().iter() {
        assert!((t as usize) < shape.steps && (b as usize) < shape.columns && len(obs) == shape.obs_len, "{batch:?}");
    }
    assert_eq!((batch.rewards().len(), batch.ends().len(), batch.behaviour_logp().len()), (cells, cells, cells));
    let _ = (batch.check_ends(), batch.check_finite(), batch.obs_row(shape.steps));
}
