//! [`Runs`]: all runs of a sweep, and which to run next.

use std::path::Path;

use anyhow::{Result, ensure};

use super::asha::{Standing, promotable};
use super::plan::Plan;
use super::run::{Run, State};

/// The runs of a sweep.
pub(super) struct Runs {
    /// All of them, those of a trial together.
    pub(super) all: Vec<Run>,
    /// The trials that have begun, from the first on.
    trials: Vec<Begun>,
    /// Where the runs of each trial of the plan begin.
    first: Vec<usize>,
}

/// A trial that has begun.
struct Begun {
    /// The rung that it has been promoted to.
    rung: usize,
}

impl Runs {
    /// What the folder of a sweep says.
    ///
    /// # Errors
    /// A run that cannot be read.
    pub(super) fn read(folder: &Path, plan: &Plan) -> Result<Self> {
        let mut runs = Self { all: Vec::new(), trials: Vec::new(), first: Vec::new() };
        let mut rungs = Vec::new();
        for (at, trial) in plan.trials.iter().enumerate() {
            runs.first.push(runs.all.len());
            let of_trial = trial.seeds.iter().map(|&seed| Run::new(folder, at + 1, seed));
            let from = runs.all.len();
            runs.all.extend(of_trial);
            let begun = runs.all[from..].iter().map(|run| run.rung(plan.rungs.len())).collect::<Result<Vec<_>>>()?;
            // A kill may have come between the promotions of its seeds.
            rungs.push(begun.into_iter().flatten().max());
        }
        // Trials begin in their order, so those before the last one with a run have begun too.
        let n_begun = rungs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        runs.trials = rungs[..n_begun].iter().map(|rung| Begun { rung: rung.unwrap_or(0) }).collect();
        for run in runs.first.get(n_begun).map_or(0..runs.all.len(), |&end| 0..end) {
            runs.look(run, plan)?;
        }
        Ok(runs)
    }

    /// Takes over the runs that another host has begun and not ended, or refuses to go on without them.
    ///
    /// # Errors
    /// There are such runs, and they are not to be taken over, or cannot be.
    pub(super) fn settle(&mut self, takes_over: bool, plan: &Plan) -> Result<()> {
        let mut left = Vec::new();
        for run in 0..self.all.len() {
            let it = &self.all[run];
            match &it.state {
                State::Elsewhere { .. } if takes_over => {
                    it.take_over()?;
                    self.look(run, plan)?;
                }
                State::Elsewhere { host } => left.push(format!("{} on {host}", it.name())),
                _ => {}
            }
        }
        ensure!(
            left.is_empty(),
            "other hosts have not said how these ended: {}. End them there; once none of their processes is left, \
             --take-over goes on with them from their checkpoints",
            left.join(", ")
        );
        Ok(())
    }

    /// Reads what has become of a run.
    ///
    /// # Errors
    /// As of [`Run::look`].
    pub(super) fn look(&mut self, run: usize, plan: &Plan) -> Result<()> {
        let rung = self.rung(run);
        self.all[run].look(&plan.metric, &plan.rungs[..=rung])
    }

    /// The rung that a run is at.
    pub(super) fn rung(&self, run: usize) -> usize {
        self.trials.get(self.all[run].number - 1).map_or(0, |trial| trial.rung)
    }

    /// The run to start next: one that waits, else one of a trial that is promoted, else one of a new trial.
    /// `None` if there is none now.
    ///
    /// # Errors
    /// As of [`Run::look`].
    pub(super) fn next(&mut self, plan: &Plan) -> Result<Option<usize>> {
        loop {
            let begun = self.first.get(self.trials.len()).copied().unwrap_or(self.all.len());
            if let Some(waiting) = self.all[..begun].iter().position(|run| run.state == State::Waiting) {
                return Ok(Some(waiting));
            }
            if let Some(trial) = promotable(&self.standings(plan), plan.rungs.len(), plan.reduction) {
                self.trials[trial].rung += 1;
                // Its runs wait now, except one that has reached its target, which has no further to go.
                for run in self.of_trial(trial) {
                    self.look(run, plan)?;
                }
            } else if self.trials.len() < plan.trials.len() {
                self.trials.push(Begun { rung: 0 });
            } else {
                return Ok(None);
            }
        }
    }

    /// The runs of a trial of the plan, by its index.
    pub(super) fn of_trial(&self, trial: usize) -> std::ops::Range<usize> {
        self.first[trial]..self.first.get(trial + 1).copied().unwrap_or(self.all.len())
    }

    /// How far each trial has come: its value at a rung is the mean over its seeds, once all have completed
    /// it.
    fn standings(&self, plan: &Plan) -> Vec<Standing> {
        let standing = |(at, begun): (usize, &Begun)| {
            let runs = &self.all[self.of_trial(at)];
            let score = |rung: usize| {
                let values = runs.iter().map(|run| run.values.get(rung).copied().flatten());
                let values = values.collect::<Option<Vec<f64>>>()?;
                Some(plan.score(mean(&values)))
            };
            Standing { rung: begun.rung, scores: (0..=begun.rung).map(score).collect() }
        };
        self.trials.iter().enumerate().map(standing).collect()
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
