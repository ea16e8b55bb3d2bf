//! [`Store`]: the weights of a run, for hosts.

use bytes::Bytes;
use pronk_buffer::WeightCell;
use pronk_metrics::ByPolicy;
use pronk_policy::Params;
use xxhash_rust::xxh3::xxh3_64;

use crate::pull::Encoded;
use crate::shelf::Shelf;
use crate::sync::Instant;
use crate::weights;

/// Encodes the newest weights once for all hosts.
pub(crate) struct Store {
    cell: WeightCell<ByPolicy<Params>>,
    piece_len: usize,
    shelf: Shelf,
}

impl Store {
    pub(crate) fn new(cell: WeightCell<ByPolicy<Params>>, piece_len: u32) -> Self {
        Self { cell, piece_len: piece_len.max(1) as usize, shelf: Shelf::default() }
    }

    /// The reply to a request of a session for a piece of `version`, or of the newest; of the newest encoded
    /// one while hosts need all of those there are.
    pub(crate) fn reply(&mut self, session: u64, version: Option<u64>, piece: u32, now: Instant) -> Bytes {
        let version = version.or_else(|| {
            if self.shelf.newest() != Some(self.cell.version()) && self.shelf.has_place(session, now) {
                let snapshot = self.cell.load();
                let bytes = Bytes::from(weights::encode(&snapshot));
                let (version, digest, piece_len) = (snapshot.version, xxh3_64(&bytes), self.piece_len);
                self.shelf.put(Encoded { version, bytes, digest, piece_len }, now);
            }
            self.shelf.newest()
        });
        self.shelf.reply(session, version.unwrap_or_default(), piece, now)
    }
}
