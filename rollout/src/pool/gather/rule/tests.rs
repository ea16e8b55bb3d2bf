use std::convert::Infallible;

use super::*;
use crate::pool::AdaptiveGather;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Answers that come at known times, on a clock that only waiting moves.
struct Script {
    now: Duration,
    /// In the order of their coming.
    answers: Vec<Duration>,
}

impl Arrivals for Script {
    type Answer = Duration;
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.now
    }

    fn next(&mut self, deadline: Option<Duration>) -> Result<Option<Duration>, Infallible> {
        let in_time = |at: Duration| at <= self.now || deadline.is_none_or(|deadline| at < deadline);
        if self.answers.first().is_some_and(|at| in_time(*at)) {
            let at = self.answers.remove(0);
            self.now = self.now.max(at);
            return Ok(Some(at));
        }
        self.now = self.now.max(deadline.expect("somebody answers who is waited for without a limit"));
        Ok(None)
    }
}

/// How many answers came, and when the call ended, in milliseconds.
fn collected(rule: Gather, answers: &[u64]) -> (usize, u128) {
    let mut script = Script { now: Duration::ZERO, answers: answers.iter().copied().map(ms).collect() };
    let Ok(got) = rule.collect(answers.len(), &mut script);
    (got.len(), script.now.as_millis())
}

#[test]
fn each_rule_waits_as_long_as_it_says() {
    let answers = [10, 20, 20, 90, 300];
    let at_least = |n| Gather::AtLeast(NonZeroUsize::new(n).unwrap());
    for (rule, expected) in [
        (Gather::All, (5, 300)),
        (Gather::Adaptive, (5, 300)),
        (Gather::InTurn, (1, 10)),
        (at_least(1), (1, 10)),
        // The third has come by then.
        (at_least(2), (3, 20)),
        (at_least(9), (5, 300)),
        (Gather::Within(ms(0)), (1, 10)),
        (Gather::Within(ms(15)), (1, 15)),
        (Gather::Within(ms(50)), (3, 50)),
        (Gather::Within(ms(1000)), (5, 300)),
        // Four more attempts of 40 each: the third finds nothing, and the fourth goes on.
        (Gather::EachWithin(ms(40)), (4, 90)),
        (Gather::EachWithin(ms(0)), (1, 10)),
    ] {
        assert_eq!(collected(rule, &answers), expected, "{rule:?}");
    }
}

#[test]
fn the_first_answer_is_waited_for_whatever_the_rule() {
    for rule in [Gather::Within(ms(1)), Gather::EachWithin(ms(1)), Gather::InTurn, Gather::All] {
        assert_eq!(collected(rule, &[5000]), (1, 5000), "{rule:?}");
        assert_eq!(collected(rule, &[]), (0, 0), "{rule:?}: nobody steps, so nobody is waited for");
    }
}

#[test]
fn rules_are_written_as_words_or_with_their_number() {
    for (rule, text) in [
        (Gather::All, "\"all\""),
        (Gather::InTurn, "\"in_turn\""),
        (Gather::Adaptive, "\"adaptive\""),
        (Gather::AtLeast(NonZeroUsize::new(4).unwrap()), "{\"at_least\":4}"),
        (Gather::Within(ms(5)), "{\"within\":0.005}"),
        (Gather::EachWithin(ms(100)), "{\"each_within\":0.1}"),
    ] {
        assert_eq!(serde_json::to_string(&rule).unwrap(), text);
        assert_eq!(serde_json::from_str::<Gather>(text).unwrap(), rule);
    }
    assert!(serde_json::from_str::<Gather>("{\"within\":-1}").unwrap_err().to_string().contains("time in seconds"));
}

/// Lets the adaptive rule choose in a world where groups take the given times and inference costs so much a
/// call and a row: steps a second after it has settled, beside those of every fixed number.
fn steps_a_second(step_secs: impl Fn(usize) -> f64, call_secs: f64, row_secs: f64) -> (f64, Vec<f64>) {
    const GROUPS: usize = 8;
    const SIZE: usize = 20;
    let world = |mut adaptive: Option<AdaptiveGather>, fixed: usize| {
        let (mut now, mut n) = (0.0_f64, 0);
        let mut begin = |now: f64| {
            n += 1;
            now + step_secs(n)
        };
        let mut running: Vec<_> = (0..GROUPS).map(|_| begin(0.0)).collect();
        let (mut steps, mut settled) = (0, None);
        while now < 60.0 {
            let wait_for = adaptive.as_ref().map_or(fixed, |adaptive| chosen(adaptive).1);
            running.sort_by(f64::total_cmp);
            let before = now;
            now = now.max(running[wait_for - 1]);
            let there = running.iter().filter(|at| **at <= now).count();
            let inference = call_secs + row_secs * (there * SIZE) as f64;
            now += inference;
            if let Some(adaptive) = &mut adaptive {
                adaptive.round(there * SIZE, Duration::from_secs_f64(now - before));
            }
            running[..there].fill_with(|| begin(now));
            steps += there * SIZE;
            if now > 20.0 {
                settled.get_or_insert((steps, now));
            }
        }
        let (steps_before, time_before) = settled.unwrap();
        (steps - steps_before) as f64 / (now - time_before)
    };
    let fixed = [1, 2, 4, 8].map(|n| world(None, n)).to_vec();
    (world(Some(AdaptiveGather::new(GROUPS, SIZE)), 0), fixed)
}

#[test]
fn the_adaptive_rule_is_within_three_percent_of_the_best_fixed_number() {
    let steady = |_: usize| 0.004;
    // One step in eight takes ten times as long.
    let stalling = |n: usize| if n % 8 == 3 { 0.04 } else { 0.004 };
    let spread = |n: usize| 0.002 + 0.001 * (n * 7 % 11) as f64;
    let mut best_choices = Vec::new();
    for (name, step_secs, call_secs, row_secs) in [
        ("steady steps, inference for nothing", &steady as &dyn Fn(usize) -> f64, 1e-6, 1e-8),
        ("steady steps, a call is expensive", &steady, 2e-3, 1e-6),
        ("stalling steps, inference for nothing", &stalling, 1e-6, 1e-8),
        ("stalling steps, a call is expensive", &stalling, 5e-3, 1e-6),
        ("steps of many lengths, a call costs something", &spread, 5e-4, 1e-6),
    ] {
        let (adaptive, fixed) = steps_a_second(step_secs, call_secs, row_secs);
        let best = fixed.iter().copied().fold(0.0, f64::max);
        assert!(adaptive >= 0.97 * best, "{name}: {adaptive:.0} steps/s, fixed numbers {fixed:.0?}");
        best_choices.push(fixed.iter().position(|rate| *rate == best));
    }
    assert!(best_choices.iter().any(|choice| *choice != best_choices[0]), "{best_choices:?}: nothing to adapt to");
}

/// Lets the adaptive rule choose among one group and no other, 1, 2, 4 and 8 groups of 4,000 environments, in
/// a world where these make the given steps a second but for noise: how long the first race took, and what
/// was chosen at its end.
fn first_race(steps_a_second: [f64; 5], noise: f64, seed: u64) -> (f64, usize) {
    const SIZE: usize = 4000;
    let mut rng = pronk_policy::Rng::seed_from(seed);
    let mut adaptive = AdaptiveGather::new(8, SIZE);
    let (mut now, mut began) = (0.0, None);
    while began.is_none() || adaptive.is_racing() {
        let (choice, n_groups) = chosen(&adaptive);
        // What other programs do lasts longer than a round.
        let busy = 1.0 + noise * (now * 7.0 + seed as f64).sin();
        let by_chance = 1.0 + noise * (2.0 * f64::from(rng.next_f32()) - 1.0);
        let took = (n_groups * SIZE) as f64 / steps_a_second[choice] * busy * by_chance;
        adaptive.round(n_groups * SIZE, Duration::from_secs_f64(took));
        now += took;
        if adaptive.is_racing() {
            began.get_or_insert(now);
        }
        assert!(now < 100.0, "a race without end");
    }
    (now - began.unwrap(), chosen(&adaptive).0)
}

fn chosen(adaptive: &AdaptiveGather) -> (usize, usize) {
    match adaptive.rule() {
        Gather::AtLeast(n) => (n.ilog2() as usize + 1, n.get()),
        _ => (0, 1),
    }
}

#[test]
fn the_first_race_of_large_groups_finds_the_best_choice_in_seconds() {
    for best in 0..5 {
        let mut steps_a_second = [430e3, 450e3, 440e3, 445e3, 435e3];
        steps_a_second[best] = 500e3;
        for seed in 0..20 {
            let (secs, choice) = first_race(steps_a_second, 0.05, seed);
            assert!(choice == best && secs < 8.0, "seed {seed}: {choice} in place of {best} after {secs:.1} s");
        }
    }
}

#[test]
fn a_race_among_nearly_equal_choices_ends_however_noisy_it_is() {
    for noise in [0.0, 0.01, 0.1, 0.5] {
        for seed in 0..10 {
            let (secs, _) = first_race([500e3, 501e3, 499e3, 502e3, 500e3], noise, seed);
            assert!(secs < 12.0, "noise {noise}, seed {seed}: {secs:.1} s");
        }
    }
}
