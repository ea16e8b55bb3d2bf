//! Encoded weights, shared by all hosts that fetch them.

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

/// How long a version keeps its place after a host has asked for a piece of it: a host that is slower than
/// this between two pieces begins anew.
const IN_USE: Duration = Duration::from_secs(3);

/// The encoded versions that hosts are fetching.
pub(super) struct Shelf {
    cell: WeightCell<ByPolicy<Params>>,
    piece_len: usize,
    versions: Vec<Encoded>,
}

struct Encoded {
    version: u64,
    bytes: Bytes,
    digest: u64,
    used: Instant,
}

impl Shelf {
    pub(super) fn new(cell: WeightCell<ByPolicy<Params>>, piece_len: u32) -> Self {
        Self { cell, piece_len: piece_len.max(1) as usize, versions: Vec::new() }
    }

    /// The reply to a request for a piece of `version`, or of the newest.
    pub(super) fn reply(&mut self, version: Option<u64>, piece: u32) -> Bytes {
        let now = Instant::now();
        let place = match version {
            None => Some(self.newest(now)),
            Some(version) => self.versions.iter().position(|encoded| encoded.version == version),
        };
        let Some(encoded) = place.and_then(|place| self.versions.get_mut(place)) else {
            return seal(&WeightsReply::Gone, &[]);
        };
        encoded.used = now;
        let (start, len) = (piece as usize * self.piece_len, encoded.bytes.len());
        let Some(body) = encoded.bytes.get(start..(start + self.piece_len).min(len)) else {
            return seal(&WeightsReply::Gone, &[]);
        };
        let piece = Piece {
            version: encoded.version,
            pieces: len.div_ceil(self.piece_len) as u32,
            len: len as u64,
            digest: encoded.digest,
        };
        seal(&WeightsReply::Piece(piece), body)
    }

    /// The place of the newest version; of the newest encoded one while all places are in use.
    fn newest(&mut self, now: Instant) -> usize {
        let newest = self.cell.version();
        let known = (0..self.versions.len()).max_by_key(|&place| self.versions[place].version);
        let place = match known {
            Some(place) if self.versions[place].version == newest => return place,
            _ if self.versions.len() < PLACES => None,
            Some(known) => {
                let oldest = (0..self.versions.len()).min_by_key(|&place| self.versions[place].used);
                match oldest {
                    Some(oldest) if now - self.versions[oldest].used >= IN_USE => Some(oldest),
                    _ => return known,
                }
            }
            None => None,
        };
        let snapshot = self.cell.load();
        let bytes = Bytes::from(weights::encode(&snapshot));
        let encoded = Encoded { version: snapshot.version, digest: xxh3_64(&bytes), bytes, used: now };
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
