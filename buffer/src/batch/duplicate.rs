use std::collections::BTreeMap;

use crate::{ActionView, ActionViewMut, BatchError, MultiAgentBatch, Pool, SampleBatch};

/// A copy in storage of `pool`, without the ticket and the moments: its steps were sampled once.
pub(crate) fn copy_without_ticket(original: &MultiAgentBatch, pool: &Pool) -> Result<MultiAgentBatch, BatchError> {
    let mut policies = BTreeMap::new();
    for (policy, batch) in original.policies() {
        policies.insert(policy.clone(), copy_samples(batch, pool)?);
    }
    MultiAgentBatch::new(policies, original.env_steps())
}

fn copy_samples(original: &SampleBatch, pool: &Pool) -> Result<SampleBatch, BatchError> {
    let mut copy = original.take_like(*original.shape(), pool);
    copy.tags_mut().extend_from_slice(original.tags());
    // The shapes are equal, so are the lengths and the element types.
    match original.obs().apart() {
        Some(from) => copy.obs_mut().copy_from(from)?,
        None => copy.share_part(original, 0),
    }
    match (copy.actions_mut(), original.actions()) {
        (ActionViewMut::U32(to), ActionView::U32(from)) => to.copy_from_slice(from),
        (ActionViewMut::F32(to), ActionView::F32(from)) => to.copy_from_slice(from),
        _ => {}
    }
    copy.rewards_mut().copy_from_slice(original.rewards());
    copy.ends_mut().copy_from_slice(original.ends());
    for (t, b, row) in original.final_obs().iter() {
        copy.final_obs_mut().push(t as usize, b as usize, row)?;
    }
    copy.behaviour_logp_mut().copy_from_slice(original.behaviour_logp());
    copy.behaviour_inputs_mut().copy_from_slice(original.behaviour_inputs());
    copy.behaviour_values_mut().copy_from_slice(original.behaviour_values());
    copy.state_in_mut().copy_from_slice(original.state_in());
    copy.versions_mut().copy_from_slice(original.versions());
    Ok(copy)
}
