use std::num::NonZeroUsize;
use std::time::Duration;

use super::model::{ActionSelection, Model};
use super::rule::Gather;

/// Steps of every group that a measurement covers, and those before it, while groups still move as by the choice before.
const SWEEPS: usize = 4;

const SETTLING: usize = 1;

/// The shortest measurement.
const SHORTEST: Duration = Duration::from_millis(20);

/// So many choices are few enough that all of them take part in the first race.
const FEW: usize = 8;

/// How much faster a choice has to be to matter, as a logarithm.
const WORTH: f64 = 0.01;

/// How many standard errors one may be taken in by.
const CLEARLY: f64 = 2.0;

/// A race takes so many laps at least; after so long those that are left are about as good as each other.
const FEWEST_LAPS: usize = 4;

const LONGEST_RACE: Duration = Duration::from_secs(6);

/// How much longer than a race took its winner is used before the next one: at first, and at most.
const SHORTEST_STRETCH: u32 = 4;

const LONGEST_STRETCH: u32 = 64;

/// Finds the number of groups to wait for that makes the most steps.
///
/// It has choices run races, and between them it uses the one that won the last. In every lap of a race each contestant is used for
/// a short while, one after the other, and they are compared lap by lap: what slows down all of them, such as another program, says
/// nothing about any. How far measurements differ by chance is seen in how the distances change from lap to lap. Who is too far
/// behind the leader to be worth more laps leaves, so that bad choices cost little. A race among nearly equal ones ends after a
/// few seconds.
///
/// All choices take part in the first race where they are few. In every other it is the best so far, the next smaller, the next
/// larger, and the one that a model predicts from how long groups step and what inference costs. The longer nothing changes, the
/// less often there is a race. Smaller than one group and whoever has answered as well is one group and no other.
pub(crate) struct AdaptiveGather {
    /// What there is to choose from, in the order of the number of groups.
    choices: Vec<ActionSelection>,
    /// The choice that won the last race.
    best: usize,
    race: Option<Race>,
    /// Time until the next race.
    rest: Duration,
    /// How much longer than the last race took its winner is used; zero before the first.
    stretch: u32,
    noise: Noise,
    /// A first lap is over, which does not count: memory and threads were used for the first time.
    is_warm: bool,
    group_size: usize,
    /// Steps until the measurement begins.
    settling: usize,
    measured: Measured,
    model: Model,
}

/// Contestants, each of which is measured once in a lap.
struct Race {
    contestants: Vec<Contestant>,
    /// Whose turn it is.
    turn: usize,
    /// Time measured so far.
    took: Duration,
    /// All choices have taken part.
    has_all: bool,
    /// The winner of the race before has left, and was behind by more than [`WORTH`].
    is_best_beaten: bool,
}

struct Contestant {
    choice: usize,
    /// The logarithm of its steps a second in every lap.
    laps: Vec<f64>,
}

impl Contestant {
    fn mean(&self) -> f64 {
        self.laps.iter().sum::<f64>() / self.laps.len() as f64
    }
}

/// How much the logarithms of measurements of the same differ by chance.
struct Noise {
    /// Sum of squares, and how many there are of them; older ones fade.
    squares: f64,
    freedom: f64,
}

impl Noise {
    /// The least that it is taken for, and what it is taken for as long as next to nothing has been seen.
    const LEAST: f64 = 0.01;
    const AT_FIRST: f64 = 0.1;

    /// Learns from the last two laps: by how much each contestant came closer to the others or fell back.
    fn learn(&mut self, contestants: &[Contestant]) {
        const FADE: f64 = 0.9;
        let change = |contestant: &Contestant| match contestant.laps[..] {
            [.., before, last] => last - before,
            _ => 0.0,
        };
        let n = contestants.len() as f64;
        let mean = contestants.iter().map(change).sum::<f64>() / n;
        // Two measurements are in each change.
        let squares = contestants.iter().map(|contestant| (change(contestant) - mean).powi(2) / 2.0).sum::<f64>();
        self.squares = FADE * self.squares + squares;
        self.freedom = FADE * self.freedom + n - 1.0;
    }

    fn variance(&self) -> f64 {
        (self.squares / self.freedom).max(Self::LEAST * Self::LEAST)
    }
}

/// What the measurement under way has seen.
#[derive(Clone, Copy, Default)]
struct Measured {
    steps: usize,
    time: Duration,
}

impl AdaptiveGather {
    /// For so many groups of so many environments. It begins with waiting for all.
    pub(crate) fn new(n_groups: usize, group_size: usize) -> Self {
        let at_least = |n| NonZeroUsize::new(n).map(ActionSelection::AtLeast);
        let fewer = (0..).map(|power| 1 << power).take_while(|n| *n < n_groups).filter_map(at_least);
        let one = (n_groups > 1).then_some(ActionSelection::One);
        let choices: Vec<_> = one.into_iter().chain(fewer).chain(at_least(n_groups.max(1))).collect();
        Self {
            best: choices.len() - 1,
            race: None,
            rest: Duration::ZERO,
            stretch: 0,
            noise: Noise { squares: Noise::AT_FIRST * Noise::AT_FIRST, freedom: 1.0 },
            is_warm: false,
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
            ActionSelection::One => Gather::InTurn,
            ActionSelection::AtLeast(n) => Gather::AtLeast(n),
        }
    }

    #[cfg(test)]
    pub(crate) fn is_racing(&self) -> bool {
        self.race.is_some()
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
        match self.race.take() {
            Some(race) => self.run(race, steps as f64 / time.as_secs_f64(), time),
            None => {
                self.rest = self.rest.saturating_sub(time);
                if self.rest.is_zero() && self.choices.len() > 1 {
                    self.race = Some(self.line_up());
                }
            }
        }
        if self.now() != before {
            self.settling = SETTLING * self.n_envs();
        }
    }

    fn n_envs(&self) -> usize {
        self.choices.last().map_or(1, |all| all.wait_for()) * self.group_size
    }

    /// The choice that is used.
    fn now(&self) -> usize {
        self.race.as_ref().map_or(self.best, |race| race.contestants[race.turn].choice)
    }

    fn line_up(&self) -> Race {
        let n = self.choices.len();
        let mut choices: Vec<_> = if self.stretch == 0 && n <= FEW {
            (0..n).collect()
        } else {
            let predicted = self.model.best_of(&self.choices, self.group_size);
            let neighbours = self.best.saturating_sub(1)..n.min(self.best + 2);
            neighbours.chain(predicted).collect()
        };
        choices.sort_unstable();
        choices.dedup();
        let has_all = choices.len() == n;
        let contestants = choices.into_iter().map(|choice| Contestant { choice, laps: Vec::new() }).collect();
        Race { contestants, turn: 0, took: Duration::ZERO, has_all, is_best_beaten: false }
    }

    /// Goes on with the race: whose turn it was made so many steps a second.
    fn run(&mut self, mut race: Race, rate: f64, time: Duration) {
        race.took += time;
        race.contestants[race.turn].laps.push(rate.ln());
        race.turn += 1;
        if race.turn < race.contestants.len() {
            self.race = Some(race);
            return;
        }
        race.turn = 0;
        if !self.is_warm {
            self.is_warm = true;
            race.contestants.iter_mut().for_each(|contestant| contestant.laps.clear());
            self.race = Some(race);
            return;
        }
        let leader = self.end_lap(&mut race);
        let is_long = race.contestants[0].laps.len() >= FEWEST_LAPS && race.took >= LONGEST_RACE;
        if race.contestants.len() == 1 || is_long {
            self.end_race(&race, leader);
        } else {
            self.race = Some(race);
        }
    }

    /// Those who are too far behind leave. Who leads.
    fn end_lap(&mut self, race: &mut Race) -> usize {
        let means = race.contestants.iter().map(|contestant| (contestant.choice, contestant.mean()));
        let (leader, fastest) = means.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((self.best, 0.0));
        // One lap may be wrong.
        let n_laps = race.contestants[0].laps.len();
        if n_laps > 1 {
            self.noise.learn(&race.contestants);
            let error = (2.0 * self.noise.variance() / n_laps as f64).sqrt();
            race.contestants.retain(|contestant| {
                let behind = fastest - contestant.mean();
                let stays = contestant.choice == leader || CLEARLY * error - behind > WORTH;
                race.is_best_beaten |= !stays && contestant.choice == self.best && behind > WORTH;
                stays
            });
        }
        leader
    }

    fn end_race(&mut self, race: &Race, winner: usize) {
        self.best = winner;
        self.stretch = match race.is_best_beaten {
            true => SHORTEST_STRETCH,
            false => (2 * self.stretch).clamp(SHORTEST_STRETCH, LONGEST_STRETCH),
        };
        // Beyond the winner there may be better ones still.
        self.rest = if race.is_best_beaten && !race.has_all { Duration::ZERO } else { race.took * self.stretch };
    }
}
