use std::num::NonZeroUsize;

/// For how many groups to wait, and whom to act for.
#[derive(Clone, Copy)]
pub(super) enum ActionSelection {
    /// The first group that answers, and no other: where batches do not make inference cheaper, the others had better step
    /// meanwhile.
    One,
    /// So many groups, and those that have answered as well by then.
    AtLeast(NonZeroUsize),
}

impl ActionSelection {
    pub(super) fn wait_for(self) -> usize {
        match self {
            ActionSelection::One => 1,
            ActionSelection::AtLeast(n) => n.get(),
        }
    }
}

/// Step times that are remembered, over all groups.
const SAMPLES: usize = 256;

/// Rounds of one prediction.
const PREDICTED_ROUNDS: usize = 64;

/// What steps and inference cost.
#[derive(Default)]
pub(super) struct Model {
    /// Seconds of the newest steps of groups, and where the next one goes.
    step_secs: Vec<f64>,
    next: usize,
    /// Sums over inferences of rows `r` and seconds `s`: 1, r, r², s, r·s; older ones fade.
    sums: [f64; 5],
}

impl Model {
    pub(super) fn stepped(&mut self, secs: f64) {
        if self.step_secs.len() < SAMPLES {
            self.step_secs.push(secs);
        } else {
            self.step_secs[self.next] = secs;
            self.next = (self.next + 1) % SAMPLES;
        }
    }

    pub(super) fn inferred(&mut self, rows: f64, secs: f64) {
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

    /// Which choice would make the most steps if groups went on to take their steps as they did, all at the same time. With more
    /// groups than step times are remembered, which would take long to predict, nothing is: races get there by neighbours.
    pub(super) fn best_of(&self, choices: &[ActionSelection], group_size: usize) -> Option<usize> {
        let n_groups = choices.last()?.wait_for();
        if self.step_secs.len() < n_groups {
            return None;
        }
        let rate = |choice: ActionSelection| self.predict(n_groups, group_size, choice);
        (0..choices.len()).max_by(|a, b| rate(choices[*a]).total_cmp(&rate(choices[*b])))
    }

    /// Groups' steps a second with this choice: a small simulation with the step times seen.
    fn predict(&self, n_groups: usize, group_size: usize, choice: ActionSelection) -> f64 {
        let mut samples = self.step_secs.iter().cycle().copied();
        let mut step = || samples.next().unwrap_or(0.0);
        let mut arrivals: Vec<f64> = (0..n_groups).map(|_| step()).collect();
        let (mut now, mut steps) = (0.0_f64, 0);
        for _ in 0..PREDICTED_ROUNDS {
            arrivals.sort_by(f64::total_cmp);
            now = now.max(arrivals[choice.wait_for() - 1]);
            let there = match choice {
                ActionSelection::One => 1,
                ActionSelection::AtLeast(_) => arrivals.iter().filter(|arrival| **arrival <= now).count(),
            };
            now += self.inference_secs((there * group_size) as f64);
            arrivals[..there].fill_with(|| now + step());
            steps += there;
        }
        if now > 0.0 { f64::from(steps as u32) / now } else { 0.0 }
    }
}
