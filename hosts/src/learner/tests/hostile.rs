//! Messages that no host sends. `PRONK_FUZZ_SECS=300 cargo test -p pronk-hosts hostile` runs them for longer.

use pronk_rollout::{EpisodeStat, ReturnStat};

use super::*;
use crate::wire::{KindTime, WeightsRequest};

/// Numbers that differ from seed to seed (SplitMix64).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// A number that is often at an edge.
    fn number(&mut self, usual: u64) -> u64 {
        match self.below(8) {
            0 => u64::MAX,
            1 => 1 << self.below(64),
            2 => self.next(),
            _ => usual,
        }
    }

    fn float(&mut self, usual: f64) -> f64 {
        match self.below(8) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::from_bits(self.next()),
            _ => usual,
        }
    }
}

/// Damages a header in one place, or not at all.
fn change(header: &mut Vec<u8>, draws: &mut Draws) {
    let at = draws.below(header.len());
    match draws.below(6) {
        0 => header.truncate(at),
        1 => header[at] ^= 1 << draws.below(8),
        2 => header[at] = draws.next() as u8,
        // A varint that says it is long.
        3 => drop(header.splice(at..at, [0xFF, 0xFF, 0xFF, 0xFF, 0x0F])),
        4 => drop(header.splice(at..at, (0..9).map(|_| draws.next() as u8).collect::<Vec<_>>())),
        _ => {}
    }
}

/// A message of this header with the right checksum, whatever the header says.
fn sealed(header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut message = b"pronk\n".to_vec();
    message.extend(crate::wire::PROTOCOL.to_le_bytes());
    message.extend(crc32c::crc32c(header).to_le_bytes());
    message.extend((header.len() as u32).to_le_bytes());
    [&message, header, body].concat()
}

fn statement(draws: &mut Draws) -> Statement {
    let mut steps = |usual| Steps { env: draws.number(usual), agent: draws.number(usual) };
    let (sampled, dropped, lost) = (steps(20), steps(1), steps(2));
    Statement { sampled, dropped: vec![("shutdown".into(), dropped)], lost: vec![("env_error".into(), lost)] }
}

fn report(draws: &mut Draws) -> WorkerReport {
    let episode = EpisodeStat {
        worker: draws.number(10) as u32,
        index: draws.next() as u32,
        seed: draws.next(),
        episode_return: draws.float(1.0),
        episode_len: draws.next() as u32,
    };
    let returns = ReturnStat { n: draws.number(1), sum: draws.float(1.0), min: 0.0, max: draws.float(2.0) };
    WorkerReport {
        fragments: draws.number(1),
        n_episodes: draws.number(1),
        len_sum: draws.number(4),
        return_sum: draws.float(1.0),
        return_min: Some(draws.float(0.0)),
        episodes: vec![episode; draws.below(3)],
        policy_returns: ByPolicy::from([("p".into(), returns)]),
        failures: vec!["failed".into(); draws.below(4)],
        ..WorkerReport::default()
    }
}

/// A message of a host, its numbers drawn; the header and the body.
fn message(host: &Joined, next: (u64, u64), draws: &mut Draws) -> (Op, Vec<u8>, Vec<u8>) {
    let session = host.session;
    match draws.below(8) {
        0 => (Op::Join, postcard::to_stdvec(&Knock::Hello(hello())).unwrap(), Vec::new()),
        1 => (Op::Join, postcard::to_stdvec(&Knock::Join(join())).unwrap(), Vec::new()),
        2 => {
            let (version, at_least, piece) = (Some(draws.number(0)), draws.next(), draws.next() as u32);
            let asked = WeightsRequest { session, run: draws.number(7), version, at_least, piece };
            (Op::Weights, postcard::to_stdvec(&asked).unwrap(), Vec::new())
        }
        3 | 4 => {
            let time = KindTime {
                kind: "rollout".into(),
                wall_secs: draws.float(1.0),
                states: vec![("waiting".into(), draws.float(1.0))],
                threads: draws.number(1),
            };
            let beat = Beat {
                session,
                number: draws.number(next.1),
                statement: statement(draws),
                report: report(draws),
                gave_up: vec!["why".into(); draws.below(2)],
                times: vec![time; draws.below(2)],
                drains: draws.below(2) == 0,
                leaves: (draws.below(20) == 0).then(|| "why".into()),
            };
            (Op::Beat, postcard::to_stdvec(&beat).unwrap(), Vec::new())
        }
        _ => {
            let mut frame = frame(Tag { worker: host.first_worker, ..Tag::default() });
            if draws.below(3) == 0 {
                change(&mut frame, draws);
            }
            let checksum = crc32c::crc32c(&frame) ^ u32::from(draws.below(10) == 0);
            let statement = if draws.below(2) == 0 { made(20) } else { statement(draws) };
            let (courier, number) = (draws.below(3) as u32, draws.number(next.0));
            let header = Shipment { session, courier, number, statement, checksum };
            (Op::Ship, postcard::to_stdvec(&header).unwrap(), frame)
        }
    }
}

/// Sends drawn messages to one desk; how many it took until it shut the host out.
fn attack(seed: u64, cases: usize) -> usize {
    let mut draws = Draws(seed);
    let bench = Bench::new();
    let mut joined = bench.host("a").joined;
    let mut next = (1, 1);
    let mut sent = 0;
    for case in 0..cases {
        sent += 1;
        let (op, mut header, body) = message(&joined, next, &mut draws);
        let mut bytes = match draws.below(3) {
            0 => {
                change(&mut header, &mut draws);
                sealed(&header, &body)
            }
            _ => sealed(&header, &body),
        };
        match draws.below(12) {
            0 => change(&mut bytes, &mut draws),
            1 => bytes = (0..draws.below(200)).map(|_| draws.next() as u8).collect(),
            _ => {}
        }
        let (len, reply) = (bytes.len() as u64, Reply::new(|_| {}));
        let request = Request { op, from: "a".into(), bytes: bytes.into(), reply };
        let used = allocation_counter::measure(|| bench.desk.accept(request));
        assert!(used.bytes_max < 64 * 1024 + 64 * len, "seed {seed} case {case}: {len} bytes took {used:?}");
        match op {
            Op::Ship if draws.below(2) == 0 => next.0 = 1 + next.0 % 3,
            Op::Beat => next.1 += 1,
            _ => {}
        }
        if draws.below(2) == 0 {
            bench.inlet();
            bench.train();
        }
        let totals = bench.steps.snapshot();
        assert!(totals.is_closed(), "seed {seed} case {case}: {totals:?}");
        for report in bench.reports.drain() {
            assert!(report.return_sum.is_finite() && report.n_episodes < 1 << 50, "{report:?}");
        }
        let sessions = bench.desk.members().sessions.values().next_back().map(|session| session.joined.clone());
        joined = match sessions {
            Some(session) => session,
            None => match bench.knock("a", &Knock::Join(join())) {
                Door::Joined(again) => {
                    next = (1, 1);
                    again
                }
                // Shut out.
                _ => break,
            },
        };
    }
    bench.inlet();
    bench.assert_closed();
    sent
}

#[test]
fn no_message_makes_the_desk_panic_or_allocate_without_bounds_or_miscount() {
    let secs = std::env::var("PRONK_FUZZ_SECS").ok().and_then(|secs| secs.parse().ok());
    let within = Duration::from_secs(secs.unwrap_or(0));
    let began = Instant::now();
    let (mut seed, mut sent) = (0, 0);
    while seed < 1500 || began.elapsed() < within {
        sent += attack(seed, 100);
        seed += 1;
    }
    assert!(sent > 10_000, "{sent} messages to {seed} desks");
    if secs.is_some() {
        eprintln!("{sent} messages to {seed} desks in {:.0} s", began.elapsed().as_secs_f64());
    }
}
