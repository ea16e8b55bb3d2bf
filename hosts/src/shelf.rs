//! [`Shelf`]: encoded weights, shared by all hosts that fetch them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::pull::Encoded;
use crate::sync::Instant;
use crate::wire::{Piece, WeightsReply, seal};

/// Encoded versions that exist at once.
const PLACES: usize = 4;

/// How long a version keeps its place after a host has asked for a piece of it and needs more: a host that is
/// slower than this between two pieces may have to begin anew.
const IN_USE: Duration = Duration::from_secs(3);

/// Pulls that are remembered, one for each host that a learner may have: a relay does not know which sessions
/// there are.
const MAX_PULLS: usize = 1 << 16;

/// The encoded versions that hosts are fetching.
#[derive(Default)]
pub(crate) struct Shelf {
    versions: Vec<Encoded>,
    /// The version of which a session needs more pieces, and when it last asked for one.
    pulls: BTreeMap<u64, (u64, Instant)>,
}

impl Shelf {
    /// The newest version on it.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.versions.iter().map(|encoded| encoded.version).max()
    }

    /// Whether there is a place for another version, now that `session` begins to fetch the newest one.
    pub(crate) fn has_place(&mut self, session: u64, now: Instant) -> bool {
        // It fetches one version at a time.
        self.pulls.remove(&session);
        self.place(now).is_some()
    }

    /// Puts a version on it, in the place of the oldest that no host needs, if there is one.
    pub(crate) fn put(&mut self, encoded: Encoded, now: Instant) {
        match self.place(now) {
            Some(place) if place == self.versions.len() => self.versions.push(encoded),
            Some(place) => self.versions[place] = encoded,
            None => {}
        }
    }

    /// The reply to a request of a session for a piece.
    pub(crate) fn reply(&mut self, session: u64, version: u64, piece: u32, now: Instant) -> Bytes {
        self.pulls.remove(&session);
        let Some(encoded) = self.versions.iter().find(|encoded| encoded.version == version) else {
            return seal(&WeightsReply::Gone, &[]);
        };
        let Encoded { bytes, digest, piece_len, .. } = encoded;
        let (start, len) = ((piece as usize).saturating_mul(*piece_len), bytes.len());
        let Some(body) = bytes.get(start..start.saturating_add(*piece_len).min(len)) else {
            return seal(&WeightsReply::Gone, &[]);
        };
        let pieces = len.div_ceil(*piece_len) as u32;
        if piece + 1 < pieces && self.pulls.len() < MAX_PULLS {
            self.pulls.insert(session, (version, now));
        }
        let piece = Piece { version, pieces, len: len as u64, digest: *digest };
        seal(&WeightsReply::Piece(piece), body)
    }

    /// Where the next version goes: an empty place, or that of the oldest version that no host needs.
    fn place(&mut self, now: Instant) -> Option<usize> {
        self.pulls.retain(|_, (_, asked)| now.saturating_duration_since(*asked) < IN_USE);
        if self.versions.len() < PLACES {
            return Some(self.versions.len());
        }
        let is_free = |&place: &usize| {
            let version = self.versions[place].version;
            !self.pulls.values().any(|(pulled, _)| *pulled == version)
        };
        (0..self.versions.len()).filter(is_free).min_by_key(|&place| self.versions[place].version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulls_under_invented_numbers_are_remembered_to_a_bound() {
        let (mut shelf, now) = (Shelf::default(), Instant::now());
        let encoded = |version| Encoded { version, bytes: Bytes::from_static(b"ab"), digest: 0, piece_len: 1 };
        shelf.put(encoded(1), now);
        for session in 0..2 * MAX_PULLS as u64 {
            shelf.reply(session, 1, 0, now);
        }
        assert_eq!(shelf.pulls.len(), MAX_PULLS);
        shelf.put(encoded(2), now + IN_USE);
        assert!(shelf.pulls.is_empty());
    }
}
