//! Maps published versions of the weights to updates.

use std::collections::VecDeque;

/// Older versions count as the oldest kept.
const REMEMBERED: usize = 1024;

/// The newest publications, each with the number of updates before it.
pub(super) struct Publications {
    /// `(version, updates)`, both rising; never empty.
    recent: VecDeque<(u64, u64)>,
}

impl Publications {
    /// Version 0 are the weights after `updates`.
    pub(super) fn beginning_at(updates: u64) -> Self {
        Self { recent: VecDeque::from([(0, updates)]) }
    }

    /// Continues from saved publications, or else with version 0 after `updates`.
    pub(super) fn continuing(saved: Vec<(u64, u64)>, updates: u64) -> Self {
        if saved.is_empty() { Self::beginning_at(updates) } else { Self { recent: saved.into() } }
    }

    pub(super) fn save(&self) -> Vec<(u64, u64)> {
        self.recent.iter().copied().collect()
    }

    pub(super) fn add(&mut self, version: u64, updates: u64) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((version, updates));
    }

    /// The mean number of updates between the weights of these `versions` and `updates`.
    pub(super) fn mean_updates_behind(&self, updates: u64, versions: &[u64]) -> f64 {
        // A batch has few versions, mostly in long runs: each run is looked up once.
        let behind = versions.chunk_by(|one, next| one == next).map(|run| {
            let behind = updates.saturating_sub(self.updates_at(run[0]));
            behind * run.len() as u64
        });
        behind.sum::<u64>() as f64 / versions.len() as f64
    }

    fn updates_at(&self, version: u64) -> u64 {
        let known = self.recent.iter().rev().find(|publication| publication.0 <= version);
        known.or_else(|| self.recent.front()).map_or(0, |publication| publication.1)
    }
}

impl Default for Publications {
    fn default() -> Self {
        Self::beginning_at(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_behind_are_counted_from_the_publication_a_version_came_from() {
        let mut publications = Publications::beginning_at(100);
        publications.add(1, 104);
        publications.add(2, 108);
        assert_eq!(publications.mean_updates_behind(110, &[2]), 2.0);
        assert_eq!(publications.mean_updates_behind(110, &[0, 1, 2]), (10 + 6 + 2) as f64 / 3.0);
    }

    #[test]
    fn a_version_that_was_forgotten_counts_as_the_oldest_remembered() {
        let mut publications = Publications::default();
        for version in 1..=2 * REMEMBERED as u64 {
            publications.add(version, version);
        }
        let oldest = REMEMBERED as u64 + 1;
        assert_eq!(publications.mean_updates_behind(2 * oldest, &[3]), oldest as f64);
    }
}
