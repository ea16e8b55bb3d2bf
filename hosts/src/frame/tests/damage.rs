//! Bytes that were damaged on the way or never were a frame: no panic, no batch outside the bounds, and no
//! more memory than a small multiple of the frame and the largest batch.

use allocation_counter::measure;
use proptest::prelude::*;
use proptest::sample::Index;

use super::parts::Parts;
use super::*;

/// Decodes what may be anything, and checks what comes of it and the memory that it took.
fn decode_anything(bytes: &[u8], bounds: &Expected) -> Option<FrameError> {
    let pool = Pool::new(0);
    let mut result = None;
    let memory = measure(|| result = Some(Decoder::default().decode(bytes, &pool, bounds, &sender())));
    let limit = 16 * bytes.len() + 2 * bounds.max_bytes() + 1024;
    assert!(memory.bytes_total <= limit as u64, "{} bytes for a frame of {}", memory.bytes_total, bytes.len());
    match result.unwrap() {
        Ok(batch) => {
            assert_within(&batch, bounds);
            None
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Some(error)
        }
    }
}

/// Small frames with everything in them.
fn frames() -> Vec<(Expected, Vec<u8>)> {
    let (two, normalized) = (two_policies(), normalized());
    let pixels = single(&pixels(60), &Space::discrete(3).unwrap(), SMALL);
    vec![
        (two.clone(), encode(&fragment(&two, 3), Pixels::Raw)),
        (normalized.clone(), encode(&fragment(&normalized, 4), Pixels::Raw)),
        (pixels.clone(), encode(&fragment(&pixels, 5), Pixels::Zstd)),
    ]
}

#[test]
fn a_frame_with_any_one_bit_flipped_is_refused_or_inside_the_bounds() {
    for (bounds, mut frame) in frames() {
        let mut n_refused = 0;
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            n_refused += usize::from(decode_anything(&frame, &bounds).is_some());
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(n_refused > 0);
        assert!(decode_anything(&frame, &bounds).is_none());
    }
}

#[test]
fn a_frame_cut_off_anywhere_or_with_bytes_added_is_corrupt() {
    for (bounds, frame) in frames() {
        for len in 0..frame.len() {
            let error = decode_anything(&frame[..len], &bounds).unwrap();
            assert!(error.is_corrupt(), "{len}: {error}");
        }
        for more in [1, 2, 1000] {
            let longer = [&frame[..], &vec![0; more]].concat();
            let error = decode_anything(&longer, &bounds).unwrap();
            assert!(matches!(error, FrameError::Length { .. }), "{error}");
        }
    }
}

#[test]
fn a_header_that_claims_huge_sizes_takes_no_memory_for_them() {
    let claims: [fn(&mut Parts); 12] = [
        |it| it.head.policies = usize::MAX,
        |it| it.head.moments = usize::MAX,
        |it| it.head.env_steps = u64::MAX,
        |it| it.policies[0].n_tags = usize::MAX,
        |it| it.policies[0].n_finals = usize::MAX,
        |it| it.policies[0].n_runs = usize::MAX,
        |it| it.policies[0].packed = Some(usize::MAX),
        |it| it.policies[0].shape.columns = usize::MAX,
        |it| it.policies[0].shape.steps = usize::MAX,
        |it| it.policies[0].shape.obs_len = usize::MAX,
        |it| it.policies[0].shape.state_len = usize::MAX,
        // As many as the bounds allow, of which the header has none.
        |it| (it.policies[0].n_tags, it.policies[0].n_finals, it.policies[0].n_runs) = (1000, 100_000, 100_000),
    ];
    // A large run, of which a tiny frame claims much.
    let sizes = Sizes { steps: 100, max_columns: 1000, state_len: 0 };
    let bounds = single(&floats(1000), &Space::discrete(3).unwrap(), sizes);
    let small = samples(bounds.policy("default_policy").unwrap().1, 1, &mut Numbers(0));
    let original = Parts::of(&encode(&MultiAgentBatch::single(small), Pixels::Raw));
    for (i, claim) in claims.into_iter().enumerate() {
        let mut parts = Parts::of(&original.frame());
        claim(&mut parts);
        parts.columns.clear();
        parts.policies[0].shape.columns = parts.policies[0].shape.columns.max(1000);
        let frame = parts.frame();
        let mut refused = false;
        let memory = measure(|| {
            refused = Decoder::default().decode(&frame, &Pool::new(0), &bounds, &sender()).is_err();
        });
        assert!(refused, "claim {i}");
        let limit = 16 * frame.len() as u64 + 1024;
        assert!(memory.bytes_total <= limit, "claim {i}: {} bytes, frame of {}", memory.bytes_total, frame.len());
    }
}

#[test]
fn moments_that_claim_huge_lengths_take_no_memory_for_them() {
    let bounds = normalized();
    let mut parts = Parts::of(&encode(&fragment(&bounds, 1), Pixels::Raw));
    (parts.moments, parts.columns) = (Vec::new(), Vec::new());
    let header = &parts.frame()[4..];
    // Moments of observations: present, no rows, 2^63 means.
    let claim = [&[1, 0][..], &[0x80; 9], &[1]].concat();
    let frame = super::parts::frame(&[header, &claim].concat(), &[]);
    let mut error = None;
    let memory = measure(|| error = Decoder::default().decode(&frame, &Pool::new(0), &bounds, &sender()).err());
    assert!(matches!(error, Some(FrameError::Header { what: "moments", .. })), "{error:?}");
    assert!(memory.bytes_total <= 16 * frame.len() as u64 + 1024, "{} bytes", memory.bytes_total);
}

/// A change of some bytes of a frame.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
}

impl Change {
    fn apply(&self, frame: &mut Vec<u8>) {
        if frame.is_empty() {
            return;
        }
        let end = |at: usize, len: usize| (at + len).min(frame.len());
        match self {
            Self::Set(at, byte) => *at.get_mut(frame) = *byte,
            Self::Flip(at, bit) => *at.get_mut(frame) ^= 1 << (bit % 8),
            Self::Insert(at, bytes) => {
                let at = at.index(frame.len());
                frame.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(at, len) => {
                let at = at.index(frame.len());
                frame.drain(at..end(at, *len));
            }
            Self::Repeat(at, len) => {
                let at = at.index(frame.len());
                let twice = frame[at..end(at, *len)].to_vec();
                frame.splice(at..at, twice);
            }
            Self::Cut(at) => frame.truncate(at.index(frame.len())),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let any_place = any::<Index>();
    prop_oneof![
        4 => (any_place.clone(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        4 => (any_place.clone(), any::<u8>()).prop_map(|(at, bit)| Change::Flip(at, bit)),
        2 => (any_place.clone(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, it)| Change::Insert(at, it)),
        2 => (any_place.clone(), 1..9_usize).prop_map(|(at, len)| Change::Remove(at, len)),
        2 => (any_place.clone(), 1..40_usize).prop_map(|(at, len)| Change::Repeat(at, len)),
        1 => any_place.prop_map(Change::Cut),
    ]
}

/// Damaged frames of each kind; `PROPTEST_CASES=1000000 cargo test -p pronk-hosts damage` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_frame_changed_anywhere_is_refused_or_inside_the_bounds(
        which in 0..3_usize,
        changes in prop::collection::vec(change(), 1..5),
    ) {
        let (bounds, mut frame) = frames().swap_remove(which);
        changes.iter().for_each(|change| change.apply(&mut frame));
        decode_anything(&frame, &bounds);
    }

    /// The length in front is right, so that the header is looked at.
    #[test]
    fn a_frame_with_a_changed_header_is_refused_or_inside_the_bounds(
        which in 0..3_usize,
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let (bounds, frame) = frames().swap_remove(which);
        let len = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
        let mut header = frame[4..4 + len].to_vec();
        changes.iter().for_each(|change| change.apply(&mut header));
        decode_anything(&super::parts::frame(&header, &frame[4 + len..]), &bounds);
    }

    #[test]
    fn bytes_that_never_were_a_frame_are_refused(header in prop::collection::vec(any::<u8>(), 0..200)) {
        let (bounds, _) = frames().swap_remove(0);
        prop_assert!(decode_anything(&header, &bounds).is_some());
        prop_assert!(decode_anything(&super::parts::frame(&header, &[]), &bounds).is_some());
    }
}
