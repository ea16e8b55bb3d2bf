use std::time::Duration;

/// Rounds that a measurement covers, for each group: fewer would be chance.
const ROUNDS: usize = 16;
/// The shortest measurement.
const SHORTEST: Duration = Duration::from_millis(20);
/// Measurements of the best number between two looks at others: at first, and at most. The looks are what being adaptive costs.
const SHORTEST_STRETCH: u32 = 2;
const LONGEST_STRETCH: u32 = 128;
/// By how much another number has to be better before it is preferred.
const BETTER: f64 = 1.01;
/// How much of an older measurement a newer one leaves.
const MEMORY: f64 = 0.5;
/// Step times that are remembered, over all groups.
const SAMPLES: usize = 256;
/// Rounds of one prediction.
const PREDICTED_ROUNDS: usize = 64;

/// Finds the number of groups to wait for that makes the most steps.
///
/// It measures how long groups step and what inference costs, predicts from them which number is best, and then trusts what it
/// sees: most of the time it uses the number that has made the most steps a second, and now and then it looks at the next
/// smaller, the next larger and the predicted one. The longer nothing changes, the less often it looks.
pub(crate) struct AdaptiveGather {
    /// Numbers of groups to choose from, rising.
    choices: Vec<usize>,
    /// Steps a second of each, as far as they were measured.
    rates: Vec<Option<f64>>,
    /// The choice being measured.
    now: usize,
    /// The choice that has made the most steps.
    best: usize,
    /// Choices to be looked at before the best is used again.
    to_look_at: Vec<usize>,
    /// Measurements of the best until the next look.
    left: u32,
    stretch: u32,
    group_size: usize,
    measured: Measured,
    model: Model,
}

/// What the measurement under way has seen.
#[derive(Clone, Copy, Default)]
struct Measured {
    rounds: usize,
    steps: u64,
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
        let mut choices: Vec<usize> = (0..).map(|power| 1 << power).take_while(|n| *n < n_groups).collect();
        choices.push(n_groups);
        let last = choices.len() - 1;
        Self {
            rates: vec![None; choices.len()],
            now: last,
            best: last,
            to_look_at: Vec::new(),
            left: 0,
            stretch: SHORTEST_STRETCH,
            group_size,
            measured: Measured::default(),
            model: Model::default(),
            choices,
        }
    }

    /// How many groups to wait for now.
    pub(crate) fn wait_for(&self) -> usize {
        self.choices[self.now]
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
        self.measured.rounds += 1;
        self.measured.steps += steps as u64;
        self.measured.time += took;
        let Measured { rounds, steps, time } = self.measured;
        if rounds * self.wait_for() < ROUNDS * self.n_groups() || time < SHORTEST {
            return;
        }
        let rate = steps as f64 / time.as_secs_f64();
        let known = &mut self.rates[self.now];
        *known = Some(known.map_or(rate, |known| MEMORY * known + (1.0 - MEMORY) * rate));
        self.measured = Measured::default();
        self.choose();
    }

    fn n_groups(&self) -> usize {
        self.choices.last().copied().unwrap_or(1)
    }

    /// Decides what is measured next.
    fn choose(&mut self) {
        if let Some(next) = self.to_look_at.pop() {
            self.now = next;
            return;
        }
        let rate = |choice: usize| self.rates[choice].unwrap_or(0.0);
        let all = 0..self.choices.len();
        if let Some(other) = all.max_by(|a, b| rate(*a).total_cmp(&rate(*b)))
            && rate(other) > BETTER * rate(self.best)
        {
            self.best = other;
            self.stretch = (self.stretch / 2).max(SHORTEST_STRETCH);
            self.left = self.stretch;
        }
        self.now = self.best;
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.stretch = (2 * self.stretch).min(LONGEST_STRETCH);
        self.left = self.stretch;
        let predicted = self.model.best_of(&self.choices, self.group_size);
        for other in [self.best.checked_sub(1), Some(self.best + 1), predicted].into_iter().flatten() {
            if other != self.best && other < self.choices.len() && !self.to_look_at.contains(&other) {
                self.to_look_at.push(other);
            }
        }
        self.now = self.to_look_at.pop().unwrap_or(self.best);
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
    fn best_of(&self, choices: &[usize], group_size: usize) -> Option<usize> {
        let n_groups = *choices.last()?;
        if self.step_secs.len() < n_groups {
            return None;
        }
        let rate = |wait_for: usize| self.predict(n_groups, group_size, wait_for);
        (0..choices.len()).max_by(|a, b| rate(choices[*a]).total_cmp(&rate(choices[*b])))
    }

    /// Groups' steps a second when `wait_for` of them are waited for: a small simulation with the step times seen.
    fn predict(&self, n_groups: usize, group_size: usize, wait_for: usize) -> f64 {
        let mut samples = self.step_secs.iter().cycle().copied();
        let mut step = || samples.next().unwrap_or(0.0);
        let mut arrivals: Vec<f64> = (0..n_groups).map(|_| step()).collect();
        let (mut now, mut steps) = (0.0_f64, 0);
        for _ in 0..PREDICTED_ROUNDS {
            arrivals.sort_by(f64::total_cmp);
            now = now.max(arrivals[wait_for - 1]);
            let there = arrivals.iter().filter(|arrival| **arrival <= now).count();
            now += self.inference_secs((there * group_size) as f64);
            arrivals[..there].fill_with(|| now + step());
            steps += there;
        }
        if now > 0.0 { f64::from(steps as u32) / now } else { 0.0 }
    }
}
