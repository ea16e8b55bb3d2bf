//! The cut: a run between two results, as a value.

use std::time::{Duration, Instant};

use pronk_learner::{CutStorage, LearnerCut};
use pronk_metrics::StepTotals;
use pronk_rollout::{PostedSeat, SeatState};

use super::checkpoint_thread::Job;
use super::handle::Trainer;
use super::iteration::Iteration;
use super::promise::Promise;
use crate::checkpoint::{CheckpointError, SavedSummary};
use crate::result::TrainResult;
use crate::resume::{RunState, SavedResult, SavedTrainer, Snapshot};

/// How long the workers may take for the states of their environments.
const SEATS_WITHIN: Duration = Duration::from_secs(10);

/// The learner's side of a cut, and the seats of the workers.
pub(super) struct Cut {
    learner: LearnerCut,
    /// Of all workers, or of none.
    seats: Vec<SeatState>,
    /// How long ago workers were restarted.
    restarts: Vec<Duration>,
}

impl Cut {
    pub(super) fn learner(&self) -> &LearnerCut {
        &self.learner
    }

    /// Without seats: what workers had in progress is not in it.
    pub(super) fn of(learner: LearnerCut, restarts: Vec<Duration>) -> Self {
        Self { learner, seats: Vec::new(), restarts }
    }
}

impl Trainer {
    /// Whether everything rests between two results, so that a run can go on exactly: there are turns, or no
    /// threads.
    pub(super) fn rests(&self) -> bool {
        self.spec.goes_on_exactly(&self.config)
    }

    /// Whether a checkpoint is due and can be taken at the end of this iteration.
    pub(super) fn is_save_due(&mut self) -> bool {
        let is_running = self.engine.as_ref().is_some_and(|engine| !engine.outqueue().is_closed());
        // Under deterministic admission an iteration that the clock has ended is not at rest.
        let is_complete = self.turn_reports.is_none() || self.iteration_is_complete();
        let env_steps = self.steps.snapshot().sampled.env;
        // At the limit, workers that take turns end with the learner's next ask, and then post no seats.
        let has_seats = self.turn_reports.is_none() || !self.steps.limit_reached();
        let is_complete = is_complete && (has_seats || self.saves.as_ref().is_some_and(|saves| !saves.is_exact()));
        is_running && is_complete && self.saves.as_mut().is_some_and(|saves| saves.is_due(env_steps))
    }

    /// Takes a cut; a failure is noted.
    pub(super) fn cut(&mut self) -> Option<Cut> {
        let env_steps = self.steps.snapshot().sampled.env;
        let saves = self.saves.as_mut()?;
        let (number, storage) = (saves.begin(env_steps), saves.storage());
        let began = Instant::now();
        let cut = self.cut_now(number, storage);
        let pause = began.elapsed();
        let saves = self.saves.as_mut()?;
        match cut {
            Ok(cut) => {
                // Elsewhere workers and learner go on while the trainer waits for the learner's pass to end.
                saves.pause = if cut.seats.is_empty() { cut.learner.took } else { pause };
                Some(cut)
            }
            Err(error) => {
                saves.note(error);
                None
            }
        }
    }

    fn cut_now(&mut self, number: u64, storage: CutStorage) -> Result<Cut, CheckpointError> {
        let ended = || CheckpointError::NoState { reason: "the run has ended".to_owned() };
        // Before the learner: a worker posts its seat once it has pushed its fragments, which the learner's
        // side of the cut then holds.
        let marked = self.engine.as_ref().ok_or_else(ended)?.mark(number);
        let seats = self.seats(number, marked);
        let learner = self.engine.as_mut().ok_or_else(ended)?.cut(number, storage, self.finish_deadline);
        let learner = learner.map_err(|error| CheckpointError::NoState { reason: error.to_string() })?;
        let restarts = self.engine.as_ref().map(|engine| engine.spent_restarts()).unwrap_or_default();
        let has_no_threads = self.spec.has_no_threads(&self.config);
        let seats = if self.rests() && has_no_threads { self.seats(number, 1) } else { seats };
        match seats {
            Ok(seats) => Ok(Cut { learner, seats, restarts }),
            // Better than none: environments begin new episodes then. An exact one is better than this.
            Err(error) if self.saves.as_ref().is_some_and(|saves| !saves.is_exact()) => {
                tracing::warn!(%error, "the checkpoint is without the positions of the workers");
                Ok(Cut::of(learner, restarts))
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for the seats of all marked workers.
    fn seats(&mut self, number: u64, n_seats: usize) -> Result<Vec<SeatState>, CheckpointError> {
        let mut seats = Vec::new();
        let notifier = self.notifier.clone();
        let all = notifier.wait_for(SEATS_WITHIN, || {
            self.collect();
            let posted = std::mem::take(&mut self.iteration.workers.seats);
            seats.extend(posted.into_iter().filter(|posted| posted.number == number));
            (seats.len() >= n_seats).then_some(())
        });
        if all.is_none() {
            let reason = format!("{} of {n_seats} workers have not posted their state", n_seats - seats.len());
            return Err(CheckpointError::NoState { reason });
        }
        seats.sort_by_key(|seat| seat.worker);
        let state = |PostedSeat { worker, state, .. }: PostedSeat| {
            state.map_err(|why| CheckpointError::NoState { reason: format!("rollout-{worker}: {why}") })
        };
        seats.into_iter().map(state).collect()
    }

    /// Hands a cut, which belongs to the last result, over to be written.
    pub(super) fn save_cut(&mut self, cut: Cut) {
        let Cut { learner, seats, restarts } = cut;
        let LearnerCut { mut learners, learner_loop, batches, source, published, moments, steps, .. } = learner;
        let workers = self.config.workers.num_rollout_workers.max(1);
        // A worker that gave up has no seat: the run cannot go on without it as it was.
        let is_exact = self.rests() && seats.len() == workers;
        // A few lucky episodes do not make a checkpoint the best.
        let enough = self.last.as_ref().filter(|last| last.enough_episodes);
        let summary = SavedSummary {
            exact: is_exact,
            iteration: self.iterations,
            env_steps: steps.sampled.env,
            return_mean: enough.and_then(|last| last.episode_return_mean),
            life: self.spec.life,
            resumes: self.resumes(),
            evaluations: self.saved_evaluations(),
        };
        let mut state = RunState::new(self.saved(steps), learner_loop, published.version);
        let publications =
            learners.iter_mut().map(|(policy, state)| (policy.clone(), std::mem::take(&mut state.publications)));
        state.publications = publications.collect();
        state.published_moments = (&*published.moments).into();
        state.moments = (&*moments).into();
        state.turns = self.engine.as_ref().and_then(|engine| engine.turn_position());
        state.restarts = restarts;
        state.seats = if is_exact { seats } else { Vec::new() };
        state.log = self.log.as_ref().map(|log| log.save());
        let logs = state.trainer.marks.iter().map(|mark| mark.path.clone()).collect();
        let checkpoints = self.spec.checkpoints(&self.config, learners, &published.moments);
        let snapshot = Snapshot { state, batches, source, published: None };
        if let Some(saves) = &mut self.saves {
            let agreement = saves.agreement.clone();
            saves.hand(Job { checkpoints, snapshot, published, summary, agreement, logs });
        }
    }

    /// How many times the run was continued.
    fn resumes(&self) -> u64 {
        self.resumed.as_ref().map_or(0, |resumed| resumed.count)
    }

    fn saved(&self, steps: StepTotals) -> SavedTrainer {
        let result = |result: &TrainResult| SavedResult {
            episode_return_mean: result.episode_return_mean,
            episode_len_mean: result.episode_len_mean,
            episodes_covered: result.episodes_covered,
            enough_episodes: result.enough_episodes,
            policy_returns: result.policy_returns.clone(),
            dict: result.dict.to_json_line(),
        };
        // At the end of a run, with what was reported since the last result.
        let Iteration { learner, workers, .. } = &self.iteration;
        let (episodes, policy_returns) = self.history.save(workers);
        SavedTrainer {
            iterations: self.iterations,
            updates: self.updates + learner.updates,
            worker_restarts: self.worker_restarts + workers.restarts,
            fragments_added: self.fragments_added + workers.steps,
            steps,
            time_total: self.last.as_ref().map_or(self.time_before, |last| last.time_total),
            episodes,
            policy_returns,
            promise_ended: match &self.promise {
                Promise::Ended(until) => Some(until.clone()),
                Promise::None | Promise::Kept => None,
            },
            abandoned: (self.abandoned.count, self.abandoned.newest.clone()),
            resumes: self.resumes(),
            outside_turns: self.resumed.as_ref().map_or(0, |resumed| resumed.outside_turns),
            marks: self.reporters.marks(),
            result: self.last.as_ref().map(result).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
