//! How long clipping and a step of the optimiser take per parameter, beside the same arithmetic in separate
//! passes.
//!
//! `cargo bench -p pronk-learner --bench optim`. Samples of the two are taken in turn, so a noisy machine
//! disturbs both alike; the ratio of the medians is what to compare between machines.
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pronk_learner::{Adam, AdamConfig, LearnError, Optimizer, RmsProp, RmsPropConfig, StepOptions, clip_global_norm};

/// Parameters and the size of their gradients: those of an MLP 4-64-64 with its heads; the same when its
/// policy has become certain, so that the gradients' squares are too small for normal floats; those of a
/// Nature CNN.
const CASES: [(usize, f32); 3] = [(4_675, 1.0), (4_675, 1e-20), (1_690_000, 1.0)];
const LR: f32 = 1e-3;
/// Shorter than ordinary gradients, so that there is something to scale.
const MAX_NORM: f64 = 0.5;

fn main() -> Result<(), Box<dyn Error>> {
    // Without `--bench` cargo runs this as a test: then it only has to work.
    let samples = if std::env::args().any(|arg| arg == "--bench") { 301 } else { 1 };
    println!("clipping and a step, one thread, medians of {samples} samples, ns per parameter");
    println!("{:<8} {:>10} {:>9} {:>8} {:>9} {:>7}", "", "parameters", "gradients", "fused", "separate", "ratio");
    for (n, size) in CASES {
        let grads: Vec<f32> = (0..n).map(|i| size * (i as f32 * 0.7).sin()).collect();
        report("adam", samples, &grads, Adam::new(n, AdamConfig::default())?, SeparateAdam::new(n))?;
        let rmsprop = RmsProp::new(n, RmsPropConfig::default())?;
        report("rmsprop", samples, &grads, rmsprop, SeparateRmsProp { mean_square: vec![1.0; n] })?;
    }
    Ok(())
}

fn report(
    name: &str,
    samples: usize,
    grads: &[f32],
    mut fused: impl Optimizer,
    mut separate: impl SeparatePasses,
) -> Result<(), Box<dyn Error>> {
    let n = grads.len();
    let (mut ours, mut theirs) = (vec![0.5_f32; n], vec![0.5_f32; n]);
    let mut separate_grads = grads.to_vec();
    let norms = (fused_update(&mut fused, &mut ours, grads)?, separate.update(&mut theirs, &mut separate_grads));
    let weights_differ = ours.iter().zip(&theirs).any(|(ours, theirs)| (ours - theirs).abs() > 1e-6);
    if weights_differ || (norms.0 / norms.1 - 1.0).abs() > 1e-6 {
        return Err(format!("{name}: the two disagree").into());
    }

    let (mut fused_secs, mut separate_secs) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        fused_secs.push(secs_per_call(|| fused_update(&mut fused, &mut ours, black_box(grads)))?);
        // It shortens its gradients in place, so that later steps find short ones; they are scaled all the
        // same.
        separate_secs.push(secs_per_call(|| Ok(separate.update(&mut theirs, black_box(&mut separate_grads))))?);
    }
    let [ours, theirs] = [fused_secs, separate_secs].map(|mut secs| {
        secs.sort_by(f64::total_cmp);
        secs[secs.len() / 2] * 1e9 / n as f64
    });
    let size = grads.iter().fold(0.0_f32, |size, grad| size.max(grad.abs()));
    println!("{name:<8} {n:>10} {size:>9.0e} {ours:>8.3} {theirs:>9.3} {:>7.2}", theirs / ours);
    Ok(())
}

/// What the learner does.
fn fused_update(optimizer: &mut impl Optimizer, params: &mut [f32], grads: &[f32]) -> Result<f64, LearnError> {
    let norm = clip_global_norm(grads, Some(MAX_NORM));
    optimizer.step(params, grads, StepOptions { lr: LR, grad_scale: norm.grad_scale as f32 })
}

/// Mean over as many calls as fit in much less than a busy machine's time slice, so that most samples are
/// undisturbed.
fn secs_per_call(mut call: impl FnMut() -> Result<f64, LearnError>) -> Result<f64, LearnError> {
    let start = Instant::now();
    let mut calls = 0;
    while calls == 0 || start.elapsed() < Duration::from_micros(200) {
        black_box(call()?);
        calls += 1;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(calls))
}

/// The same arithmetic in four passes: norm, scaling, step, norm of the weights.
trait SeparatePasses {
    fn step(&mut self, params: &mut [f32], grads: &[f32]);

    fn update(&mut self, params: &mut [f32], grads: &mut [f32]) -> f64 {
        let norm = l2_norm(grads);
        let factor = (MAX_NORM / (norm + 1e-6)) as f32;
        grads.iter_mut().for_each(|grad| *grad *= factor.min(1.0));
        self.step(params, grads);
        l2_norm(params)
    }
}

/// With several sums, because one would wait for each addition.
fn l2_norm(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<8>();
    let square = |value: &f32| f64::from(*value) * f64::from(*value);
    let mut sums = [0.0; 8];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += square(value);
        }
    }
    (sums.iter().sum::<f64>() + rest.iter().map(square).sum::<f64>()).sqrt()
}

struct SeparateAdam {
    steps: i32,
    mean: Vec<f32>,
    mean_square: Vec<f32>,
}

impl SeparateAdam {
    fn new(n: usize) -> Self {
        Self { steps: 0, mean: vec![0.0; n], mean_square: vec![0.0; n] }
    }
}

impl SeparatePasses for SeparateAdam {
    fn step(&mut self, params: &mut [f32], grads: &[f32]) {
        self.steps += 1;
        let lr = LR / (1.0 - 0.9_f32.powi(self.steps));
        let scale = 1.0 / (1.0 - 0.999_f32.powi(self.steps)).sqrt();
        let moments = self.mean.iter_mut().zip(&mut self.mean_square);
        for ((param, &grad), (mean, mean_square)) in params.iter_mut().zip(grads).zip(moments) {
            *mean = 0.9 * *mean + 0.1 * grad;
            *mean_square = 0.999 * *mean_square + 0.001 * grad * grad;
            *param -= lr * *mean / (mean_square.sqrt() * scale + 1e-8);
        }
    }
}

struct SeparateRmsProp {
    mean_square: Vec<f32>,
}

impl SeparatePasses for SeparateRmsProp {
    fn step(&mut self, params: &mut [f32], grads: &[f32]) {
        for ((param, &grad), mean_square) in params.iter_mut().zip(grads).zip(&mut self.mean_square) {
            *mean_square = 0.99 * *mean_square + 0.01 * grad * grad;
            *param -= LR * grad / (*mean_square + 0.1).sqrt();
        }
    }
}
