//! A custom algorithm: REINFORCE with a learned baseline, on CartPole-v1.
//!
//! ```text
//! cargo run --release --example own_algorithm
//! ```
//!
//! An algorithm maps a batch and the network's outputs to gradients of these outputs, as slices. Queues,
//! passes, minibatches, checkpoints and metrics come with the trainer. The last line on stdout is one JSON
//! object; the exit status is 0 only when the return was reached.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::process::ExitCode;

use clap::Parser;
use pronk::buffer::{ActionView, SampleBatch};
use pronk::envs::CartPole;
use pronk::learner::{Advantages, EpisodeEnds, GaeInput, GaeOutput, LossInputs, gae};
use pronk::metrics::Info;
use pronk::policy::{ActionsRef, OutputGrads};
use pronk::prelude::*;
use pronk::{Algorithm, LearnError};

/// The policy gradient with advantage `return - value`, and a squared loss of the value.
struct Reinforce {
    gamma: f32,
}

impl Algorithm for Reinforce {
    fn name(&self) -> &'static str {
        "reinforce"
    }

    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError> {
        inputs.check(batch)?;
        let (steps, columns) = (batch.shape().steps, batch.shape().columns);
        let rows = steps * columns;

        // Returns: ends cut them, and the value of what follows goes on where an episode was merely
        // interrupted.
        let (values, bootstrap) = inputs.values.split_at(rows);
        let final_values = batch.final_obs().index().iter().copied().zip(inputs.final_values.iter().copied());
        let mut ends = EpisodeEnds::default();
        ends.fold(self.gamma, columns, batch.rewards(), batch.ends(), final_values)?;
        let EpisodeEnds { rewards, discounts } = &ends;
        let mut targets = GaeOutput::default();
        let input = GaeInput { steps, columns, rewards, discounts, values, bootstrap };
        gae(1.0, Advantages::Return, &input, &mut targets)?;

        // loss = −Σ advantage · log π(a) + ¼ Σ (value − return)²
        let ActionView::U32(actions) = batch.actions() else {
            return Err(LearnError::Config { reason: "it is written for actions that are indices".to_owned() });
        };
        grads.reset(inputs.values.len(), inputs.distribution.dist_len());
        let n = rows * inputs.distribution.dist_len();
        let weights: Vec<f32> = targets.advantages.iter().map(|advantage| -advantage).collect();
        let actions = ActionsRef::Discrete(actions);
        inputs.distribution.logp_grad(&inputs.logits[..n], actions, &weights, &mut grads.logits[..n])?;
        let mut vf_loss = 0.0;
        for (i, target) in targets.value_targets.iter().enumerate() {
            let error = values[i] - target;
            grads.values[i] = 0.5 * error;
            vf_loss += 0.25 * f64::from(error * error);
        }
        Ok(Info::tree([("vf_loss", vf_loss)]))
    }
}

/// Trains CartPole-v1 with REINFORCE.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    saving: saving::Saving,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 16;
    config.workers.rollout_fragment_length = 32;
    config.learner.train_batch_size = 512;
    config.learner.lr = 0.002;
    config.model.fcnet_hiddens = vec![64, 64];
    config.results.min_time_s_per_iteration = 0.1;
    let builder = args.saving.builder(config, "runs/own_algorithm").env(|_: &EnvContext| CartPole::new());
    let trainer = builder.algorithm(Reinforce { gamma: 0.98 }).build()?;
    let run = trainer.run(StopWhen {
        episode_return_mean: Some(200.0),
        env_steps: Some(2_000_000),
        ..StopWhen::default()
    })?;
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}
