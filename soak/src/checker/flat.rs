//! Whether what a process has stays as it was once the run had warmed up.

use std::time::Duration;

use super::Checker;
use crate::cells::End;
use crate::census::Census;
use crate::slope::Slope;

/// The warm-up is a quarter of the cell's share, but within these.
const WARM_UP: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(180));

/// A share that is long enough for samples after the warm-up.
const SHORTEST: Duration = Duration::from_secs(10);

/// How long memory is watched before its slope is judged.
const LONG_ENOUGH: Duration = Duration::from_secs(900);

/// The lowest memory within these many seconds counts.
const WINDOW: f64 = 60.0;

/// Standard errors by which a slope has to be too steep.
const ERRORS: f64 = 3.0;

/// MiB per hour.
const STEEPEST: f64 = 1.0;

/// More descriptors than in the warm-up: files that are being written.
const SPARE_DESCRIPTORS: u64 = 16;

const SPARE_THREADS: u64 = 4;

/// Mappings of a process of environments that starts while another ends.
const SPARE_SHARED: u64 = 8;

/// Memory of a run that is too short for a slope: more than in the warm-up.
const SPARE_MIB: f64 = 24.0;

/// Memory over the time after the warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Memory {
    /// MiB per hour, with its error, and whether both halves of the time were too steep: memory that grows in
    /// one step, such as by a huge page, does not leak.
    Slope { per_hour: f64, error: f64, goes_on: bool },
    /// MiB more than the most in the warm-up, in a run that was too short for a slope.
    Growth { mib: f64 },
}

type Count = fn(&Census) -> u64;

fn mib(census: &Census) -> f64 {
    census.memory_kib as f64 / 1024.0
}

impl Checker {
    /// All samples, a line each.
    pub(crate) fn csv(&self) -> String {
        let line = |(at, census): &(f64, Census)| {
            let Census { memory_kib, threads, descriptors, shared, children, running } = census;
            format!("{at:.1},{memory_kib},{threads},{descriptors},{shared},{children},{running}\n")
        };
        let head = "secs,memory_kib,threads,descriptors,shared,children,running\n".to_owned();
        head + &self.samples.iter().map(line).collect::<String>()
    }

    /// Judges the samples up to the last result, since a run that ends gives back memory and threads; `None`
    /// without any after the warm-up.
    pub(crate) fn flat(&mut self) -> Option<Memory> {
        let samples: Vec<_> = self.samples.iter().copied().take_while(|(at, _)| *at <= self.last_result).collect();
        let warm_up = (self.share / 4).clamp(WARM_UP.0, WARM_UP.1).as_secs_f64();
        let warm_until = samples.first().map_or(0.0, |(at, _)| *at) + warm_up;
        let (warm_up, rest) = samples.split_at(samples.partition_point(|(at, _)| *at < warm_until));
        let most = |of: Count, part: &[(f64, Census)]| part.iter().map(|(_, census)| of(census)).max();
        let figures: [(&str, Count, u64); 4] = [
            ("threads", |census| census.threads, SPARE_THREADS + self.cell.spare_threads),
            ("descriptors", |census| census.descriptors, SPARE_DESCRIPTORS),
            ("shared memory", |census| census.shared, SPARE_SHARED),
            ("children", |census| census.children, SPARE_SHARED),
        ];
        for (what, of, spare) in figures {
            if let (Some(before), Some(after)) = (most(of, warm_up), most(of, rest))
                && after > before + spare
            {
                self.fail(what, || format!("{before} at most in the warm-up, {after} after it"));
            }
        }
        let is_judged = !matches!(self.cell.end, End::Fails(_));
        let memory = self.memory(warm_up, rest);
        match memory {
            _ if !is_judged => {}
            None if self.share >= SHORTEST => self.fail("no samples", || "there are none after the warm-up".to_owned()),
            Some(Memory::Slope { per_hour, error, goes_on: true }) if per_hour - error > STEEPEST => {
                self.fail("memory", || format!("grows by {per_hour:.2} ± {error:.2} MiB/h"));
            }
            Some(Memory::Growth { mib }) if mib > SPARE_MIB => {
                self.fail("memory", || format!("{mib:.0} MiB more than in the warm-up"));
            }
            None | Some(Memory::Slope { .. } | Memory::Growth { .. }) => {}
        }
        memory
    }

    fn memory(&self, warm_up: &[(f64, Census)], rest: &[(f64, Census)]) -> Option<Memory> {
        let (first, last) = (rest.first()?.0, rest.last()?.0);
        let points: Vec<_> = rest.iter().map(|(at, census)| (*at, mib(census))).collect();
        // Each process of a run that is resumed begins with little.
        let is_long = last - first >= LONG_ENOUGH.as_secs_f64() && self.processes == 1;
        if is_long && let Some(line) = Slope::of_floors(&points, WINDOW) {
            let steep = |part| Slope::of_floors(part, WINDOW).is_none_or(|line| 3600.0 * line.slope > STEEPEST);
            let (one, other) = points.split_at(points.len() / 2);
            let goes_on = steep(one) && steep(other);
            return Some(Memory::Slope { per_hour: 3600.0 * line.slope, error: ERRORS * 3600.0 * line.error, goes_on });
        }
        let most = |part: &[(f64, Census)]| part.iter().map(|(_, census)| mib(census)).reduce(f64::max);
        Some(Memory::Growth { mib: most(rest)? - most(warm_up)? })
    }
}

#[cfg(test)]
mod tests {
    use pronk::Rng;

    use super::*;
    use crate::cells::Cell;

    /// What is found in 20 minutes of memory, in MiB, that also goes up and down.
    fn found(last_result: f64, memory_mib: impl Fn(f64) -> f64) -> Vec<String> {
        let mut checker = Checker::new(Cell::named("plain").unwrap(), Duration::from_secs(1200));
        let mut rng = Rng::seed_from(1);
        (checker.processes, checker.last_result) = (1, last_result);
        checker.samples.extend((0..1200).map(|second| {
            let at = f64::from(second);
            let memory_kib = (1024.0 * (memory_mib(at) + 4.0 * rng.next_f64())) as u64;
            (at, Census { memory_kib, ..Census::default() })
        }));
        checker.flat();
        checker.failures()
    }

    #[test]
    fn memory_that_grows_is_found_and_one_step_is_not() {
        assert!(found(1200.0, |at| 20.0 + 6.0 * at / 3600.0)[0].starts_with("memory: grows by "));
        assert_eq!(found(1200.0, |_| 20.0), Vec::<String>::new());
        assert_eq!(found(1200.0, |at| if at < 700.0 { 20.0 } else { 22.0 }), Vec::<String>::new());
    }

    #[test]
    fn memory_that_is_given_back_at_the_end_does_not_hide_a_leak() {
        let leak = |at: f64| 20.0 + 6.0 * at / 3600.0 - if at < 1195.0 { 0.0 } else { 4.0 };
        for last_result in [1194.5, 1200.0] {
            assert!(found(last_result, leak)[0].starts_with("memory: grows by "), "{last_result}");
        }
    }
}
