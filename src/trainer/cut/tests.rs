use pronk_rollout::{EnvContext, EpisodeStat};

use super::*;
use crate::config::TrainerConfig;
use crate::envs::CartPole;

#[test]
fn the_last_checkpoint_has_what_was_reported_since_the_last_result() {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 0;
    let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    trainer.worker_restarts = 1;
    trainer.iteration.workers.restarts = 2;
    let episode = EpisodeStat { worker: 0, index: 0, seed: 0, episode_return: 5.0, episode_len: 5 };
    trainer.iteration.workers.episodes.push(episode);
    let saved = trainer.saved(StepTotals::default());
    assert_eq!((saved.worker_restarts, saved.episodes.len()), (3, 1));
}
