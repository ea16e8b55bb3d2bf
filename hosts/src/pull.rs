//! Pulls the newest weights, piece by piece.

use bytes::{Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

use crate::ask::AskError;
use crate::wire::{Over, Piece, WeightsReply, WeightsRequest};

/// Memory that is asked for before the pieces are there.
const MAX_AHEAD: usize = 64 << 20;

/// A version of the weights, encoded.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pub(crate) version: u64,
    pub(crate) bytes: Bytes,
    /// XXH3 of the bytes.
    pub(crate) digest: u64,
    /// The length of all pieces but the last.
    pub(crate) piece_len: usize,
}

/// Why weights were not pulled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the learner no longer has the session")]
    Gone,
    #[error("the learner no longer has the version, which took too long to fetch")]
    TooSlow,
    #[error("the learner has no place for a newer version, while other hosts fetch older ones")]
    Busy,
    #[error("the run is over")]
    Over(Over),
    #[error("weights arrived damaged: {0}")]
    Damaged(String),
}

/// All pieces of the newest version, of at most `most` bytes. `ask` asks for one of them.
pub(crate) fn newest(
    request: &WeightsRequest,
    most: u64,
    mut ask: impl FnMut(&WeightsRequest) -> Result<(WeightsReply, Bytes), AskError>,
) -> Result<Encoded, PullError> {
    let (first, body) = piece(&WeightsRequest { version: None, piece: 0, ..*request }, &mut ask)?;
    if first.len > most {
        return Err(PullError::Damaged(format!("{} bytes where at most {most} are expected", first.len)));
    }
    let piece_len = body.len().max(1);
    let is_possible = body.is_empty() == (first.len == 0) && body.len() as u64 <= first.len;
    if !is_possible || u64::from(first.pieces) != first.len.div_ceil(piece_len as u64) {
        return Err(PullError::Damaged(format!("{} bytes in {} pieces", first.len, first.pieces)));
    }
    let mut all = BytesMut::new();
    if first.pieces > 1 {
        all.reserve(MAX_AHEAD.min(first.len as usize));
        all.extend_from_slice(&body);
    }
    for number in 1..first.pieces {
        let next = WeightsRequest { version: Some(first.version), piece: number, ..*request };
        // Only the version can be gone: if it is the session, the next attempt says so.
        let (next, body) = piece(&next, &mut ask).map_err(|error| match error {
            PullError::Gone => PullError::TooSlow,
            error => error,
        })?;
        if next != first || body.len() != piece_len.min(first.len as usize - all.len()) {
            return Err(PullError::Damaged(format!("piece {number} is of other weights")));
        }
        all.extend_from_slice(&body);
    }
    let bytes = if first.pieces > 1 { all.freeze() } else { body };
    match xxh3_64(&bytes) == first.digest {
        true => Ok(Encoded { version: first.version, bytes, digest: first.digest, piece_len }),
        false => Err(PullError::Damaged("their digest is wrong".to_owned())),
    }
}

fn piece(
    request: &WeightsRequest,
    ask: &mut impl FnMut(&WeightsRequest) -> Result<(WeightsReply, Bytes), AskError>,
) -> Result<(Piece, Bytes), PullError> {
    match ask(request)? {
        (WeightsReply::Piece(piece), body) => Ok((piece, body)),
        (WeightsReply::Gone, _) => Err(PullError::Gone),
        (WeightsReply::Over(over), _) => Err(PullError::Over(over)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these pieces of weights that claim to have `len` bytes, and how many were asked for.
    fn pulled(bodies: &[&'static [u8]], pieces: u32, len: u64) -> (Result<Encoded, PullError>, usize) {
        let digest = xxh3_64(&bodies.concat());
        let (mut asked, request) = (0, WeightsRequest { session: 1, run: 1, version: None, at_least: 0, piece: 0 });
        let pulled = newest(&request, 1 << 20, |_| {
            let body = bodies.get(asked).copied().unwrap_or_default();
            asked += 1;
            Ok((WeightsReply::Piece(Piece { version: 7, pieces, len, digest }), Bytes::from_static(body)))
        });
        (pulled, asked)
    }

    #[test]
    fn pieces_make_up_what_they_claim_or_are_refused_at_the_first_that_cannot() {
        for (bodies, pieces, len, most_asked) in [
            // Empty ones would be asked for for ever.
            (&[&b""[..]][..], 1 << 20, 1 << 20, 1),
            (&[b"ab", b""], 3, 5, 2),
            (&[b"ab", b"c", b"de"], 3, 5, 2),
            (&[b"abcde"], 1, 4, 1),
            (&[b"ab", b"cd", b"ef"], 3, 5, 3),
        ] {
            let (pulled, asked) = pulled(bodies, pieces, len);
            assert!(matches!(pulled, Err(PullError::Damaged(_))), "{bodies:?}: {pulled:?}");
            assert!(asked <= most_asked, "{bodies:?}: asked {asked} times");
        }
        for bodies in [&[&b"ab"[..], b"cd", b"e"][..], &[b"abcde"], &[b""]] {
            let (pulled, _) = pulled(
                bodies,
                bodies.concat().len().div_ceil(bodies[0].len().max(1)) as u32,
                bodies.concat().len() as u64,
            );
            assert_eq!(pulled.unwrap().bytes, bodies.concat());
        }
    }
}
