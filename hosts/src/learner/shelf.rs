//! Encoded weights, shared by all hosts that fetch them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pronk_buffer::WeightCell;
use pronk_metrics::ByPolicy;
use pronk_policy::Params;
use xxhash_rust::xxh3::xxh3_64;

use crate::weights;
use crate::wire::{Piece, WeightsReply, seal};

/// Encoded versions that exist at once.
const PLACES: usize = 4;

/// How long a version keeps its place after a host has asked for a piece of it and needs more: a host that is
/// slower than this between two pieces may have to begin anew.
const IN_USE: Duration = Duration::from_secs(3);

/// The encoded versions that hosts are fetching.
pub(super) struct Shelf {
    cell: WeightCell<ByPolicy<Params>>,
    piece_len: usize,
    versions: Vec<Encoded>,
    /// The version of which a session needs more pieces, and when it last asked for one.
    pulls: BTreeMap<u64, (u64, Instant)>,
}

struct Encoded {
    version: u64,
    bytes: Bytes,
    digest: u64,
}

impl Shelf {
    pub(super) fn new(cell: WeightCell<ByPolicy<Params>>, piece_len: u32) -> Self {
        Self { cell, piece_len: piece_len.max(1) as usize, versions: Vec::new(), pulls: BTreeMap::new() }
    }

    /// The reply to a request of a session for a piece of `version`, or of the newest.
    pub(super) fn reply(&mut self, session: u64, version: Option<u64>, piece: u32, now: Instant) -> Bytes {
        // It pulls one version at a time.
        self.pulls.remove(&session);
        let place = match version {
            None => Some(self.newest(now)),
            Some(version) => self.versions.iter().position(|encoded| encoded.version == version),
        };
        let Some(encoded) = place.and_then(|place| self.versions.get(place)) else {
            return seal(&WeightsReply::Gone, &[]);
        };
        let (start, len) = (piece as usize * self.piece_len, encoded.bytes.len());
        let Some(body) = encoded.bytes.get(start..(start + self.piece_len).min(len)) else {
            return seal(&WeightsReply::Gone, &[]);
        };
        let pieces = len.div_ceil(self.piece_len) as u32;
        if piece + 1 < pieces {
            self.pulls.insert(session, (encoded.version, now));
        }
        let piece = Piece { version: encoded.version, pieces, len: len as u64, digest: encoded.digest };
        seal(&WeightsReply::Piece(piece), body)
    }

    /// The place of the newest version; of the newest encoded one while hosts need all of those there are.
    fn newest(&mut self, now: Instant) -> usize {
        let newest = self.cell.version();
        let known = (0..self.versions.len()).max_by_key(|&place| self.versions[place].version);
        let place = match known {
            Some(place) if self.versions[place].version == newest => return place,
            _ if self.versions.len() < PLACES => None,
            Some(known) => {
                self.pulls.retain(|_, (_, asked)| now.saturating_duration_since(*asked) < IN_USE);
                let is_free = |&place: &usize| {
                    let version = self.versions[place].version;
                    !self.pulls.values().any(|(pulled, _)| *pulled == version)
                };
                let free = (0..self.versions.len()).filter(is_free);
                match free.min_by_key(|&place| self.versions[place].version) {
                    Some(oldest) => Some(oldest),
                    None => return known,
                }
            }
            None => None,
        };
        let snapshot = self.cell.load();
        let bytes = Bytes::from(weights::encode(&snapshot));
        let encoded = Encoded { version: snapshot.version, digest: xxh3_64(&bytes), bytes };
        match place {
            Some(place) => {
                self.versions[place] = encoded;
                place
            }
            None => {
                self.versions.push(encoded);
                self.versions.len() - 1
            }
        }
    }
}
