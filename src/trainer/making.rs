//! Makes the workers of a run, on this machine or on another.

use std::sync::Arc;

use pronk_buffer::{ShutdownToken, WeightCell};
use pronk_metrics::{ByPolicy, TimeLedger};
use pronk_policy::Params;
use pronk_rollout::{InferencePort, InferenceThread, MakeWorker, Reaper, StartError, WorkerLinks, WorkerSeat};

use super::run_spec::RunSpec;
use crate::config::{InferencePlacement, TrainerConfig};
use crate::error::TrainError;

/// Makes workers, and later their replacements.
pub(super) fn maker(
    spec: Arc<RunSpec>,
    config: TrainerConfig,
    (time, reaper): (&TimeLedger, &Reaper),
    (port, links): (Option<InferencePort>, WorkerLinks),
) -> Arc<MakeWorker> {
    let (time, reaper) = (time.clone(), reaper.handle());
    Arc::new(move |seat: &WorkerSeat| {
        let (monitor, slots) = (seat.monitor.of_run(&time, &reaper), Arc::clone(&seat.slots));
        let links = WorkerLinks { monitor, slots, life: spec.life, ..links.clone() };
        spec.worker(seat, &config, port.as_ref(), links)
    })
}

/// Starts the shared inference thread, if the config has one.
pub(super) fn share_inference(
    config: &TrainerConfig,
    spec: &RunSpec,
    weights: WeightCell<ByPolicy<Params>>,
    token: &ShutdownToken,
    time: &TimeLedger,
) -> Result<Option<(InferenceThread, InferencePort)>, TrainError> {
    if config.workers.inference == InferencePlacement::PerWorker {
        return Ok(None);
    }
    let started = InferenceThread::start(spec.acting_network()?, weights, token, time);
    let no_thread = |cause| StartError::Spawn { thread: InferenceThread::NAME.to_owned(), cause };
    Ok(Some(started.map_err(no_thread)?))
}
