//! [`Trials`]: all trials of a sweep, and which to run next.

use std::path::Path;

use anyhow::Result;

use super::asha::{Standing, promotable};
use super::plan::Plan;
use super::trial::{State, Trial};

/// The trials of a sweep.
pub(super) struct Trials {
    /// All of them, those of a point together.
    pub(super) all: Vec<Trial>,
    /// The points that have begun, from the first on.
    points: Vec<Begun>,
    /// Where the trials of each point of the plan begin.
    first: Vec<usize>,
}

/// A point that has begun.
struct Begun {
    /// The rung that it has been promoted to.
    rung: usize,
}

impl Trials {
    /// What the folder of a sweep says.
    ///
    /// # Errors
    /// A trial that cannot be read, or that runs on another machine.
    pub(super) fn read(folder: &Path, plan: &Plan) -> Result<Self> {
        let mut trials = Self { all: Vec::new(), points: Vec::new(), first: Vec::new() };
        let mut rungs = Vec::new();
        for (at, planned) in plan.points.iter().enumerate() {
            trials.first.push(trials.all.len());
            let of_point = planned.seeds.iter().map(|&seed| Trial::new(folder, at + 1, seed));
            let from = trials.all.len();
            trials.all.extend(of_point);
            let begun = trials.all[from..].iter().map(Trial::rung).collect::<Result<Vec<_>>>()?;
            // A kill may have come between the promotions of its seeds.
            rungs.push(begun.into_iter().flatten().max());
        }
        // Points begin in their order, so those before the last one that has a trial have begun too.
        let n_begun = rungs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        trials.points = rungs[..n_begun].iter().map(|rung| Begun { rung: rung.unwrap_or(0) }).collect();
        for trial in trials.first.get(n_begun).map_or(0..trials.all.len(), |&end| 0..end) {
            trials.look(trial, plan)?;
        }
        Ok(trials)
    }

    /// Reads what has become of a trial.
    ///
    /// # Errors
    /// As of [`Trial::look`].
    pub(super) fn look(&mut self, trial: usize, plan: &Plan) -> Result<()> {
        let rung = self.rung(trial);
        self.all[trial].look(&plan.metric, &plan.rungs[..=rung])
    }

    /// The rung that a trial is at.
    pub(super) fn rung(&self, trial: usize) -> usize {
        self.points.get(self.all[trial].number - 1).map_or(0, |point| point.rung)
    }

    /// The next trial to run: one that waits, else one of a point that is promoted, else one of a new point.
    /// `None` if there is none now.
    ///
    /// # Errors
    /// As of [`Trial::look`].
    pub(super) fn next(&mut self, plan: &Plan) -> Result<Option<usize>> {
        loop {
            let begun = self.first.get(self.points.len()).copied().unwrap_or(self.all.len());
            if let Some(waiting) = self.all[..begun].iter().position(|trial| trial.state == State::Waiting) {
                return Ok(Some(waiting));
            }
            if let Some(point) = promotable(&self.standings(plan), plan.rungs.len(), plan.reduction) {
                self.points[point].rung += 1;
                // Its trials wait now, except one that has reached its target, which has no further to go.
                for trial in self.of_point(point) {
                    self.look(trial, plan)?;
                }
            } else if self.points.len() < plan.points.len() {
                self.points.push(Begun { rung: 0 });
            } else {
                return Ok(None);
            }
        }
    }

    /// The trials of a point of the plan, by its index.
    pub(super) fn of_point(&self, point: usize) -> std::ops::Range<usize> {
        self.first[point]..self.first.get(point + 1).copied().unwrap_or(self.all.len())
    }

    /// How far each point has come: its value at a rung is the mean over its seeds, once all have completed
    /// it.
    fn standings(&self, plan: &Plan) -> Vec<Standing> {
        let standing = |(at, begun): (usize, &Begun)| {
            let trials = &self.all[self.of_point(at)];
            let score = |rung: usize| {
                let values = trials.iter().map(|trial| trial.values.get(rung).copied().flatten());
                let values = values.collect::<Option<Vec<f64>>>()?;
                Some(plan.score(mean(&values)))
            };
            Standing { rung: begun.rung, scores: (0..=begun.rung).map(score).collect() }
        };
        self.points.iter().enumerate().map(standing).collect()
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
