//! What the cells train.

use std::num::NonZeroUsize;
use std::time::Duration;

use pronk::config::{Admission, InferencePlacement, ObservationFilter};
use pronk::envs::{CartPole, TicTacToe};
use pronk::prelude::*;
use pronk::trainer::OneAgent;
use pronk::wrappers::ChaosConfig;
use pronk::{
    AppoConfig, EnvFactory, Gather, MultiAgentConfig, PpoConfig, Recording, Resume, Rng, Run, TensorBoard, TrainError,
    TrainerBuilder, reporter_fn,
};

use crate::arguments::Scene;
use crate::envs::{Counted, Liar, LyingProcesses, cartpole, corridors};
use crate::tell::Teller;

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) run: Run,
    pub(crate) cause: Option<TrainError>,
}

/// Trains until the end of the scene's time, a signal or a failure.
pub(crate) type Train = fn(&Scene) -> anyhow::Result<Ended>;

/// Two workers, a small network, a result every half second and a checkpoint every second; failures may go on
/// for ever.
pub(crate) fn config(scene: &Scene) -> TrainerConfig {
    let mut config = TrainerConfig { seed: scene.seed, ..TrainerConfig::default() };
    config.workers.num_envs_per_worker = 4;
    config.workers.rollout_fragment_length = 20;
    config.learner.train_batch_size = 160;
    config.learner.learner_queue_timeout = Duration::from_secs(1);
    config.model.fcnet_hiddens = vec![16];
    config.results.min_time_s_per_iteration = 0.5;
    config.checkpoint.every = Duration::from_secs(1).into();
    config.supervision.num_consecutive_worker_failures_tolerance = u32::MAX;
    config.supervision.max_num_worker_restarts = u32::MAX;
    config.supervision.worker_restart_backoff_max = Duration::from_millis(100);
    config
}

/// The run of a scene: what it says, its logs and its checkpoints.
pub(crate) fn begin(scene: &Scene, config: TrainerConfig, env: impl EnvFactory + 'static) -> TrainerBuilder<OneAgent> {
    dressed(scene, Trainer::builder(config).env(env))
}

fn dressed<A>(scene: &Scene, run: TrainerBuilder<A>) -> TrainerBuilder<A> {
    let run = run.checkpoints(scene.folder.join("checkpoints")).resume(Resume::auto());
    run.log_to(scene.folder.join("log")).reporter(Teller)
}

pub(crate) fn to_the_end(scene: &Scene, trainer: Trainer) -> anyhow::Result<Ended> {
    let time = scene.time();
    let ended = trainer.run(StopWhen { time, ..StopWhen::default() });
    Ok(match ended {
        Ok(run) => Ended { run, cause: None },
        Err(failed) => Ended { run: *failed.run, cause: Some(failed.cause) },
    })
}

pub(crate) fn train(scene: &Scene, config: TrainerConfig, env: impl EnvFactory + 'static) -> anyhow::Result<Ended> {
    to_the_end(scene, begin(scene, config, env).build()?)
}

pub(crate) fn plain(scene: &Scene) -> anyhow::Result<Ended> {
    let tensorboard = TensorBoard::create(scene.folder.join("events"))?;
    to_the_end(scene, begin(scene, config(scene), cartpole).reporter(tensorboard).build()?)
}

pub(crate) fn without_threads(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    config.workers.num_rollout_workers = 0;
    train(scene, config, cartpole)
}

pub(crate) fn in_turns(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = TrainerConfig { algorithm: PpoConfig::default().into(), ..config(scene) };
    config.learner.admission = Admission::Deterministic { lag: 1 };
    config.learner.num_sgd_iter = 2;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(80);
    // An iteration has so many, whatever the time they take.
    config.results.min_sample_timesteps_per_iteration = 16_000;
    config.results.weights_digest = true;
    train(scene, config, cartpole)
}

pub(crate) fn replayed(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = TrainerConfig { algorithm: AppoConfig::default().into(), ..config(scene) };
    config.learner.replay_proportion = 0.5;
    config.learner.replay_buffer_num_slots = 50;
    config.learner.num_sgd_iter = 2;
    config.learner.minibatch_buffer_size = 2;
    config.learner.num_multi_gpu_tower_stacks = 2;
    config.learner.max_lag = Some(4);
    train(scene, config, cartpole)
}

pub(crate) fn shared_inference(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    config.workers.inference = InferencePlacement::Shared;
    config.workers.observation_filter = ObservationFilter::MeanStdFilter;
    config.workers.normalize_rewards = true;
    config.evaluation.every = Some(Duration::from_secs(1).into());
    train(scene, config, cartpole)
}

pub(crate) fn groups(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    config.workers.num_env_groups = 2;
    config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
    config.model.use_lstm = true;
    config.model.lstm_cell_size = 8;
    train(scene, config, cartpole)
}

pub(crate) fn policies(scene: &Scene) -> anyhow::Result<Ended> {
    let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    let run = Trainer::builder(config(scene)).multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents);
    to_the_end(scene, dressed(scene, run).build()?)
}

fn chaos(scene: &Scene, chaos: ChaosConfig) -> impl EnvFactory + use<> {
    ChaosConfig { seed: scene.seed, ..chaos }.wrap(|_: &EnvContext| Counted::new(CartPole::new()))
}

pub(crate) fn panics(scene: &Scene) -> anyhow::Result<Ended> {
    let faults = ChaosConfig { panic: 5e-5, error: 5e-5, ..ChaosConfig::default() };
    train(scene, config(scene), chaos(scene, faults))
}

pub(crate) fn panics_of_groups(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    config.workers.num_env_groups = 2;
    config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
    let faults = ChaosConfig { panic: 5e-5, error: 5e-5, ..ChaosConfig::default() };
    train(scene, config, chaos(scene, faults))
}

/// Hangs are longer than the supervisor waits, but end, so that abandoned threads do.
pub(crate) fn hangs(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    config.supervision.env_hang_timeout = Some(Duration::from_millis(300));
    let faults = ChaosConfig {
        hang: 2e-5,
        hang_for: Some(Duration::from_secs(1)),
        slow: 1e-4,
        slow_for: Duration::from_millis(100),
        ..ChaosConfig::default()
    };
    train(scene, config, chaos(scene, faults))
}

pub(crate) fn lies(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    // Numbers that are finite and too large cost whole batches.
    config.learner.max_consecutive_quarantined = u32::MAX;
    train(scene, config, |context: &EnvContext| Liar::new(context, 2000))
}

pub(crate) fn processes(scene: &Scene) -> anyhow::Result<Ended> {
    train(scene, config(scene), corridors(&scene.tools, None))
}

pub(crate) fn lying_processes(scene: &Scene) -> anyhow::Result<Ended> {
    train(scene, config(scene), LyingProcesses::new(&scene.tools))
}

pub(crate) fn recorded(scene: &Scene) -> anyhow::Result<Ended> {
    let recording = Recording::to(scene.folder.join("record")).with_fragments();
    to_the_end(scene, begin(scene, config(scene), cartpole).record(recording).build()?)
}

/// A network whose learner alone needs more than the memory limit.
pub(crate) fn large(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    config.model.fcnet_hiddens = vec![8192, 8192];
    train(scene, config, cartpole)
}

/// One reporter blocks for seconds now and then; another panics, and is left out.
pub(crate) fn reporters(scene: &Scene) -> anyhow::Result<Ended> {
    let mut rng = Rng::seed_from(scene.seed);
    let slow = reporter_fn("slow", move |_: &_| {
        if rng.below(8) == 0 {
            pause(Duration::from_secs_f64(4.0 * rng.next_f64()));
        }
        Ok(())
    });
    let panics = reporter_fn("panics", |_: &_| panic!("no ink"));
    to_the_end(scene, begin(scene, config(scene), cartpole).reporter(slow).reporter(panics).build()?)
}

#[allow(clippy::disallowed_methods)] // a reporter that blocks
fn pause(time: Duration) {
    std::thread::sleep(time);
}
