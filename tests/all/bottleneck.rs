//! The bottleneck of a measured run is a stage of it. `benches/bottleneck.rs` compares predictions with what
//! comes true.

use pronk::envs::CartPole;
use pronk::prelude::*;

use crate::fixtures::small;
use crate::measure;

#[test]
fn what_is_measured_names_a_stage_as_the_limit_and_no_thread_that_waits() {
    let mut config = small(1);
    config.results.min_time_s_per_iteration = measure::ITERATION_SECS / 20.0;
    let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let line = measure::measure(trainer, 16).unwrap();
    let limit = line.get("limit").and_then(|limit| limit.as_str()).unwrap();
    let stages = ["environments", "inference", "loading", "learner", "processors", "one_thread", "balance"];
    assert!(stages.contains(&limit), "{limit} is no stage of a run: {}", line.to_json_line());
    // A thread that waits by design is shown with its state and is never the limit.
    assert!(line.number("threads.supervisor.watching").is_some_and(|share| share > 0.5), "{}", line.to_json_line());
}
