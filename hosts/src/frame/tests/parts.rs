//! Frames taken apart, so that tests can write headers that no encoder writes.

use pronk_buffer::{BatchShape, Tag};
use pronk_metrics::RunningMoments;

use crate::frame::header::{Head, Moments, PREFIX, Place, PolicyHead, Run};
use crate::frame::reader::Reader;

/// A frame in parts. What it counts is written as it stands, true or not.
pub(super) struct Parts {
    pub(super) head: Head,
    pub(super) policies: Vec<PolicyParts>,
    pub(super) moments: Vec<(Option<RunningMoments>, Option<RunningMoments>)>,
    pub(super) columns: Vec<u8>,
}

#[derive(Clone)]
pub(super) struct PolicyParts {
    pub(super) id: String,
    pub(super) shape: BatchShape,
    pub(super) packed: Option<usize>,
    pub(super) n_tags: usize,
    pub(super) n_finals: usize,
    pub(super) n_runs: usize,
    pub(super) tags: Vec<Tag>,
    pub(super) finals: Vec<Place>,
    pub(super) runs: Vec<Run>,
}

impl Parts {
    pub(super) fn of(frame: &[u8]) -> Self {
        let len = u32::from_le_bytes(frame[..PREFIX].try_into().unwrap()) as usize;
        let (header, columns) = frame[PREFIX..].split_at(len);
        let mut header = Reader::new(header);
        let head: Head = header.value("").unwrap();
        let policies = (0..head.policies).map(|_| PolicyParts::read(&mut header)).collect();
        let moments = (0..head.moments).map(|_| {
            let (observations, returns): Moments<'_> = header.value("").unwrap();
            (observations.map(|it| it.into_owned()), returns.map(|it| it.into_owned()))
        });
        Self { head, policies, moments: moments.collect(), columns: columns.to_vec() }
    }

    pub(super) fn frame(&self) -> Vec<u8> {
        let mut header = postcard::to_stdvec(&self.head).unwrap();
        for policy in &self.policies {
            header.extend(policy.bytes());
        }
        header.extend(self.moments.iter().flat_map(|moments| postcard::to_stdvec(moments).unwrap()));
        frame(&header, &self.columns)
    }
}

impl PolicyParts {
    fn read(header: &mut Reader<'_>) -> Self {
        let PolicyHead { id, shape, packed, tags, finals, runs } = header.value("").unwrap();
        Self {
            id: id.to_owned(),
            shape,
            packed,
            n_tags: tags,
            n_finals: finals,
            n_runs: runs,
            tags: header.values(tags, "").unwrap(),
            finals: header.values(finals, "").unwrap(),
            runs: header.values(runs, "").unwrap(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let &Self { ref id, shape, packed, n_tags, n_finals, n_runs, .. } = self;
        let head = PolicyHead { id, shape, packed, tags: n_tags, finals: n_finals, runs: n_runs };
        let mut bytes = postcard::to_stdvec(&head).unwrap();
        bytes.extend(self.tags.iter().flat_map(|tag| postcard::to_stdvec(tag).unwrap()));
        bytes.extend(self.finals.iter().flat_map(|place| postcard::to_stdvec(place).unwrap()));
        bytes.extend(self.runs.iter().flat_map(|run| postcard::to_stdvec(run).unwrap()));
        bytes
    }
}

pub(super) fn frame(header: &[u8], columns: &[u8]) -> Vec<u8> {
    let len = u32::try_from(header.len()).unwrap();
    [&len.to_le_bytes(), header, columns].concat()
}

/// Moments as they are written, which no method makes.
pub(super) fn raw_moments(count: u64, mean: &[f64], squares: &[f64]) -> RunningMoments {
    postcard::from_bytes(&postcard::to_stdvec(&(count, mean, squares)).unwrap()).unwrap()
}
