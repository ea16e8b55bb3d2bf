//! What it costs to turn fragments into frames and back.
//!
//! `cargo bench -p pronk-hosts --bench frames`. Each way takes its turn in every round, among them a plain
//! copy of the uncompressed frame, and the figures are medians over the rounds, so that a noisy machine
//! disturbs all alike; only their ratios should be compared between machines. Decoding copies, checks every
//! number and fills versions.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use pronk_buffer::{
    ActionKind, ActionViewMut, BatchShape, MultiAgentBatch, ObsKind, ObsViewMut, Pool, SampleBatch, Tag,
};
use pronk_hosts::{Decoder, Encoder, Expected, ExpectedPolicy, Pixels, Sender};
use pronk_policy::Space;
use pronk_rollout::NormalizerConfig;

const SIDE: usize = 84;
const FRAME: usize = SIDE * SIDE;
const STACKED: usize = 4;

fn main() {
    // Under `cargo test --benches` once through is enough to see that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (rounds, bytes) = if is_bench { (101, 10_000_000) } else { (1, 1) };

    println!("medians of {rounds} rounds\n");
    println!("{:<52} {:>10} {:>8} {:>8} {:>8}", "fragment", "bytes", "µs", "GB/s", "/ copy");
    for (name, batch, expected) in fragments() {
        for (pixels, name) in [(Pixels::Raw, name.to_owned()), (Pixels::Zstd, format!("{name}, compressed"))] {
            let has_pixels = batch.policies().any(|(_, samples)| samples.shape().obs_kind == ObsKind::U8);
            if pixels == Pixels::Raw || has_pixels {
                measure(&name, &batch, &expected, pixels, rounds, bytes);
            }
        }
    }
}

/// Prints one line for each way. Rates are of the bytes of the uncompressed frame.
fn measure(name: &str, batch: &MultiAgentBatch, expected: &Expected, pixels: Pixels, rounds: usize, bytes: usize) {
    let sender = Sender { workers: 0..1, newest_version: 0 };
    let (mut encoder, mut decoder, pool) = (Encoder::default(), Decoder::default(), Pool::new(2));
    let (mut raw, mut frame) = (Vec::new(), Vec::new());
    encoder.encode(batch, Pixels::Raw, &mut raw);
    encoder.encode(batch, pixels, &mut frame);
    let (mut copy, mut out) = (raw.clone(), frame.clone());
    let times = (bytes / raw.len()).max(1);

    let mut nanos = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        nanos[0].push(time(times, || black_box(&mut copy).copy_from_slice(black_box(&raw))));
        nanos[1].push(time(times, || {
            out.clear();
            encoder.encode(black_box(batch), pixels, &mut out);
        }));
        nanos[2].push(time(times, || {
            black_box(decoder.decode(black_box(&frame), &pool, expected, &sender).unwrap());
        }));
    }
    let medians = nanos.map(median);
    println!("{name:<52} {:>10}   (raw {})", frame.len(), raw.len());
    for (way, nanos) in ["copy", "encode", "decode"].iter().zip(medians) {
        let (rate, ratio) = (raw.len() as f64 / nanos, nanos / medians[0]);
        println!("  {way:<50} {:>10} {:>8.1} {rate:>8.2} {ratio:>8.2}", "", nanos / 1000.0);
    }
}

/// Nanoseconds of one call.
fn time(times: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        call();
    }
    let took: Duration = start.elapsed();
    took.as_nanos() as f64 / times as f64
}

fn median(mut nanos: Vec<f64>) -> f64 {
    nanos.sort_by(f64::total_cmp);
    nanos[nanos.len() / 2]
}

fn fragments() -> Vec<(&'static str, MultiAgentBatch, Expected)> {
    let (two, eight) = (Space::discrete(2).unwrap(), boxed(8));
    vec![
        fragment("10 KB: T=32 B=8, 4 numbers, discrete", 32, 8, boxed(4), two),
        fragment("500 KB: T=64 B=32, 40 numbers, continuous", 64, 32, boxed(40), eight.clone()),
        fragment("5 MB: T=128 B=64, 128 numbers, continuous", 128, 64, boxed(128), eight),
        fragment("600 KB: T=20 B=1, pixels 4x84x84", 20, 1, pixel_space(), Space::discrete(6).unwrap()),
        fragment("5 MB: T=20 B=8, pixels 4x84x84", 20, 8, pixel_space(), Space::discrete(6).unwrap()),
        // One step of all columns is longer than what the compressor looks back upon.
        fragment("19 MB: T=20 B=32, pixels 4x84x84", 20, 32, pixel_space(), Space::discrete(6).unwrap()),
    ]
}

fn boxed(len: usize) -> Space {
    Space::boxed(vec![-1.0; len], vec![1.0; len], vec![len]).unwrap()
}

fn pixel_space() -> Space {
    Space::bytes(vec![STACKED, SIDE, SIDE]).unwrap()
}

fn fragment(
    name: &'static str,
    steps: usize,
    columns: usize,
    obs: Space,
    action: Space,
) -> (&'static str, MultiAgentBatch, Expected) {
    let has_pixels = obs == pixel_space();
    let shape = BatchShape {
        steps,
        columns,
        obs_len: obs.obs_len(),
        obs_kind: if has_pixels { ObsKind::U8 } else { ObsKind::F32 },
        act_len: action.act_len(),
        act_kind: if action.has_discrete_actions() { ActionKind::U32 } else { ActionKind::F32 },
        dist_len: action.dist_len(),
        state_len: 0,
    };
    let mut samples = SampleBatch::blank(shape, Tag::default());
    match samples.obs_mut() {
        ObsViewMut::F32(obs) => obs.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.7).sin()),
        ObsViewMut::U8(obs) => {
            for (i, row) in obs.chunks_exact_mut(STACKED * FRAME).enumerate() {
                let (t, b) = (i / columns, i % columns);
                for (age, screen) in row.chunks_exact_mut(FRAME).enumerate() {
                    draw(screen, t + age, b);
                }
            }
        }
    }
    if let ActionViewMut::F32(actions) = samples.actions_mut() {
        actions.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.3).cos());
    }
    samples.rewards_mut().iter_mut().step_by(17).for_each(|reward| *reward = 1.0);
    samples.behaviour_inputs_mut().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.1).sin());
    samples.behaviour_values_mut().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.2).sin());
    let policy = ExpectedPolicy::new(shape, &obs, action).unwrap();
    let expected = Expected::single(0, policy, NormalizerConfig::default()).unwrap();
    (name, MultiAgentBatch::single(samples), expected)
}

/// A screen like those of arcade games: a background of bands with some texture, and eight moving sprites.
fn draw(screen: &mut [u8], t: usize, env: usize) {
    for (y, line) in screen.chunks_exact_mut(SIDE).enumerate() {
        let band = [40, 87, 87, 142][y / 21];
        line.iter_mut()
            .enumerate()
            .for_each(|(x, pixel)| *pixel = band + (x * 7 + y * 13).is_multiple_of(11) as u8 * 9);
    }
    for sprite in 0..8 {
        let (x0, y0) =
            ((sprite * 31 + t * (1 + sprite % 3) + env * 5) % (SIDE - 8), (sprite * 19 + t + env) % (SIDE - 8));
        for (y, x) in (0..8).flat_map(|y| (0..6).map(move |x| (y, x))) {
            screen[(y0 + y) * SIDE + x0 + x] = (120 + sprite * 15) as u8 ^ ((x * y) % 5) as u8;
        }
    }
}
