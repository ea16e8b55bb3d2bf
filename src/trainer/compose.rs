//! Composes the result of an iteration: every key of the result dict is written here.

use std::time::{Duration, Instant};

use pronk_learner::OverwriteLearnerInfo;
use pronk_metrics::{
    LearnerInfo, ResultDict, StepTotals, Steps, ThreadTime, round_half_even, write_shares, write_thread_times,
};
use serde_json::json;

use super::cut::Cut;
use super::engine::Engine;
use super::episodes::write_policy_returns;
use super::handle::Trainer;
use super::iteration::Iteration;
use super::processors::ProcessorTime;
use crate::bottleneck::{Bottleneck, OldData, Processors};
use crate::config::Admission;
use crate::result::TrainResult;
use crate::stop::StopWhen;

impl Trainer {
    /// Composes the next result, starts the next iteration, and passes the result to the reporters. Steps are
    /// those of the `cut`, if there is one, from which a resumed run continues.
    pub(super) fn compose(&mut self, stop: Option<&StopWhen>, cut: Option<&Cut>) -> TrainResult {
        let now = Instant::now();
        let time = self.time.read();
        let processors = ProcessorTime::now(&time);
        let mut iteration = std::mem::replace(&mut self.iteration, Iteration::first(now, processors));
        let time_this_iteration = now - iteration.started;
        let time_total = self.time_before + (now - self.started);
        let steps = cut.map_or_else(|| self.steps.snapshot(), |cut| cut.learner().steps.clone());
        let used = processors.since(iteration.processors_before);
        let episodes = self.history.summarise(&iteration.workers);
        self.iterations += 1;
        self.worker_restarts += iteration.workers.restarts;
        self.env_failures.add(&iteration.workers);
        self.updates += iteration.learner.updates;
        self.fragments_added += iteration.workers.steps;
        self.version = self.version.max(iteration.learner.version);
        self.training_iteration.push(time_this_iteration);
        let trained_this_iter = steps.trained_passes - iteration.steps_before.trained_passes;
        self.training_iteration.push_units(trained_this_iter.env as f64);

        let learner_info = iteration.take_info();
        let mut result = TrainResult {
            iteration: self.iterations,
            env_steps_sampled: steps.sampled.env,
            env_steps_trained: steps.trained_passes.env,
            env_steps_trained_once: steps.trained_once.env,
            episodes_this_iteration: episodes.this_iteration,
            episode_return_mean: episodes.return_mean,
            episode_len_mean: episodes.len_mean,
            episodes_covered: episodes.covered,
            enough_episodes: episodes.enough,
            policy_returns: self.history.policies(&iteration.workers),
            episodes_asked: self.config.results.metrics_num_episodes_for_smoothing as u64,
            time_total,
            time_this_iteration,
            effective_sample_size: smallest_sample_size(&learner_info),
            learner_info,
            policy_lag: iteration.learner.lag,
            bottleneck: self.bottleneck(&time, &iteration.time_before, used),
            steps,
            time,
            dict: ResultDict::new(),
        };

        let old_data = OldData::find(result.effective_sample_size, result.policy_lag.mean());
        result.bottleneck = result.bottleneck.map(|found| found.with_old_data(old_data));

        let mut dict = ResultDict::new();
        dict.set("training_iteration", result.iteration);
        dict.set("life", self.spec.life);
        dict.set("deterministic", self.promise.to_json());
        if let Some(log) = &self.log {
            dict.set("weights_digest", log.weights().to_string());
            dict.set("digest_chain", log.chain().to_string());
            if let Some(failure) = log.failure() {
                dict.set("record_failed", failure);
            }
        }
        dict.set("time_this_iter_s", time_this_iteration.as_secs_f64());
        dict.set("time_total_s", time_total.as_secs_f64());
        if let Some(progress) = stop.and_then(|stop| stop.progress(&result)) {
            dict.set("progress", progress);
        }
        episodes.write_into(&mut dict);
        self.history.write_histograms(&mut dict);
        for under in ["", "sampler_results."] {
            write_policy_returns(&mut dict, under, &result.policy_returns);
        }
        self.write_steps(&mut dict, &result.steps, &iteration.steps_before);
        self.write_info(&mut dict, &result);
        self.write_health(&mut dict, iteration.infos_replaced);
        self.write_workers(&mut dict, &iteration);
        self.write_hosts(&mut dict);
        if let Some(resumed) = &self.resumed {
            resumed.write_into(&mut dict);
        }
        if let Some(saves) = &mut self.saves {
            saves.write_into(&mut dict);
            saves.note_progress(self.iterations, result.env_steps_sampled);
        }
        if let Some(evaluations) = &mut self.evaluations {
            evaluations.write_into(&mut dict, result.env_steps_sampled);
        }
        write_throughput(&mut dict, &result, &iteration);
        dict.set("policy_lag", result.policy_lag.to_json());
        dict.set("policy_lag.effective_sample_size", json!(result.effective_sample_size));
        dict.set("bottleneck", json!(result.bottleneck.as_ref().map(Bottleneck::to_json)));
        write_ledgers(&mut dict, &result, &iteration.time_before);
        if let Some(failure) = &self.failure {
            dict.set("run_failed", failure.as_str());
        }
        dict.set("custom_metrics", json!({}));
        dict.set("episode_media", json!({}));
        result.dict = dict;
        self.iteration = Iteration::after(&result, now, processors);
        let shown = Instant::now();
        self.reporters.report(&result.dict);
        self.reporting.push(shown.elapsed());
        result
    }

    /// The bottleneck of an iteration; without advice if workers have given up or are on other machines,
    /// because the configured number is then not the actual one.
    fn bottleneck(
        &self,
        now: &[ThreadTime],
        before: &[ThreadTime],
        processors: Option<Processors>,
    ) -> Option<Bottleneck> {
        let local = self.config.workers.num_rollout_workers;
        let hosts = self.engine.as_ref().and_then(|engine| engine.hosts());
        let workers = (!self.spec.has_no_threads(&self.config)).then_some(local);
        let found = Bottleneck::find(now, before, workers, processors)?;
        let is_as_set = |engine: &Engine| engine.healthy_workers() == local.max(1);
        let are_all_there = hosts.is_none() && self.engine.as_ref().is_some_and(is_as_set);
        Some(if are_all_there { found } else { Bottleneck { advice: None, ..found } })
    }

    /// RLlib's step counters: at the top level, and every counter under `counters` and in `info`.
    fn write_steps(&self, dict: &mut ResultDict, now: &StepTotals, before: &StepTotals) {
        let dropped = |steps: &StepTotals| steps.dropped.values().copied().sum::<Steps>();
        let lost = |steps: &StepTotals| steps.lost.values().copied().sum::<Steps>();
        let counters = [
            ("num_env_steps_sampled", now.sampled.env),
            ("num_env_steps_trained", now.trained_passes.env),
            ("num_env_steps_trained_once", now.trained_once.env),
            ("num_env_steps_dropped", dropped(now).env),
            ("num_env_steps_lost", lost(now).env),
            ("num_agent_steps_sampled", now.sampled.agent),
            ("num_agent_steps_trained", now.trained_passes.agent),
            ("num_agent_steps_trained_once", now.trained_once.agent),
            ("num_samples_added_to_queue", self.fragments_added.agent),
            ("num_weight_broadcasts", self.version),
            ("num_batches_quarantined", self.learner_metrics.read().num_quarantined),
        ];
        for (name, count) in counters {
            dict.set(&format!("counters.{name}"), count);
            dict.set(&format!("info.{name}"), count);
        }
        let is_total = |name: &str| name.contains("_sampled") || name.contains("_trained");
        for (name, count) in counters.into_iter().filter(|(name, _)| is_total(name)) {
            dict.set(name, count);
        }
        let sampled = now.sampled - before.sampled;
        let trained = now.trained_passes - before.trained_passes;
        dict.set("num_env_steps_sampled_this_iter", sampled.env);
        dict.set("num_env_steps_trained_this_iter", trained.env);
        dict.set("num_agent_steps_sampled_this_iter", sampled.agent);
        dict.set("num_agent_steps_trained_this_iter", trained.agent);
        dict.set("num_steps_trained_this_iter", trained.env);
        dict.set("timesteps_total", now.sampled.env);
        dict.set("agent_timesteps_total", now.sampled.agent);
    }

    /// `info.learner` is all passes of the iteration merged; when there was none, the learner's last info.
    fn write_info(&self, dict: &mut ResultDict, result: &TrainResult) {
        let overwrite = if result.learner_info.is_empty() {
            OverwriteLearnerInfo::Yes
        } else {
            dict.set("info.learner", result.learner_info.to_json());
            OverwriteLearnerInfo::No
        };
        self.learner_metrics.add_learner_metrics(dict, overwrite);
        // Without threads, and under deterministic admission, there is no such queue.
        let has_queue = !self.spec.has_no_threads(&self.config) && self.config.learner.admission == Admission::Free;
        dict.set("info.learner_queue.capacity", json!(has_queue.then(|| self.config.inqueue_size())));
        dict.set("timers.training_iteration_time_ms", self.training_iteration.mean_ms_rounded());
        let throughput = self.training_iteration.mean_throughput().unwrap_or(0.0);
        dict.set("timers.training_iteration_throughput", round_half_even(throughput, 3));
        dict.set("timers.reporting_time_ms", self.reporting.mean_ms_rounded());
    }

    /// Problems of the learner that did not end it: `learner_health`.
    fn write_health(&self, dict: &mut ResultDict, infos_replaced: u64) {
        let learner = self.learner_metrics.read();
        dict.set("learner_health.batches_quarantined", learner.num_quarantined);
        dict.set("learner_health.last_quarantine", json!(learner.last_quarantine));
        dict.set("learner_health.starved", json!(learner.starved.map(|diagnosis| diagnosis.to_string())));
        dict.set("learner_health.infos_replaced", infos_replaced);
    }

    fn write_workers(&self, dict: &mut ResultDict, iteration: &Iteration) {
        let healthy = match &self.engine {
            // Those that have ended because there are no more turns count as long as the run does.
            Some(_) if self.turn_reports.is_some() && self.steps.limit_reached() => {
                self.config.workers.num_rollout_workers.max(1).saturating_sub(self.worker_failures.len())
            }
            Some(engine) => engine.healthy_workers(),
            None => 0,
        };
        dict.set("num_healthy_workers", healthy);
        // Every healthy worker samples exactly one fragment.
        dict.set("num_in_flight_async_reqs", healthy);
        dict.set("num_remote_worker_restarts", self.worker_restarts);
        dict.set("workers.healthy", healthy);
        dict.set("workers.restarts", self.worker_restarts);
        dict.set("workers.failures_this_iter", iteration.workers.n_failures);
        dict.set("workers.num_abandoned", self.abandoned.count);
        dict.set("workers.abandoned", json!(self.abandoned.newest));
        let gave_up: Vec<_> = self.worker_failures.iter().map(ToString::to_string).collect();
        dict.set("workers.gave_up", json!(gave_up));
        if !iteration.workers.failures.is_empty() {
            dict.set("workers.newest_failures", json!(iteration.workers.failures));
        }
        if !self.reporters.failures().is_empty() {
            let failures: Vec<_> = self.reporters.failures().iter().map(ToString::to_string).collect();
            dict.set("reporters_failed", json!(failures));
        }
    }
}

/// The smallest effective sample size of any policy.
fn smallest_sample_size(info: &LearnerInfo) -> Option<f64> {
    let sizes = info.iter().filter_map(|(_, own)| own.number("learner_stats.effective_sample_size"));
    sizes.filter(|size| size.is_finite()).min_by(f64::total_cmp)
}

fn write_throughput(dict: &mut ResultDict, result: &TrainResult, iteration: &Iteration) {
    let rate = |count: u64, time: Duration| {
        let secs = time.as_secs_f64();
        if secs > 0.0 { count as f64 / secs } else { 0.0 }
    };
    let sampled = result.env_steps_sampled - iteration.steps_before.sampled.env;
    dict.set("throughput.env_steps_per_s", rate(sampled, result.time_this_iteration));
    dict.set("throughput.env_steps_per_s_since_start", rate(result.env_steps_sampled, result.time_total));
    dict.set("throughput.updates_per_s", rate(iteration.learner.updates, result.time_this_iteration));
}

/// `ledger.steps`, `ledger.time` and, as shares of the iteration, `ledger.time_this_iter`.
fn write_ledgers(dict: &mut ResultDict, result: &TrainResult, before: &[ThreadTime]) {
    result.steps.write_into(dict, "ledger.steps");
    write_thread_times(&result.time, dict, "ledger.time");
    write_shares(&result.time, before, dict, "ledger.time_this_iter");
}
