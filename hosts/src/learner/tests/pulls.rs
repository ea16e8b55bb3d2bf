use super::*;
use crate::learner::store::Store;
use crate::wire::{Over, Piece, WeightsReply, WeightsRequest};

const SECOND: Duration = Duration::from_secs(1);

/// A shelf whose weights are four pieces of 1 KiB.
struct Pulls {
    store: Store,
    publisher: WeightPublisher<ByPolicy<Params>>,
    began: Instant,
}

impl Pulls {
    fn new() -> Self {
        let (publisher, cell) = weight_cell(params(0.0));
        Self { store: Store::new(cell, 1 << 10), publisher, began: Instant::now() }
    }

    /// A piece, asked for so long after the beginning.
    fn ask(&mut self, session: u64, version: Option<u64>, piece: u32, at: Duration) -> Option<(Piece, Bytes)> {
        match open(&self.store.reply(session, version, piece, self.began + at)).unwrap() {
            (WeightsReply::Piece(piece), body) => Some((piece, body)),
            (WeightsReply::Gone, _) => None,
            (reply, _) => panic!("{reply:?}"),
        }
    }

    /// Begins to pull the newest version; which one it is.
    fn begin(&mut self, session: u64, at: Duration) -> u64 {
        self.ask(session, None, 0, at).unwrap().0.version
    }

    fn publish(&mut self, fill: f32) -> u64 {
        self.publisher.publish(params(fill))
    }
}

#[test]
fn a_slow_pull_is_of_one_version_while_newer_ones_are_published() {
    let mut pulls = Pulls::new();
    let (first, mut all) = pulls.ask(1, None, 0, Duration::ZERO).map(|(piece, body)| (piece, body.to_vec())).unwrap();
    assert_eq!(first.pieces, 4);
    for piece in 1..first.pieces {
        for other in 2..10 {
            pulls.publish(other as f32);
            let version = pulls.begin(other, piece * 2 * SECOND);
            assert!(version > first.version);
        }
        let (next, body) = pulls.ask(1, Some(first.version), piece, piece * 2 * SECOND).unwrap();
        assert_eq!(next, first);
        all.extend_from_slice(&body);
    }
    assert_eq!((all.len() as u64, xxhash_rust::xxh3::xxh3_64(&all)), (first.len, first.digest));
}

#[test]
fn a_stalled_pull_loses_its_place_to_others_after_three_seconds() {
    let mut pulls = Pulls::new();
    let mut versions = Vec::new();
    for session in 0..4 {
        versions.push(pulls.begin(session, Duration::ZERO));
        pulls.publish(session as f32);
    }
    // All four places are needed, so that another host gets the newest of them.
    assert_eq!(pulls.begin(4, 2 * SECOND), versions[3]);
    assert!(pulls.ask(0, Some(versions[0]), 1, 2 * SECOND).is_some());
    // By now sessions 1 to 3 have stalled. The newest version takes the place of the oldest of theirs.
    let newest = pulls.publisher.version();
    assert_eq!(pulls.begin(5, 4 * SECOND), newest);
    assert_eq!(pulls.ask(1, Some(versions[1]), 1, 4 * SECOND), None);
    for session in [0, 2, 3] {
        assert!(pulls.ask(session, Some(versions[session as usize]), 2, 4 * SECOND).is_some(), "{session}");
    }
}

#[test]
fn hosts_that_have_all_pieces_hold_no_place_so_the_newest_version_is_there_at_once() {
    let mut pulls = Pulls::new();
    for round in 0..20 {
        let newest = pulls.publish(round as f32);
        for session in 0..3 {
            assert_eq!(pulls.begin(session, Duration::ZERO), newest);
            for piece in 1..4 {
                assert!(pulls.ask(session, Some(newest), piece, Duration::ZERO).is_some());
            }
        }
    }
}

#[test]
fn pieces_and_versions_that_do_not_exist_are_gone() {
    let mut pulls = Pulls::new();
    let version = pulls.begin(1, Duration::ZERO);
    for (version, piece) in [(Some(version), 5), (Some(version), u32::MAX), (Some(version + 1), 0), (None, u32::MAX)] {
        assert_eq!(pulls.ask(1, version, piece, Duration::ZERO), None);
    }
}

/// A host's question for the newest weights.
fn asking(host: &Host<'_>) -> WeightsRequest {
    WeightsRequest { session: host.joined.session, run: 7, version: None, at_least: 0, piece: 0 }
}

#[test]
fn asking_for_weights_is_a_sign_of_life() {
    let bench = Bench::new();
    let host = bench.host("a");
    let session = bench.desk.members().sessions.values().next().cloned().unwrap();
    let before = session.lock().seen;
    let request = asking(&host);
    let reply = bench.ask("a", Op::Weights, &request);
    assert!(reply.waits() && session.lock().seen > before);
    assert_eq!(bench.asked.try_recv().unwrap().session.id, host.joined.session);
}

#[test]
fn weights_are_for_sessions_of_a_run_that_goes_on() {
    let bench = Bench::new();
    let host = bench.host("a");
    let request = asking(&host);
    let of_another_run = WeightsRequest { run: 6, ..asking(&host) };
    assert!(matches!(bench.ask("a", Op::Weights, &of_another_run).now(), Some(WeightsReply::Gone)));
    // One too many for the keeper: no reply comes.
    let replies: Vec<_> = (0..17).map(|_| bench.ask("a", Op::Weights, &request)).collect();
    assert!(replies[15].waits() && replies[16].is_dropped());
    bench.desk.close(Over::Finished);
    assert!(matches!(bench.ask("a", Op::Weights, &request).now(), Some(WeightsReply::Over(Over::Finished))));
    bench.assert_closed();
    assert_eq!(bench.publisher.version(), bench.desk.news().version);
}
