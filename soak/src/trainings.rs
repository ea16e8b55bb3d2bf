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

use crate::arguments::Job;
use crate::envs::{Counted, Liar, LyingProcesses, cartpole, corridors};
use crate::output;

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) run: Run,
    pub(crate) cause: Option<TrainError>,
}

/// Trains until the end of the job's time, a signal or a failure.
pub(crate) type Train = fn(&Job) -> anyhow::Result<Ended>;

/// Two workers, a small network, a result every half second and a checkpoint every second; any number of
/// failures is tolerated.
pub(crate) fn config(job: &Job) -> TrainerConfig {
    let mut config = TrainerConfig { seed: job.seed, ..TrainerConfig::default() };
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

/// The run of a job: what it prints, its logs and its checkpoints.
pub(crate) fn begin(job: &Job, config: TrainerConfig, env: impl EnvFactory + 'static) -> TrainerBuilder<OneAgent> {
    dressed(job, Trainer::builder(config).env(env))
}

fn dressed<A>(job: &Job, run: TrainerBuilder<A>) -> TrainerBuilder<A> {
    let run = run.checkpoints(job.folder.join("checkpoints")).resume(Resume::auto());
    run.log_to(job.folder.join("log")).reporter(output::reporter())
}

pub(crate) fn to_the_end(job: &Job, trainer: Trainer) -> anyhow::Result<Ended> {
    let time = job.time();
    let ended = trainer.run(StopWhen { time, ..StopWhen::default() });
    Ok(match ended {
        Ok(run) => Ended { run, cause: None },
        Err(failed) => Ended { run: *failed.run, cause: Some(failed.cause) },
    })
}

pub(crate) fn train(job: &Job, config: TrainerConfig, env: impl EnvFactory + 'static) -> anyhow::Result<Ended> {
    to_the_end(job, begin(job, config, env).build()?)
}

pub(crate) fn plain(job: &Job) -> anyhow::Result<Ended> {
    let tensorboard = TensorBoard::create(job.folder.join("events"))?;
    to_the_end(job, begin(job, config(job), cartpole).reporter(tensorboard).build()?)
}

pub(crate) fn without_threads(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config(job);
    config.workers.num_rollout_workers = 0;
    train(job, config, cartpole)
}

pub(crate) fn in_turns(job: &Job) -> anyhow::Result<Ended> {
    let mut config = TrainerConfig { algorithm: PpoConfig::default().into(), ..config(job) };
    config.learner.admission = Admission::Deterministic { lag: 1 };
    config.learner.num_sgd_iter = 2;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(80);
    // An iteration has so many, whatever the time they take.
    config.results.min_sample_timesteps_per_iteration = 16_000;
    config.results.weights_digest = true;
    train(job, config, cartpole)
}

pub(crate) fn replayed(job: &Job) -> anyhow::Result<Ended> {
    let mut config = TrainerConfig { algorithm: AppoConfig::default().into(), ..config(job) };
    config.learner.replay_proportion = 0.5;
    config.learner.replay_buffer_num_slots = 50;
    config.learner.num_sgd_iter = 2;
    config.learner.minibatch_buffer_size = 2;
    config.learner.num_multi_gpu_tower_stacks = 2;
    config.learner.max_lag = Some(4);
    train(job, config, cartpole)
}

pub(crate) fn shared_inference(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config(job);
    config.workers.inference = InferencePlacement::Shared;
    config.workers.observation_filter = ObservationFilter::MeanStdFilter;
    config.workers.normalize_rewards = true;
    config.evaluation.every = Some(Duration::from_secs(1).into());
    train(job, config, cartpole)
}

fn config_of_groups(job: &Job) -> TrainerConfig {
    let mut config = config(job);
    config.workers.num_env_groups = 2;
    config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
    config
}

pub(crate) fn groups(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config_of_groups(job);
    config.model.use_lstm = true;
    config.model.lstm_cell_size = 8;
    train(job, config, cartpole)
}

pub(crate) fn policies(job: &Job) -> anyhow::Result<Ended> {
    let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    let run = Trainer::builder(config(job)).multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents);
    to_the_end(job, dressed(job, run).build()?)
}

fn chaos(job: &Job, chaos: ChaosConfig) -> impl EnvFactory + use<> {
    ChaosConfig { seed: job.seed, ..chaos }.wrap(|_: &EnvContext| Counted::new(CartPole::new()))
}

fn panicking(job: &Job) -> impl EnvFactory + use<> {
    chaos(job, ChaosConfig { panic: 5e-5, error: 5e-5, ..ChaosConfig::default() })
}

pub(crate) fn panics(job: &Job) -> anyhow::Result<Ended> {
    train(job, config(job), panicking(job))
}

pub(crate) fn panics_of_groups(job: &Job) -> anyhow::Result<Ended> {
    train(job, config_of_groups(job), panicking(job))
}

/// Hangs are longer than the watchdog waits, but end, so that abandoned threads end too.
pub(crate) fn hangs(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config(job);
    config.supervision.env_hang_timeout = Some(Duration::from_millis(300));
    let faults = ChaosConfig {
        hang: 2e-5,
        hang_for: Some(Duration::from_secs(1)),
        slow: 1e-4,
        slow_for: Duration::from_millis(100),
        ..ChaosConfig::default()
    };
    train(job, config, chaos(job, faults))
}

pub(crate) fn lies(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config(job);
    // Numbers that are finite and too large cost whole batches.
    config.learner.max_consecutive_quarantined = u32::MAX;
    train(job, config, |context: &EnvContext| Liar::new(context, 2000))
}

pub(crate) fn processes(job: &Job) -> anyhow::Result<Ended> {
    train(job, config(job), corridors(&job.tools, None))
}

pub(crate) fn lying_processes(job: &Job) -> anyhow::Result<Ended> {
    train(job, config(job), LyingProcesses::new(&job.tools))
}

pub(crate) fn recorded(job: &Job) -> anyhow::Result<Ended> {
    // Without fragments, which would fill the disk for good before it is filled for a while.
    let recording = Recording::to(job.folder.join("record"));
    to_the_end(job, begin(job, config(job), cartpole).record(recording).build()?)
}

/// A network whose learner alone needs more than the memory limit.
pub(crate) fn large(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config(job);
    config.model.fcnet_hiddens = vec![8192, 8192];
    train(job, config, cartpole)
}

/// One reporter blocks for seconds now and then; another panics, and is removed.
pub(crate) fn reporters(job: &Job) -> anyhow::Result<Ended> {
    let mut rng = Rng::seed_from(job.seed);
    let slow = reporter_fn("slow", move |_: &_| {
        if rng.below(8) == 0 {
            pause(Duration::from_secs_f64(4.0 * rng.next_f64()));
        }
        Ok(())
    });
    let panics = reporter_fn("panics", |_: &_| panic!("as planned"));
    to_the_end(job, begin(job, config(job), cartpole).reporter(slow).reporter(panics).build()?)
}

#[allow(clippy::disallowed_methods)] // a reporter that blocks
fn pause(time: Duration) {
    std::thread::sleep(time);
}
