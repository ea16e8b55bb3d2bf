use std::num::NonZeroUsize;
use std::time::Duration;

use super::Gather;

/// Steps of every group that a measurement covers: fewer would be chance.
const SWEEPS: usize = 8;
/// Steps of every group that are not measured after a change: groups still move as they did before it.
const SETTLING: usize = 4;
/// The shortest measurement.
const SHORTEST: Duration = Duration::from_millis(20);
/// Measurements of the best number between two looks at others: at first, and at most. The looks are what being adaptive costs.
const SHORTEST_STRETCH: u32 = 4;
const LONGEST_STRETCH: u32 = 128;
/// By how many standard errors two numbers have to differ before one of them is clearly better.
const CLEARLY: f64 = 2.5;
/// Comparisons after which two numbers are about as good as each other.
const MOST_PAIRS: u32 = 32;
/// The least that the logarithms of two measurements of the same are taken to differ by.
const LEAST_NOISE: f64 = 0.01;
/// Step times that are remembered, over all groups.
const SAMPLES: usize = 256;
/// Rounds of one prediction.
const PREDICTED_ROUNDS: usize = 64;

/// Finds the number of groups to wait for that makes the most steps.
///
/// It measures how long groups step and what inference costs, predicts from them which number is best, and then trusts what it
/// sees: most of the time it uses the number that has made the most steps a second, and now and then it looks at the next
/// smaller, the next larger and the predicted one. The longer nothing changes, the less often it looks. Smaller than one group
/// and whoever has answered as well is one group and no other.
///
/// To look at a number is to use it and the best one by turns until one of them is clearly better: what slows down both, such as
/// another program, says nothing about either. How far measurements differ by chance is seen where the best is used for long.
pub(crate) struct AdaptiveGather {
    /// What there is to choose from, in the order of the number of groups.
    choices: Vec<Choice>,
    /// The choice that has made the most steps.
    best: usize,
    /// The choice that it is compared with now.
    look: Option<Look>,
    /// Choices to be looked at before the best is used for long.
    to_look_at: Vec<usize>,
    /// Measurements of the best until the next look.
    left: u32,
    stretch: u32,
    /// The logarithm of what the best made last, if it was measured just before.
    last: Option<f64>,
    /// The mean square by which the logarithms of two measurements of the same differ.
    noise: f64,
    group_size: usize,
    /// Steps until the measurement begins.
    settling: usize,
    measured: Measured,
    model: Model,
}

/// For how many groups to wait, and whom to act for.
#[derive(Clone, Copy)]
enum Choice {
    /// The first group that answers, and no other: where batches do not make inference cheaper, the others had better step
    /// meanwhile.
    One,
    /// So many groups, and those that have answered as well by then.
    AtLeast(NonZeroUsize),
}

impl Choice {
    fn wait_for(self) -> usize {
        match self {
            Choice::One => 1,
            Choice::AtLeast(n) => n.get(),
        }
    }
}

/// A choice that is compared with the best one.
struct Look {
    choice: usize,
    /// The logarithm of its steps a second, while those of the best are measured.
    log_rate: Option<f64>,
    pairs: u32,
    /// Sums over pairs of the logarithm of how much more it made, and of its square.
    sums: [f64; 2],
}

/// What the measurement under way has seen.
#[derive(Clone, Copy, Default)]
struct Measured {
    steps: usize,
    time: Duration,
}

/// What steps and inference cost.
#[derive(Default)]
struct Model {
    /// Seconds of the newest steps of groups, and where the next one goes.
    step_secs: Vec<f64>,
    next: usize,
    /// Sums over inferences of rows `r` and seconds `s`: 1, r, r², s, r·s; older ones fade.
    sums: [f64; 5],
}

impl AdaptiveGather {
    /// For so many groups of so many environments. It begins with waiting for all.
    pub(crate) fn new(n_groups: usize, group_size: usize) -> Self {
        let at_least = |n| NonZeroUsize::new(n).map(Choice::AtLeast);
        let fewer = (0..).map(|power| 1 << power).take_while(|n| *n < n_groups).filter_map(at_least);
        let one = (n_groups > 1).then_some(Choice::One);
        let choices: Vec<_> = one.into_iter().chain(fewer).chain(at_least(n_groups.max(1))).collect();
        Self {
            best: choices.len() - 1,
            look: None,
            to_look_at: Vec::new(),
            left: SHORTEST_STRETCH,
            stretch: SHORTEST_STRETCH,
            last: None,
            noise: 0.0,
            group_size,
            settling: 0,
            measured: Measured::default(),
            model: Model::default(),
            choices,
        }
    }

    /// The rule to follow now, for answers in the order of their coming.
    pub(crate) fn rule(&self) -> Gather {
        match self.choices[self.now()] {
            Choice::One => Gather::InTurn,
            Choice::AtLeast(n) => Gather::AtLeast(n),
        }
    }

    /// How many groups to wait for now.
    #[cfg(test)]
    pub(crate) fn wait_for(&self) -> usize {
        self.choices[self.now()].wait_for()
    }

    /// A group took a step.
    pub(crate) fn stepped(&mut self, took: Duration) {
        self.model.stepped(took.as_secs_f64());
    }

    /// The policy acted for `rows` environments.
    pub(crate) fn inferred(&mut self, rows: usize, took: Duration) {
        self.model.inferred(rows as f64, took.as_secs_f64());
    }

    /// A round is over: so many steps since the last one, in so long.
    pub(crate) fn round(&mut self, steps: usize, took: Duration) {
        if self.settling > 0 {
            self.settling = self.settling.saturating_sub(steps);
            return;
        }
        self.measured.steps += steps;
        self.measured.time += took;
        let Measured { steps, time } = self.measured;
        if steps < SWEEPS * self.n_envs() || time < SHORTEST {
            return;
        }
        self.measured = Measured::default();
        let before = self.now();
        self.choose((steps as f64 / time.as_secs_f64()).ln());
        if self.now() != before {
            self.settling = SETTLING * self.n_envs();
        }
    }

    fn n_envs(&self) -> usize {
        self.choices.last().map_or(1, |all| all.wait_for()) * self.group_size
    }

    /// The choice being measured.
    fn now(&self) -> usize {
        match &self.look {
            Some(Look { choice, log_rate: None, .. }) => *choice,
            _ => self.best,
        }
    }

    /// Decides what is measured next; the logarithm of the steps a second is of what was measured now.
    fn choose(&mut self, log_rate: f64) {
        if let Some(mut look) = self.look.take() {
            match look.log_rate.take() {
                None => self.look = Some(Look { log_rate: Some(log_rate), ..look }),
                Some(other) => self.compare(look, other - log_rate),
            }
            return;
        }
        if let Some(last) = self.last.replace(log_rate) {
            // What is measured at first is often far off, and is to be forgotten soon.
            const FADE: f64 = 0.8;
            self.noise = FADE * self.noise + (1.0 - FADE) * (log_rate - last).powi(2);
        }
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.stretch = (2 * self.stretch).min(LONGEST_STRETCH);
        self.look_around(None);
    }

    /// The choice that is looked at has made more than the best, by such a factor's logarithm.
    fn compare(&mut self, mut look: Look, more: f64) {
        look.pairs += 1;
        look.sums = [look.sums[0] + more, look.sums[1] + more * more];
        let n = f64::from(look.pairs);
        let mean = look.sums[0] / n;
        let variance = (look.sums[1] / n - mean * mean).max(self.noise).max(LEAST_NOISE * LEAST_NOISE);
        let is_clear = mean.abs() > CLEARLY * (variance / n).sqrt();
        // One comparison may be wrong: it is enough to stay with the best, but not to leave it.
        if look.pairs < MOST_PAIRS && !(is_clear && (mean < 0.0 || look.pairs > 1)) {
            self.look = Some(look);
        } else if mean > 0.0 {
            if is_clear {
                self.stretch = (self.stretch / 2).max(SHORTEST_STRETCH);
            }
            let beaten = std::mem::replace(&mut self.best, look.choice);
            self.look_around(Some(beaten));
        } else {
            self.look_at_next();
        }
    }

    /// Looks at the neighbours of the best and at the predicted choice, but not at the one that it has just beaten.
    fn look_around(&mut self, beaten: Option<usize>) {
        self.to_look_at.clear();
        let predicted = self.model.best_of(&self.choices, self.group_size);
        for other in [self.best.checked_sub(1), Some(self.best + 1), predicted].into_iter().flatten() {
            let is_other = other < self.choices.len() && other != self.best && Some(other) != beaten;
            if is_other && !self.to_look_at.contains(&other) {
                self.to_look_at.push(other);
            }
        }
        self.look_at_next();
    }

    fn look_at_next(&mut self) {
        self.last = None;
        self.left = self.stretch;
        self.look = self.to_look_at.pop().map(|choice| Look { choice, log_rate: None, pairs: 0, sums: [0.0; 2] });
    }
}

impl Model {
    fn stepped(&mut self, secs: f64) {
        if self.step_secs.len() < SAMPLES {
            self.step_secs.push(secs);
        } else {
            self.step_secs[self.next] = secs;
            self.next = (self.next + 1) % SAMPLES;
        }
    }

    fn inferred(&mut self, rows: f64, secs: f64) {
        const FADE: f64 = 0.99;
        let new = [1.0, rows, rows * rows, secs, rows * secs];
        self.sums.iter_mut().zip(new).for_each(|(sum, new)| *sum = FADE * *sum + new);
    }

    /// Seconds of one inference of so many rows: a part for the call and one for each row.
    fn inference_secs(&self, n_rows: f64) -> f64 {
        let [n, rows, rows_squared, secs, rows_secs] = self.sums;
        if n == 0.0 {
            return 0.0;
        }
        let (mean_rows, mean_secs) = (rows / n, secs / n);
        let spread = rows_squared / n - mean_rows * mean_rows;
        // Without different batch sizes to compare, all of it counts as a cost of rows.
        let per_row = match spread > 1e-9 * mean_rows * mean_rows {
            true => ((rows_secs / n - mean_rows * mean_secs) / spread).clamp(0.0, mean_secs / mean_rows),
            false => mean_secs / mean_rows,
        };
        let per_call = (mean_secs - per_row * mean_rows).max(0.0);
        per_call + per_row * n_rows
    }

    /// Which choice would make the most steps if groups went on to take their steps as they did, all at the same time.
    fn best_of(&self, choices: &[Choice], group_size: usize) -> Option<usize> {
        let n_groups = choices.last()?.wait_for();
        if self.step_secs.len() < n_groups {
            return None;
        }
        let rate = |choice: Choice| self.predict(n_groups, group_size, choice);
        (0..choices.len()).max_by(|a, b| rate(choices[*a]).total_cmp(&rate(choices[*b])))
    }

    /// Groups' steps a second with this choice: a small simulation with the step times seen.
    fn predict(&self, n_groups: usize, group_size: usize, choice: Choice) -> f64 {
        let mut samples = self.step_secs.iter().cycle().copied();
        let mut step = || samples.next().unwrap_or(0.0);
        let mut arrivals: Vec<f64> = (0..n_groups).map(|_| step()).collect();
        let (mut now, mut steps) = (0.0_f64, 0);
        for _ in 0..PREDICTED_ROUNDS {
            arrivals.sort_by(f64::total_cmp);
            now = now.max(arrivals[choice.wait_for() - 1]);
            let there = match choice {
                Choice::One => 1,
                Choice::AtLeast(_) => arrivals.iter().filter(|arrival| **arrival <= now).count(),
            };
            now += self.inference_secs((there * group_size) as f64);
            arrivals[..there].fill_with(|| now + step());
            steps += there;
        }
        if now > 0.0 { f64::from(steps as u32) / now } else { 0.0 }
    }
}
