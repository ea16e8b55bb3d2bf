//! Bytes to fragments: the header is checked before storage is taken, the contents after they are copied.

mod actions;
mod moments;
mod plan;

use std::collections::BTreeMap;
use std::{io, mem};

use bytemuck::cast_slice_mut;
use pronk_buffer::{ActionViewMut, End, MultiAgentBatch, ObsViewMut, Pool, SampleBatch};
use zstd::bulk::Decompressor;

use self::actions::check_actions;
use self::plan::{Plan, PolicyPlan};
use super::error::FrameError;
use super::expected::{Expected, Sender};
use super::header::{PREFIX, Run};
use super::reader::Reader;

/// Decodes fragments; each thread has one of its own.
#[derive(Default)]
pub struct Decoder {
    /// Made for the first compressed frame.
    decompressor: Option<Decompressor<'static>>,
}

impl Decoder {
    /// Copies the fragment of a frame into storage of the pool. The frame needs no alignment.
    ///
    /// Takes storage only for what is expected, and beside it a small multiple of the header.
    ///
    /// # Errors
    /// A frame that is corrupt, or foreign to the run: see [`FrameError::is_corrupt`].
    pub fn decode(
        &mut self,
        bytes: &[u8],
        pool: &Pool,
        expected: &Expected,
        sender: &Sender,
    ) -> Result<MultiAgentBatch, FrameError> {
        let (header, columns) = split(bytes, expected)?;
        let plan = Plan::read(header, expected, sender)?;
        let len = plan.column_bytes();
        if columns.len() != len {
            return Err(FrameError::Length { expected: len, got: columns.len() });
        }
        let mut columns = Reader::new(columns);
        let mut policies = BTreeMap::new();
        for policy in &plan.policies {
            let mut samples = self.copy(policy, &mut columns, pool)?;
            fill_versions(samples.versions_mut(), &policy.runs);
            check_contents(policy, &samples)?;
            policies.insert(policy.id.clone(), samples);
        }
        let batch = MultiAgentBatch::new(policies, plan.env_steps).map_err(FrameError::Empty)?;
        Ok(plan.moments.into_iter().fold(batch, MultiAgentBatch::with_moments))
    }

    /// Copies the columns of one policy, in the order of the frame.
    fn copy(
        &mut self,
        plan: &PolicyPlan<'_>,
        columns: &mut Reader<'_>,
        pool: &Pool,
    ) -> Result<SampleBatch, FrameError> {
        let first = plan.tags.first().copied().unwrap_or_default();
        let mut samples = pool.take(plan.shape, first);
        samples.set_tags(&plan.tags).map_err(|cause| plan.invalid(cause))?;

        match (plan.packed, samples.obs_mut()) {
            (Some(len), ObsViewMut::U8(to)) => self.unpack(plan, columns.take(len, "observations")?, to)?,
            (_, to) => columns.copy(as_bytes(to), "observations")?,
        }
        match samples.actions_mut() {
            ActionViewMut::U32(to) => columns.copy(cast_slice_mut(to), "actions")?,
            ActionViewMut::F32(to) => columns.copy(cast_slice_mut(to), "actions")?,
        }
        columns.copy(cast_slice_mut(samples.rewards_mut()), "rewards")?;
        let ends = columns.take(samples.ends().len(), "ends")?;
        copy_ends(plan, ends, samples.ends_mut())?;
        columns.copy(as_bytes(samples.final_obs_mut().push_blank(&plan.finals)), "final observations")?;
        columns.copy(cast_slice_mut(samples.behaviour_logp_mut()), "log-probabilities")?;
        columns.copy(cast_slice_mut(samples.behaviour_inputs_mut()), "inputs of distributions")?;
        columns.copy(cast_slice_mut(samples.behaviour_values_mut()), "values")?;
        columns.copy(cast_slice_mut(samples.state_in_mut()), "recurrent states")?;
        Ok(samples)
    }

    /// Decompresses into `to`, which must be filled exactly.
    fn unpack(&mut self, plan: &PolicyPlan<'_>, packed: &[u8], to: &mut [u8]) -> Result<(), FrameError> {
        let unreadable = |cause: io::Error| FrameError::Packed { policy: plan.id.clone(), cause };
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(unreadable)?),
        };
        let got = decompressor.decompress_to_buffer(packed, to).map_err(unreadable)?;
        if got == to.len() {
            Ok(())
        } else {
            Err(FrameError::Unpacked { policy: plan.id.clone(), expected: to.len(), got })
        }
    }
}

/// The header of a frame, and its columns.
fn split<'a>(bytes: &'a [u8], expected: &Expected) -> Result<(&'a [u8], &'a [u8]), FrameError> {
    let too_short = FrameError::Ends { what: "the length of its header", expected: PREFIX, got: bytes.len() };
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>().ok_or(too_short)?;
    let len = u32::from_le_bytes(*prefix) as usize;
    let too_short = FrameError::Ends { what: "its header", expected: len, got: rest.len() };
    let (header, columns) = rest.split_at_checked(len).ok_or(too_short)?;
    let max = expected.max_header_bytes();
    if len > max {
        return Err(FrameError::HeaderTooLong { max, got: len });
    }
    Ok((header, columns))
}

fn as_bytes(obs: ObsViewMut<'_>) -> &mut [u8] {
    match obs {
        ObsViewMut::F32(obs) => cast_slice_mut(obs),
        ObsViewMut::U8(obs) => obs,
    }
}

fn copy_ends(plan: &PolicyPlan<'_>, bytes: &[u8], ends: &mut [End]) -> Result<(), FrameError> {
    // Nearly always all are ends, and a pass without an early exit vectorises.
    let last = End::Truncated as u8;
    if bytes.iter().fold(0, |max: u8, byte| max.max(*byte)) > last
        && let Some((i, byte)) = bytes.iter().enumerate().find(|(_, byte)| **byte > last)
    {
        let (t, b) = plan.place(i);
        return Err(FrameError::End { policy: plan.id.clone(), t, b, byte: *byte });
    }
    for (end, byte) in ends.iter_mut().zip(bytes) {
        *end = match byte {
            0 => End::No,
            1 => End::Terminated,
            _ => End::Truncated,
        };
    }
    Ok(())
}

/// Runs add up to the versions.
fn fill_versions(mut versions: &mut [u64], runs: &[Run]) {
    for run in runs {
        let len = usize::try_from(run.cells).unwrap_or(usize::MAX).min(versions.len());
        let (own, rest) = mem::take(&mut versions).split_at_mut(len);
        own.fill(run.version);
        versions = rest;
    }
}

fn check_contents(plan: &PolicyPlan<'_>, samples: &SampleBatch) -> Result<(), FrameError> {
    samples.check_ends().map_err(|cause| plan.invalid(cause))?;
    samples.check_finite().map_err(|cause| plan.invalid(cause))?;
    check_actions(plan, samples.actions())
}
