//! Whether what a process has stays as it was once the run had warmed up.

use std::fmt;
use std::time::Duration;

use super::{Checker, Sample};
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

/// What a process takes of the system, and what it has allocated of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident: Growth,
    pub(crate) heap: Growth,
}

/// Memory over the time after the warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Growth {
    /// MiB per hour, with its error, and whether both halves of the time were too steep: memory that grows in
    /// one step, such as by a huge page, does not leak.
    Slope { per_hour: f64, error: f64, goes_on: bool },
    /// MiB more than the most in the warm-up, in a run that was too short for a slope.
    More { mib: f64 },
}

type Count = fn(&Census) -> u64;
type Kib = fn(&Sample) -> u64;

impl Checker {
    /// All samples, a line each.
    pub(crate) fn csv(&self) -> String {
        let line = |Sample { at, census, heap_kib }: &Sample| {
            let Census { memory_kib, threads, descriptors, shared, children, running } = census;
            format!("{at:.1},{memory_kib},{heap_kib},{threads},{descriptors},{shared},{children},{running}\n")
        };
        let head = "secs,memory_kib,heap_kib,threads,descriptors,shared,children,running\n".to_owned();
        head + &self.samples.iter().map(line).collect::<String>()
    }

    /// Judges the samples up to the last result, since a run that ends gives back memory and threads; `None`
    /// without any after the warm-up.
    pub(crate) fn flat(&mut self) -> Option<Memory> {
        let samples: Vec<_> = self.samples.iter().copied().take_while(|sample| sample.at <= self.last_result).collect();
        let warm_up = (self.share / 4).clamp(WARM_UP.0, WARM_UP.1).as_secs_f64();
        let warm_until = samples.first().map_or(0.0, |sample| sample.at) + warm_up;
        let (warm_up, rest) = samples.split_at(samples.partition_point(|sample| sample.at < warm_until));
        let most = |of: Count, part: &[Sample]| part.iter().map(|sample| of(&sample.census)).max();
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
        let growth = |of| self.growth(of, warm_up, rest);
        let resident = growth(|sample| sample.census.memory_kib);
        let memory = resident.zip(growth(|sample| sample.heap_kib)).map(|(resident, heap)| Memory { resident, heap });
        let is_judged = !matches!(self.cell.end, End::Fails(_));
        match memory {
            _ if !is_judged => {}
            None if self.share >= SHORTEST => self.fail("no samples", || "there are none after the warm-up".to_owned()),
            None => {}
            Some(Memory { resident, heap }) => {
                for (kind, growth) in [("memory", resident), ("heap", heap)] {
                    if growth.is_too_much() {
                        self.fail(kind, || growth.to_string());
                    }
                }
            }
        }
        memory
    }

    fn growth(&self, of: Kib, warm_up: &[Sample], rest: &[Sample]) -> Option<Growth> {
        let (first, last) = (rest.first()?.at, rest.last()?.at);
        let mib = |sample: &Sample| of(sample) as f64 / 1024.0;
        let points: Vec<_> = rest.iter().map(|sample| (sample.at, mib(sample))).collect();
        // Each process of a run that is resumed begins with little.
        let is_long = last - first >= LONG_ENOUGH.as_secs_f64() && self.processes == 1;
        if is_long && let Some(line) = Slope::of_floors(&points, WINDOW) {
            let steep = |part| Slope::of_floors(part, WINDOW).is_none_or(|line| 3600.0 * line.slope > STEEPEST);
            let (one, other) = points.split_at(points.len() / 2);
            let goes_on = steep(one) && steep(other);
            return Some(Growth::Slope { per_hour: 3600.0 * line.slope, error: ERRORS * 3600.0 * line.error, goes_on });
        }
        let most = |part: &[Sample]| part.iter().map(mib).reduce(f64::max);
        Some(Growth::More { mib: most(rest)? - most(warm_up)? })
    }
}

impl Growth {
    fn is_too_much(self) -> bool {
        match self {
            Self::Slope { per_hour, error, goes_on } => goes_on && per_hour - error > STEEPEST,
            Self::More { mib } => mib > SPARE_MIB,
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slope { per_hour, error, .. } => write!(f, "{per_hour:+.2} ± {error:.2} MiB/h"),
            Self::More { mib } => write!(f, "{mib:+.1} MiB after the warm-up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use pronk::Rng;

    use super::*;
    use crate::cells::Cell;

    /// What is found in 20 minutes of memory and heap, in MiB, that also go up and down.
    fn found(last_result: f64, resident: impl Fn(f64) -> f64, heap: impl Fn(f64) -> f64) -> Vec<String> {
        let mut checker = Checker::new(Cell::named("plain").unwrap(), Duration::from_secs(1200));
        let mut rng = Rng::seed_from(1);
        (checker.processes, checker.last_result) = (1, last_result);
        checker.samples.extend((0..1200).map(|second| {
            let at = f64::from(second);
            let memory_kib = (1024.0 * (resident(at) + 4.0 * rng.next_f64())) as u64;
            let heap_kib = (1024.0 * (heap(at) + rng.next_f64())) as u64;
            Sample { at, census: Census { memory_kib, ..Census::default() }, heap_kib }
        }));
        checker.flat();
        checker.failures()
    }

    #[test]
    fn memory_that_grows_is_found_and_one_step_is_not() {
        let flat = |_| 10.0;
        assert!(found(1200.0, |at| 20.0 + 6.0 * at / 3600.0, flat)[0].starts_with("memory: +6."));
        assert_eq!(found(1200.0, flat, flat), Vec::<String>::new());
        assert_eq!(found(1200.0, |at| if at < 700.0 { 20.0 } else { 22.0 }, flat), Vec::<String>::new());
    }

    #[test]
    fn what_is_allocated_shows_a_leak_that_is_too_slow_for_resident_memory() {
        let leak = |at: f64| 10.0 + 1.5 * at / 3600.0;
        assert!(found(1200.0, |_| 20.0, leak)[0].starts_with("heap: +1."));
    }

    #[test]
    fn memory_that_is_given_back_at_the_end_does_not_hide_a_leak() {
        let leak = |at: f64| 20.0 + 6.0 * at / 3600.0 - if at < 1195.0 { 0.0 } else { 4.0 };
        for last_result in [1194.5, 1200.0] {
            assert!(found(last_result, leak, |_| 10.0)[0].starts_with("memory: +"), "{last_result}");
        }
    }
}
