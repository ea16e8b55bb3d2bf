//! Fragments to bytes.

use std::borrow::Cow;
use std::io::Cursor;

use bytemuck::cast_slice;
use pronk_buffer::{ActionView, MultiAgentBatch, ObsColumn, ObsKind, ObsView, SampleBatch};
use serde::Serialize;
use zstd::bulk::Compressor;

use super::header::{Head, Moments, PREFIX, PolicyHead, Run, column_bytes};

/// How observations that are bytes, such as pixels, cross the network.
///
/// ```
/// use pronk_hosts::Pixels;
///
/// assert_eq!(Pixels::default(), Pixels::Raw);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pixels {
    /// As they are.
    #[default]
    Raw,
    /// Compressed by zstd at level 1, where that makes them smaller.
    Zstd,
}

/// Encodes fragments; each thread has one of its own.
#[derive(Default)]
pub struct Encoder {
    /// Made for the first fragment to compress.
    compressor: Option<Compressor<'static>>,
    /// The compressed observations of all policies of a fragment, one after the other.
    packed: Vec<u8>,
    /// Of each policy, the bytes of its compressed observations; `None` if they are not compressed.
    lens: Vec<Option<usize>>,
    /// Observations that shared elements, one after another.
    apart: ObsColumn,
}

impl Encoder {
    /// Appends the frame of a fragment.
    pub fn encode(&mut self, batch: &MultiAgentBatch, pixels: Pixels, out: &mut Vec<u8>) {
        self.pack(batch, pixels);
        let columns: usize = batch
            .policies()
            .zip(&self.lens)
            .filter_map(|((_, samples), packed)| column_bytes(samples.shape(), *packed, samples.final_obs().len()))
            .sum();
        // Headers are rarely longer than this.
        out.reserve(columns.saturating_add(512));

        let start = out.len();
        out.extend_from_slice(&[0; PREFIX]);
        write_header(batch, &self.lens, out);
        // `Expected` refuses runs whose headers may be longer than this number can be.
        let len = (out.len() - start - PREFIX) as u32;
        out[start..start + PREFIX].copy_from_slice(&len.to_le_bytes());

        let Self { packed, lens, apart, .. } = self;
        let mut packed = &packed[..];
        for ((_, samples), len) in batch.policies().zip(lens) {
            let own = len.map(|len| {
                let (own, rest) = packed.split_at(len);
                packed = rest;
                own
            });
            append_columns(samples, own, apart, out);
        }
    }

    /// Compresses the observations of each policy that has bytes.
    fn pack(&mut self, batch: &MultiAgentBatch, pixels: Pixels) {
        let Self { compressor, packed, lens, apart } = self;
        packed.clear();
        lens.clear();
        for (_, samples) in batch.policies() {
            lens.push(match (pixels, samples.obs().kind()) {
                (Pixels::Zstd, ObsKind::U8) => compress(as_bytes(samples.obs().laid_apart(apart)), compressor, packed),
                _ => None,
            });
        }
    }
}

/// Appends compressed bytes and says how many there are; `None` if there would be no fewer of them, or no
/// memory to find out.
fn compress(bytes: &[u8], compressor: &mut Option<Compressor<'static>>, packed: &mut Vec<u8>) -> Option<usize> {
    let compressor = match compressor {
        Some(compressor) => compressor,
        none => none.insert(Compressor::new(1).ok()?),
    };
    let start = packed.len();
    packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
    let mut to = Cursor::new(&mut *packed);
    to.set_position(start as u64);
    let len = compressor.compress_to_buffer(bytes, &mut to).ok().filter(|len| *len < bytes.len());
    packed.truncate(start + len.unwrap_or(0));
    len
}

fn write_header(batch: &MultiAgentBatch, packed: &[Option<usize>], out: &mut Vec<u8>) {
    let head = Head { env_steps: batch.env_steps(), policies: packed.len(), moments: batch.moments().len() };
    write(&head, out);
    for ((id, samples), packed) in batch.policies().zip(packed) {
        let finals = samples.final_obs().index();
        let head = PolicyHead {
            id,
            shape: *samples.shape(),
            packed: *packed,
            tags: samples.tags().len(),
            finals: finals.len(),
            runs: runs(samples).count(),
        };
        write(&head, out);
        samples.tags().iter().for_each(|tag| write(tag, out));
        finals.iter().for_each(|place| write(place, out));
        runs(samples).for_each(|run| write(&run, out));
    }
    for moments in batch.moments() {
        let pair: Moments<'_> =
            (moments.observations.as_ref().map(Cow::Borrowed), moments.returns.as_ref().map(Cow::Borrowed));
        write(&pair, out);
    }
}

fn runs(samples: &SampleBatch) -> impl Iterator<Item = Run> {
    let runs = samples.versions().chunk_by(|a, b| a == b);
    runs.filter_map(|run| Some(Run { cells: run.len() as u64, version: *run.first()? }))
}

fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Headers are plain data, which postcard can always write to memory.
    let _ = postcard::to_io(value, out);
}

fn append_columns(samples: &SampleBatch, packed: Option<&[u8]>, apart: &mut ObsColumn, out: &mut Vec<u8>) {
    match packed {
        Some(packed) => out.extend_from_slice(packed),
        None => out.extend_from_slice(as_bytes(samples.obs().laid_apart(apart))),
    }
    out.extend_from_slice(match samples.actions() {
        ActionView::U32(actions) => cast_slice(actions),
        ActionView::F32(actions) => cast_slice(actions),
    });
    out.extend_from_slice(cast_slice(samples.rewards()));
    out.extend(samples.ends().iter().map(|end| *end as u8));
    out.extend_from_slice(as_bytes(samples.final_obs().rows().view()));
    out.extend_from_slice(cast_slice(samples.behaviour_logp()));
    out.extend_from_slice(cast_slice(samples.behaviour_inputs()));
    out.extend_from_slice(cast_slice(samples.behaviour_values()));
    out.extend_from_slice(cast_slice(samples.state_in()));
}

fn as_bytes(obs: ObsView<'_>) -> &[u8] {
    match obs {
        ObsView::F32(obs) => cast_slice(obs),
        ObsView::U8(obs) => obs,
    }
}
