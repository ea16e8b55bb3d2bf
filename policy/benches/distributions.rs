//! Nanoseconds for each row of what losses ask of the action distributions.
//!
//! `cargo bench -p pronk-policy --bench distributions`
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pronk_policy::{ActionsMut, ActionsRef, Categorical, Distribution, KlTerm, Rng};

/// A batch of CartPole's.
const ROWS: usize = 640;

fn main() {
    // Without `--bench` cargo runs this as a test: then it only has to work.
    let repeats = if std::env::args().any(|arg| arg == "--bench") { 2_000 } else { 1 };
    println!("{:>7} {:>18} {:>6} {:>15} {:>10}", "actions", "logp and entropy", "both", "gradients, kl", "kl alone");
    for n in [2, 3, 6, 18] {
        measure(n, repeats);
    }
}

fn measure(n: usize, repeats: u32) {
    let d = Categorical::new(n).unwrap();
    let mut rng = Rng::seed_from(0);
    let [p, q]: [Vec<f32>; 2] = std::array::from_fn(|_| (0..ROWS * n).map(|_| rng.normal() as f32).collect());
    let mut actions = vec![0; ROWS];
    let [mut logp, mut entropy, mut kl] = std::array::from_fn(|_| vec![0.0; ROWS]);
    d.sample(&p, &mut rng, ActionsMut::Discrete(&mut actions), &mut logp).unwrap();
    let (actions, weight, mut grad) = (ActionsRef::Discrete(&actions), vec![0.5; ROWS], vec![0.0; ROWS * n]);
    // The median, since other programs interrupt some.
    let per_row = |body: &mut dyn FnMut()| {
        let mut times: Vec<Duration> = (0..repeats)
            .map(|_| {
                let began = Instant::now();
                body();
                began.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2].as_nanos() as f64 / ROWS as f64
    };
    let evaluating = per_row(&mut || d.logp_and_entropy(black_box(&q), actions, &mut logp, &mut entropy).unwrap());
    let two = per_row(&mut || d.logp_and_entropy_grad(black_box(&q), actions, &weight, &weight, &mut grad).unwrap());
    let three = per_row(&mut || {
        let term = KlTerm { p: &p, weight: &weight, out: &mut kl };
        d.loss_grad(black_box(&q), actions, &weight, &weight, term, &mut grad).unwrap();
    });
    let alone = per_row(&mut || d.kl(black_box(&p), &q, &mut kl).unwrap());
    println!("{n:>7} {evaluating:>18.1} {two:>6.1} {three:>15.1} {alone:>10.1}");
}
