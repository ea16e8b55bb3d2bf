//! What the thread `evaluator` does: it evaluates published weights, and keeps the best.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use pronk_buffer::{Fold, Notifier, ShutdownToken, Versioned};
use pronk_metrics::{ByPolicy, StateClock, TimeLedger, catch};
use pronk_policy::Params;
use pronk_rollout::{
    CallMonitor, EnvFailure, EvaluateError, Evaluation, EvaluatorState, FailurePlace, OnFrame, ReaperHandle,
};
use tracing::debug_span;

use super::best::Best;
use super::remains::Counters;
use super::run_spec::RunSpec;
use super::video_folder::VideoFolder;
use crate::checkpoint::{Checkpoint, CheckpointError, Figures, Score};
use crate::config::TrainerConfig;
use crate::video::{Recorder, Video, VideoOptions};

/// Causes of failures that are told apart; later ones are counted, and no longer logged.
const MAX_CAUSES: usize = 20;

/// The thread, as the trainer holds it.
pub(super) type Evaluator = pronk_rollout::Evaluator<Order, Report>;

/// An evaluation to be made.
pub(super) struct Order {
    pub(super) published: Arc<Versioned<ByPolicy<Params>>>,
    /// Of the learners, when the weights were taken.
    pub(super) counters: ByPolicy<Counters>,
    /// Sampled by the run until then.
    pub(super) env_steps: u64,
}

/// What became of orders.
#[derive(Default)]
pub(super) struct Report {
    /// Of the newest evaluation.
    pub(super) figures: Option<Figures>,
    pub(super) made: u64,
    /// Of all of them.
    pub(super) episodes: u64,
    pub(super) env_steps: u64,
    pub(super) failed: u64,
    /// Episodes that the limit of steps has ended.
    pub(super) cut_short: u64,
    /// Whether the end of the run interrupted the newest.
    pub(super) is_interrupted: bool,
    pub(super) last_failure: Option<String>,
    /// The best policy, or all that played, if there is a new best.
    pub(super) best: Option<Arc<ByPolicy<Checkpoint>>>,
    /// Why the best policy could not be saved.
    pub(super) unsaved: Option<CheckpointError>,
    /// The name of the newest video, or why there is none; `None` if nothing was to be drawn.
    pub(super) video: Option<Result<String, String>>,
}

impl Fold for Report {
    fn fold(&mut self, later: Self) {
        self.figures = later.figures.or(self.figures.take());
        self.made += later.made;
        self.episodes += later.episodes;
        self.env_steps += later.env_steps;
        self.failed += later.failed;
        self.cut_short += later.cut_short;
        self.is_interrupted = later.is_interrupted;
        self.last_failure = later.last_failure.or(self.last_failure.take());
        self.best = later.best.or(self.best.take());
        self.unsaved = later.unsaved.or(self.unsaved.take());
        self.video = later.video.or(self.video.take());
    }
}

/// Starts the thread of a run, which begins with this `best` and saves videos there, if anywhere.
pub(super) fn start(
    (spec, config): (Arc<RunSpec>, TrainerConfig),
    (best, videos): (Best, Option<VideoFolder>),
    (token, notifier): (&ShutdownToken, &Notifier),
    (time, reaper): (&TimeLedger, &ReaperHandle),
) -> io::Result<Evaluator> {
    let monitor = CallMonitor::new().of_run(time, reaper);
    let (of_run, causes) = (token.clone(), Vec::new());
    let mut work =
        Work { spec, config, monitor, token: of_run, best, videos, undrawn: 0, causes, warns_of_limit: true };
    Evaluator::start(token, notifier, time, move |order, clock| {
        let evaluated = catch(|| work.evaluate(&order, clock));
        evaluated.unwrap_or_else(|panic| work.failure(&order, panic.clone(), &format!("it panicked: {panic}")))
    })
}

/// What the thread owns.
struct Work {
    spec: Arc<RunSpec>,
    config: TrainerConfig,
    monitor: CallMonitor,
    token: ShutdownToken,
    best: Best,
    videos: Option<VideoFolder>,
    /// How many evaluations in a row failed with pictures and not without.
    undrawn: u32,
    /// Of the failures that were logged.
    causes: Vec<String>,
    /// Whether no episode was ended by the limit of steps yet.
    warns_of_limit: bool,
}

/// Evaluations in a row that fail with pictures and not without, after which there are no more videos.
const MOST_UNDRAWN: u32 = 3;

/// Why an evaluation was not made.
enum Failed {
    Interrupted,
    /// `cause` tells failures apart that happen in different places.
    Because {
        cause: String,
        what: String,
        /// Whether it failed where environments that are drawn differ from others.
        is_of_drawing: bool,
    },
}

impl From<EvaluateError> for Failed {
    fn from(error: EvaluateError) -> Self {
        match error {
            EvaluateError::Interrupted => Self::Interrupted,
            EvaluateError::Env(failure) => {
                let place = failure.place;
                let is_of_drawing =
                    matches!(place, FailurePlace::Make | FailurePlace::Reset { .. } | FailurePlace::Render { .. });
                Self::Because { cause: failure.cause.to_string(), what: in_words(&failure), is_of_drawing }
            }
            error => Self::Because { cause: error.to_string(), what: error.to_string(), is_of_drawing: false },
        }
    }
}

impl Work {
    fn evaluate(&mut self, order: &Order, clock: &mut StateClock<EvaluatorState>) -> Report {
        clock.enter(EvaluatorState::Evaluating);
        let began = Instant::now();
        let mut recorder = self.videos.as_ref().map(|_| Recorder::new(VideoOptions::default()));
        let mut played = self.play(order, recorder.as_mut());
        let mut not_drawn = None;
        if recorder.is_some()
            && let Err(Failed::Because { what, is_of_drawing, .. }) = &played
        {
            // The same episodes again: what can be played and not drawn fails with a picture only, wherever
            // it does so; unless it has failed by chance, as a simulator may.
            let (what, is_of_drawing) = (what.clone(), *is_of_drawing);
            played = self.play(order, None);
            if played.is_ok() {
                self.undrawn += 1;
                let gives_up = is_of_drawing || self.undrawn == MOST_UNDRAWN;
                let videos = if gives_up { "the run has no more videos" } else { "this one has no video" };
                let reason = format!("{what}; {videos}");
                tracing::warn!("{reason}");
                self.videos = self.videos.take().filter(|_| !gives_up);
                (recorder, not_drawn) = (None, Some(reason));
            }
        } else {
            self.undrawn = 0;
        }
        let mut report = match played {
            Ok(evaluation) => {
                let report = self.judge(&evaluation, order, began);
                clock.enter(EvaluatorState::Saving);
                let video = debug_span!("save_video").in_scope(|| self.save_video(recorder, &evaluation, order));
                Report { video: not_drawn.map(Err).or(video), ..report }
            }
            Err(Failed::Interrupted) => return Report { is_interrupted: true, ..Report::default() },
            Err(Failed::Because { cause, what, .. }) => self.failure(order, cause, &what),
        };
        if self.best.is_unsaved() {
            clock.enter(EvaluatorState::Saving);
            report.unsaved = debug_span!("save_best").in_scope(|| self.best.save()).err();
        }
        report
    }

    fn play(&self, order: &Order, recorder: Option<&mut Recorder>) -> Result<Evaluation, Failed> {
        let beside = (&self.monitor, &self.token);
        let play =
            |on_frame: Option<&mut OnFrame<'_>>| self.spec.evaluate(&self.config, &order.published, beside, on_frame);
        let play = || match recorder {
            Some(recorder) => play(Some(&mut |frame| recorder.take(&frame))),
            None => play(None),
        };
        match debug_span!("evaluate").in_scope(|| catch(play)) {
            Ok(played) => played.map_err(|error| Failed::from(*error)),
            Err(panic) => {
                Err(Failed::Because { what: format!("it panicked: {panic}"), cause: panic, is_of_drawing: true })
            }
        }
    }

    /// Saves the video of an evaluation and returns its name; `None` if its environments draw no frames.
    fn save_video(
        &self,
        recorder: Option<Recorder>,
        evaluation: &Evaluation,
        order: &Order,
    ) -> Option<Result<String, String>> {
        let (recorder, videos) = (recorder?, self.videos.as_ref()?);
        let save = |video: Video| videos.save(&video, order.env_steps);
        let saved = recorder.video(evaluation).and_then(|video| video.map(save).transpose());
        saved.map_err(|error| error.to_string()).transpose()
    }

    fn judge(&mut self, evaluation: &Evaluation, order: &Order, began: Instant) -> Report {
        let score = self.spec.score_of(evaluation).and_then(|score| figures(evaluation, score, order, began));
        let Some(figures) = score else { return Report::default() };
        let Figures { score, env_steps, .. } = figures;
        let cut_short = evaluation.n_cut_short as u64;
        if cut_short > 0 && std::mem::take(&mut self.warns_of_limit) {
            let (n, len) = (score.episodes, figures.len_mean);
            tracing::warn!(
                "evaluation of version {} of the weights: {cut_short} of {n} episodes, of {len:.0} steps on average, \
                 were ended by `evaluation.max_episode_steps` and count with the return that they had come to; later \
                 ones are counted in the results",
                score.version
            );
        }
        let episodes = score.episodes;
        let report = Report { figures: Some(figures), made: 1, episodes, env_steps, cut_short, ..Report::default() };
        if !self.best.is_beaten_by(score.return_mean) {
            return report;
        }
        match self.spec.scored(&self.config, &order.published, &order.counters, score) {
            Ok(policies) => {
                let best = Arc::new(policies);
                self.best.keep(Arc::clone(&best));
                Report { best: Some(best), ..report }
            }
            Err(error) => {
                let reason = format!("the best policy: {error}");
                Report { unsaved: Some(CheckpointError::NoState { reason }), ..report }
            }
        }
    }

    /// Logs a failure whose cause is new.
    fn failure(&mut self, order: &Order, cause: String, what: &str) -> Report {
        let text = format!("evaluation of version {} of the weights: {what}", order.published.version);
        if self.causes.len() < MAX_CAUSES && !self.causes.contains(&cause) {
            tracing::warn!("{text}; the run goes on");
            self.causes.push(cause);
        }
        Report { failed: 1, last_failure: Some(text), ..Report::default() }
    }
}

/// The failure, without the worker that an evaluation does not have.
fn in_words(failure: &EnvFailure) -> String {
    let EnvFailure { index, place, cause, .. } = failure;
    format!("environment {index} failed {place}: {cause}")
}

fn figures(evaluation: &Evaluation, score: f64, order: &Order, began: Instant) -> Option<Figures> {
    let returns = || evaluation.episodes.iter().map(|episode| episode.episode_return);
    let score = Score {
        return_mean: score,
        episodes: evaluation.episodes.len() as u64,
        version: order.published.version,
        env_steps: order.env_steps,
    };
    Some(Figures {
        score,
        return_mean: evaluation.return_mean(),
        return_min: returns().reduce(f64::min)?,
        return_max: returns().reduce(f64::max)?,
        len_mean: evaluation.len_mean()?,
        policy_returns: evaluation.policy_returns(),
        env_steps: evaluation.episodes.iter().map(|episode| u64::from(episode.episode_len)).sum(),
        took_secs: began.elapsed().as_secs_f64(),
    })
}
