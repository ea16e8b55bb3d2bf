//! Workers on other machines, which here are threads of the same process on a network without sockets.

use std::time::Duration;

use pronk::Rng;
use pronk::buffer::{ShutdownGuard, ShutdownToken, shutdown};
use pronk::hosts::{MemoryNetwork, Terms, Toll};
use pronk::prelude::*;

use crate::arguments::Job;
use crate::envs::cartpole;
use crate::trainings::{Ended, begin, config, to_the_end};

/// Hosts that come, go and are cut off, over a network that loses, repeats and damages.
pub(crate) fn train(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config(job);
    config.workers.num_rollout_workers = 0;
    let network = MemoryNetwork::with_toll(Toll {
        seed: job.seed,
        lose_requests: 0.01,
        lose_replies: 0.01,
        repeat: 0.05,
        damage: 0.001,
        delay: Duration::from_micros(200),
    });
    let terms = Terms { lease: Duration::from_secs(2), beat: Duration::from_millis(100), ..Terms::default() };
    let trainer = begin(job, config, cartpole).listen(network.listen(), terms).build()?;
    std::thread::scope(|threads| {
        // Dropped at the end of the run, or if the second thread cannot be started.
        let (over, run) = shutdown();
        for (name, seed) in [("a", 1), ("b", 2)] {
            let (network, run, rng) = (&network, run.clone(), Rng::stream(job.seed, &[seed]));
            let host = move || come_and_go(network, name, rng, &run);
            std::thread::Builder::new().name(format!("host-{name}")).spawn_scoped(threads, host)?;
        }
        let ended = to_the_end(job, trainer);
        drop(over);
        ended
    })
}

/// Joins, leaves or is cut off, and joins again, until the run is over.
fn come_and_go(network: &MemoryNetwork, name: &str, mut rng: Rng, run: &ShutdownToken) {
    while !run.is_shut_down() {
        network.cut(name, false);
        let (leaves, token) = shutdown();
        let host = Trainer::builder(TrainerConfig::default()).env(cartpole).connect(network.dial(name));
        let host = host.workers(1).patience(Duration::from_secs(10)).until(token);
        let stay = Duration::from_secs_f64(0.5 + 4.0 * rng.next_f64());
        let cut = (rng.below(2) == 0).then_some((network, name));
        std::thread::scope(|threads| {
            threads.spawn(|| leave(run, stay, cut, leaves));
            // After it has left, was refused or found no learner, it joins again.
            let _ = host.run();
        });
    }
}

/// Ends a host after its stay. One that is cut off loses its lease, as it cannot announce that it leaves.
fn leave(run: &ShutdownToken, stay: Duration, cut: Option<(&MemoryNetwork, &str)>, leaves: ShutdownGuard) {
    let is_over = run.sleep(stay).is_err();
    if let Some((network, name)) = cut.filter(|_| !is_over) {
        network.cut(name, true);
        let _ = run.sleep(Duration::from_secs(3));
    }
    drop(leaves);
}
