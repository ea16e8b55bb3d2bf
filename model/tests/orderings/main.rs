//! What depends on memory orderings, under every execution that they allow. `cargo xtask model` runs it.
//!
//! loom runs threads, atomics and fences of its own. A file that depends on orderings takes them from its
//! parent module: in a program these are the library's, and a model mounts the file below those of loom.
#![cfg(pronk_model)]
#![allow(clippy::print_stdout)] // How many executions were tried is the result of a model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

mod calls;
mod clock;
mod sync;
mod weights;

/// With more of them there are too many executions. What a relaxed load may see is not bounded by it.
const PREEMPTIONS: usize = 3;

/// Runs `model` in every execution that the orderings allow and that has at most three preemptions. Prints
/// how many that were.
fn exhaust(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check({
        let executions = Arc::clone(&executions);
        move || {
            executions.fetch_add(1, Ordering::Relaxed);
            model();
        }
    });
    let tried = executions.load(Ordering::Relaxed);
    println!("model {name}: all {tried} executions with {PREEMPTIONS} preemptions");
}
