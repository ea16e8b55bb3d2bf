use std::num::NonZeroUsize;
use std::time::Duration;

use super::rule::Gather;

/// Steps of every group that one measurement covers.
const SWEEPS: usize = 4;

/// The shortest measurement.
const SHORTEST: Duration = Duration::from_millis(20);

/// How much faster a rule has to be to matter, as a logarithm.
const WORTH: f64 = 0.01;

/// Standard errors by which a rule must be behind before it leaves the race.
const CLEARLY: f64 = 2.0;

/// A race lasts at least this many laps, and no longer than this once it has.
const FEWEST_LAPS: usize = 4;
const LONGEST_RACE: Duration = Duration::from_secs(6);

/// How many times the length of a race its winner is used before the next race: at first, and at most.
const SHORTEST_STRETCH: u32 = 4;
const LONGEST_STRETCH: u32 = 64;

/// Finds the number of groups to wait for that makes the most steps per second, by races.
///
/// A lap of a race uses each rule for a short while. Rules are compared lap by lap, so that a slowdown of the
/// machine counts against none. One that is clearly behind leaves the race, so that bad rules cost little; a
/// race of nearly equal ones ends after a few seconds. Between races the winner is used, for longer each time
/// it wins again.
pub(crate) struct AdaptiveGather {
    /// From one group to all of them.
    rules: Vec<Gather>,
    /// The winner of the last race.
    best: usize,
    race: Option<Race>,
    /// Time until the next race.
    rest: Duration,
    /// `rest` after a race, as a multiple of its length; zero before the first.
    stretch: u32,
    noise: Noise,
    /// Whether the first lap is over, which is not counted: memory and threads are used for the first time.
    is_warm: bool,
    n_envs: usize,
    /// Steps to skip, because groups still move as by the rule before.
    settling: usize,
    /// Steps and time of the measurement under way.
    measured: (usize, Duration),
}

struct Race {
    contestants: Vec<Contestant>,
    /// Which of them is in use.
    turn: usize,
    /// Time measured so far.
    took: Duration,
    /// Whether the last winner left, behind by more than [`WORTH`].
    is_best_beaten: bool,
}

struct Contestant {
    rule: usize,
    /// The logarithm of its steps per second in every lap.
    laps: Vec<f64>,
}

impl Contestant {
    fn mean(&self) -> f64 {
        self.laps.iter().sum::<f64>() / self.laps.len() as f64
    }
}

/// How much repeated measurements of one rule differ by chance, as logarithms.
struct Noise {
    /// Sum of squares and their number; older ones fade.
    squares: f64,
    freedom: f64,
}

impl Noise {
    const LEAST: f64 = 0.01;
    /// Assumed before anything has been measured.
    const AT_FIRST: f64 = 0.1;

    /// Learns from how much each contestant gained on the others between the last two laps.
    fn learn(&mut self, contestants: &[Contestant]) {
        const FADE: f64 = 0.9;
        let gain = |contestant: &Contestant| match contestant.laps[..] {
            [.., before, last] => last - before,
            _ => 0.0,
        };
        let n = contestants.len() as f64;
        let mean = contestants.iter().map(gain).sum::<f64>() / n;
        // Each gain is the difference of two measurements, and so has twice their variance.
        let squares = contestants.iter().map(|contestant| (gain(contestant) - mean).powi(2) / 2.0).sum::<f64>();
        self.squares = FADE * self.squares + squares;
        self.freedom = FADE * self.freedom + n - 1.0;
    }

    fn variance(&self) -> f64 {
        (self.squares / self.freedom).max(Self::LEAST * Self::LEAST)
    }
}

impl AdaptiveGather {
    /// For `n_groups` groups of `group_size` environments each. The first rule is to wait for all.
    pub(crate) fn new(n_groups: usize, group_size: usize) -> Self {
        let at_least = |n| NonZeroUsize::new(n).map(Gather::AtLeast);
        let fewer = (0..).map(|power| 1 << power).take_while(|n| *n < n_groups).filter_map(at_least);
        let one = (n_groups > 1).then_some(Gather::InTurn);
        let rules: Vec<_> = one.into_iter().chain(fewer).chain(at_least(n_groups.max(1))).collect();
        Self {
            best: rules.len() - 1,
            rules,
            race: None,
            rest: Duration::ZERO,
            stretch: 0,
            noise: Noise { squares: Noise::AT_FIRST * Noise::AT_FIRST, freedom: 1.0 },
            is_warm: false,
            n_envs: n_groups.max(1) * group_size,
            settling: 0,
            measured: (0, Duration::ZERO),
        }
    }

    /// The rule to follow now. [`Gather::InTurn`] stands for the first group that answers, and no other.
    pub(crate) fn rule(&self) -> Gather {
        self.rules[self.now()]
    }

    #[cfg(test)]
    pub(crate) fn is_racing(&self) -> bool {
        self.race.is_some()
    }

    fn now(&self) -> usize {
        self.race.as_ref().map_or(self.best, |race| race.contestants[race.turn].rule)
    }

    /// A round is over: the environments made `steps` steps since the last one, in `took`.
    pub(crate) fn round(&mut self, steps: usize, took: Duration) {
        if self.settling > 0 {
            self.settling = self.settling.saturating_sub(steps);
            return;
        }
        let (steps, time) = (self.measured.0 + steps, self.measured.1 + took);
        self.measured = (steps, time);
        if steps < SWEEPS * self.n_envs || time < SHORTEST {
            return;
        }
        self.measured = (0, Duration::ZERO);
        let before = self.now();
        match self.race.take() {
            Some(race) => self.race = self.run(race, steps as f64 / time.as_secs_f64(), time),
            None => {
                self.rest = self.rest.saturating_sub(time);
                if self.rest.is_zero() && self.rules.len() > 1 {
                    let contestants = (0..self.rules.len()).map(|rule| Contestant { rule, laps: Vec::new() });
                    let contestants = contestants.collect();
                    self.race = Some(Race { contestants, turn: 0, took: Duration::ZERO, is_best_beaten: false });
                }
            }
        }
        if self.now() != before {
            self.settling = self.n_envs;
        }
    }

    /// Books one measurement; the race if it is not over.
    fn run(&mut self, mut race: Race, rate: f64, time: Duration) -> Option<Race> {
        race.took += time;
        race.contestants[race.turn].laps.push(rate.ln());
        race.turn += 1;
        if race.turn < race.contestants.len() {
            return Some(race);
        }
        race.turn = 0;
        if !std::mem::replace(&mut self.is_warm, true) {
            race.contestants.iter_mut().for_each(|contestant| contestant.laps.clear());
            return Some(race);
        }
        let leader = self.end_lap(&mut race);
        let is_long = race.contestants[0].laps.len() >= FEWEST_LAPS && race.took >= LONGEST_RACE;
        if race.contestants.len() > 1 && !is_long {
            return Some(race);
        }
        self.best = leader;
        self.stretch = match race.is_best_beaten {
            true => SHORTEST_STRETCH,
            false => (2 * self.stretch).clamp(SHORTEST_STRETCH, LONGEST_STRETCH),
        };
        self.rest = race.took * self.stretch;
        None
    }

    /// Takes those that are too far behind out of the race, and returns the leader.
    fn end_lap(&mut self, race: &mut Race) -> usize {
        let means = race.contestants.iter().map(|contestant| (contestant.rule, contestant.mean()));
        let (leader, fastest) = means.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((self.best, 0.0));
        let n_laps = race.contestants[0].laps.len();
        let mut variance = Noise::AT_FIRST * Noise::AT_FIRST;
        // A single lap may mislead, whatever the noise so far: only rules that are far behind leave after it.
        if n_laps > 1 {
            self.noise.learn(&race.contestants);
            variance = self.noise.variance();
        }
        let error = (2.0 * variance / n_laps as f64).sqrt();
        race.contestants.retain(|contestant| {
            let behind = fastest - contestant.mean();
            let stays = contestant.rule == leader || CLEARLY * error - behind > WORTH;
            race.is_best_beaten |= !stays && contestant.rule == self.best && behind > WORTH;
            stays
        });
        leader
    }
}
