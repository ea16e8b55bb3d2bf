//! [`Evaluations`]: when a run evaluates its policy, and what became of that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::Fold;
use pronk_metrics::{ByPolicy, ResultDict};
use serde_json::json;

use super::best::{Best, score_of};
use super::episodes::write_policy_returns;
use super::evaluator::{Evaluator, Order, Report};
use crate::checkpoint::{Checkpoint, CheckpointError, Figures, SavedEvaluations, Score};
use crate::config::Every;

/// When a run evaluates its policy, and what became of that.
pub(super) struct Evaluations {
    every: Every,
    /// `None` once the run has ended.
    evaluator: Option<Evaluator>,
    since: Since,
    running: Option<Running>,
    made: u64,
    failed: u64,
    skipped: u64,
    last_failure: Option<String>,
    newest: Option<Figures>,
    best_score: Option<Score>,
    best: Option<Arc<ByPolicy<Checkpoint>>>,
    /// The newest video, and why the newest evaluation has none.
    video: (Option<String>, Option<String>),
    /// Episodes that have come in since the last result, and their env-steps.
    this_iter: (u64, u64),
    /// Those of them that the limit of steps has ended.
    cut_short_this_iter: u64,
}

/// From where on the next evaluation is counted for: where the last one began, or the run.
#[derive(Clone, Copy)]
struct Since {
    at: Instant,
    env_steps: u64,
}

/// An evaluation in progress.
struct Running {
    began: Instant,
    /// What it was counted for from.
    since: Since,
    /// Intervals that it counted as skipped.
    missed: u64,
}

impl Evaluations {
    /// Of a run that has come to `env_steps`, or was `saved`; the `evaluator` begins with `best`.
    pub(super) fn new(every: Every, env_steps: u64, (best, saved): (&Best, Option<SavedEvaluations>)) -> Self {
        let now = Instant::now();
        let saved = saved.unwrap_or(SavedEvaluations { since_env_steps: env_steps, ..SavedEvaluations::default() });
        let passed = Duration::try_from_secs_f64(saved.since_secs).unwrap_or_default();
        let at = now.checked_sub(passed).unwrap_or(now);
        Self {
            every,
            evaluator: None,
            since: Since { at, env_steps: saved.since_env_steps },
            running: None,
            made: saved.made,
            failed: saved.failed,
            skipped: saved.skipped,
            last_failure: saved.last_failure,
            newest: saved.newest,
            best_score: best.score(),
            best: best.kept(),
            video: (None, None),
            this_iter: (0, 0),
            cut_short_this_iter: 0,
        }
    }

    /// The same, with the thread that makes them.
    pub(super) fn by(self, evaluator: Evaluator) -> Self {
        Self { evaluator: Some(evaluator), ..self }
    }

    /// For a checkpoint. One in progress is as if it had not begun.
    pub(super) fn saved(&self) -> SavedEvaluations {
        let running = self.running.as_ref();
        let (since, missed) = running.map_or((self.since, 0), |running| (running.since, running.missed));
        SavedEvaluations {
            made: self.made,
            failed: self.failed,
            skipped: self.skipped - missed,
            last_failure: self.last_failure.clone(),
            newest: self.newest.clone(),
            best: self.best_score,
            since_env_steps: since.env_steps,
            since_secs: since.at.elapsed().as_secs_f64(),
        }
    }

    /// Whether one is due and none is in progress, in a run that has come to so many env-steps.
    pub(super) fn is_due(&self, env_steps: impl FnOnce() -> u64) -> bool {
        self.running.is_none() && self.evaluator.is_some() && self.intervals(env_steps) > 0
    }

    /// The version of the weights that were evaluated last.
    pub(super) fn version(&self) -> Option<u64> {
        self.newest.as_ref().map(|figures| figures.score.version)
    }

    /// Begins one.
    pub(super) fn begin(&mut self, order: Order) {
        let (now, env_steps) = (Instant::now(), order.env_steps);
        let missed = self.intervals(|| env_steps).saturating_sub(1);
        // It fails where the run has just ended.
        if self.evaluator.as_ref().is_some_and(|evaluator| evaluator.order(order).is_ok()) {
            self.skipped += missed;
            self.running = Some(Running { began: now, since: self.since, missed });
            self.since = Since { at: now, env_steps };
        }
    }

    /// Takes in what has come; returns why the best policy could not be saved.
    pub(super) fn collect(&mut self) -> Option<CheckpointError> {
        let report = self.evaluator.as_ref().and_then(Evaluator::try_take)?;
        self.take_in(report)
    }

    /// Waits for the thread, which the end of the run has interrupted: see
    /// [`Evaluator::join`](pronk_rollout::Evaluator::join). Returns its name if it has not ended, and why the
    /// best policy could not be saved.
    pub(super) fn join(&mut self, deadline: Duration, to_save: Duration) -> (Option<String>, Option<CheckpointError>) {
        let Some(evaluator) = self.evaluator.take() else { return (None, None) };
        let (reports, has_ended) = evaluator.join(deadline, to_save);
        let reports = reports.into_iter().reduce(|mut all, later| {
            all.fold(later);
            all
        });
        let late = (!has_ended).then(|| Evaluator::NAME.to_owned());
        (late, reports.and_then(|report| self.take_in(report)))
    }

    /// The best policy, or all that played; empty if there is none.
    pub(super) fn into_best(self) -> ByPolicy<Checkpoint> {
        self.best.map(Arc::unwrap_or_clone).unwrap_or_default()
    }

    fn take_in(&mut self, report: Report) -> Option<CheckpointError> {
        let Report {
            figures,
            made,
            episodes,
            env_steps,
            cut_short,
            failed,
            is_interrupted,
            last_failure,
            best,
            unsaved,
            video,
        } = report;
        if let Some(Running { since, missed, .. }) = self.running.take().filter(|_| is_interrupted) {
            // As if it had not begun, for the checkpoint that follows.
            self.since = since;
            self.skipped -= missed;
        }
        self.made += made;
        self.failed += failed;
        self.last_failure = last_failure.or(self.last_failure.take());
        self.this_iter = (self.this_iter.0 + episodes, self.this_iter.1 + env_steps);
        self.cut_short_this_iter += cut_short;
        self.newest = figures.or(self.newest.take());
        match video {
            Some(Ok(name)) => self.video = (Some(name), None),
            Some(Err(why)) => self.video.1 = Some(why),
            None => {}
        }
        if let Some(best) = best {
            self.best_score = score_of(&best);
            self.best = Some(best);
        }
        unsaved
    }

    /// How many whole intervals have passed.
    fn intervals(&self, env_steps: impl FnOnce() -> u64) -> u64 {
        match self.every {
            Every::Time(every) => {
                let passed = self.since.at.elapsed().as_nanos();
                passed.checked_div(every.as_nanos()).map_or(1, |n| u64::try_from(n).unwrap_or(u64::MAX))
            }
            Every::EnvSteps(every) => env_steps().saturating_sub(self.since.env_steps).checked_div(every).unwrap_or(1),
        }
    }

    /// Writes `evaluation`, into the result of a run that has come to so many env-steps.
    pub(super) fn write_into(&mut self, dict: &mut ResultDict, env_steps: u64) {
        let mut set = |key: &str, value| dict.set(&format!("evaluation.{key}"), value);
        let (episodes, steps) = std::mem::take(&mut self.this_iter);
        let cut_short = std::mem::take(&mut self.cut_short_this_iter);
        let (newest, best) = (self.newest.as_ref(), self.best_score.as_ref());
        set(
            "episode_reward_mean",
            json!(newest.map(|figures| figures.return_mean.unwrap_or(figures.score.return_mean))),
        );
        set("episode_reward_min", json!(newest.map(|figures| figures.return_min)));
        set("episode_reward_max", json!(newest.map(|figures| figures.return_max)));
        set("episode_len_mean", json!(newest.map(|figures| figures.len_mean)));
        set("episodes_this_iter", json!(episodes));
        set("episodes_cut_short_this_iter", json!(cut_short));
        set("num_env_steps_sampled_this_iter", json!(steps));
        set("weights_version", json!(newest.map(|figures| figures.score.version)));
        set("at_env_steps", json!(newest.map(|figures| figures.score.env_steps)));
        set("took_s", json!(newest.map(|figures| figures.took_secs)));
        set("running_s", json!(self.running.as_ref().map(|running| running.began.elapsed().as_secs_f64())));
        set("made", json!(self.made));
        set("failed", json!(self.failed));
        set("skipped", json!(self.skipped + self.intervals(|| env_steps).saturating_sub(1)));
        set("last_failure", json!(self.last_failure));
        set("video", json!(self.video.0));
        set("video_failed", json!(self.video.1));
        set("best.episode_reward_mean", json!(best.map(|best| best.return_mean)));
        set("best.weights_version", json!(best.map(|best| best.version)));
        set("best.at_env_steps", json!(best.map(|best| best.env_steps)));
        if let Some(figures) = newest.filter(|figures| !figures.policy_returns.is_empty()) {
            write_policy_returns(dict, "evaluation.", &figures.policy_returns);
        }
    }
}

#[cfg(test)]
mod tests;
