//! A result as a plain line of columns.

use crate::numbers::format_return;
use crate::result::ResultDict;

/// The line, without its end.
pub(super) fn of(result: &ResultDict) -> String {
    let show = |path: &str, text: fn(f64) -> String| result.number(path).map_or_else(|| "-".to_owned(), text);
    let mut line = format!(
        "iter {:>5}  {:>4}  eta {:>6}  env-steps {:>5}  {:>5}/s  return {:>8}  lag {:>5}",
        show("training_iteration", |iteration| format!("{iteration:.0}")),
        show("progress", percent),
        secs_left(result).map_or_else(|| "-".to_owned(), duration),
        show("num_env_steps_sampled", short),
        show("throughput.env_steps_per_s", short),
        show("episode_return_mean", format_return),
        show("policy_lag.mean", |lag| format!("{lag:.1}")),
    );
    let states = learner_states(result);
    if !states.is_empty() {
        line.push_str("  learner: ");
        line.push_str(&states.join(", "));
    }
    line
}

/// The largest shares of the learner's time, without those that round to 0.
fn learner_states(result: &ResultDict) -> Vec<String> {
    const SHOWN: usize = 3;
    let shares = result.get("ledger.time_this_iter.learner").and_then(|states| states.as_object());
    let mut shares: Vec<(&str, f64)> = shares
        .into_iter()
        .flatten()
        .filter_map(|(state, share)| Some((state.as_str(), share.as_f64()?)))
        .filter(|(_, share)| *share >= 0.005)
        .collect();
    shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    shares.iter().take(SHOWN).map(|(state, share)| format!("{state} {}", percent(*share))).collect()
}

/// The time left at the rate so far; `None` without progress.
fn secs_left(result: &ResultDict) -> Option<f64> {
    let (progress, secs) = (result.number("progress")?, result.number("time_total_s")?);
    let left = secs * (1.0 - progress).max(0.0) / progress;
    (progress > 0.0 && (0.0..=LONGEST_SECS).contains(&left)).then_some(left)
}

/// A longer estimate is meaningless and too wide.
const LONGEST_SECS: f64 = 9999.0 * DAY_SECS;
const DAY_SECS: f64 = 86_400.0;

/// Seconds in at most six characters: `12s`, `3m05s`, `2h10m`, `4d`.
fn duration(secs: f64) -> String {
    let (whole_secs, mins, days) = (secs.round(), (secs / 60.0).round(), (secs / DAY_SECS).round());
    if whole_secs < 60.0 {
        format!("{whole_secs:.0}s")
    } else if whole_secs < 3600.0 {
        format!("{:.0}m{:02.0}s", (whole_secs / 60.0).floor(), whole_secs % 60.0)
    } else if mins < 24.0 * 60.0 {
        format!("{:.0}h{:02.0}m", (mins / 60.0).floor(), mins % 60.0)
    } else {
        format!("{days:.0}d")
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

/// A count or rate with three digits and a unit: `999`, `1.23k`, `412k`, `7.00M`.
fn short(value: f64) -> String {
    let mut scaled = value;
    for unit in ["", "k", "M", "G", "T"] {
        let decimals = match (unit, scaled.abs()) {
            ("", _) => 0,
            (_, size) if size < 9.995 => 2,
            (_, size) if size < 99.95 => 1,
            _ => 0,
        };
        // 999.5 and more round up to the next unit.
        if scaled.abs() < 999.5 {
            return format!("{scaled:.decimals$}{unit}");
        }
        scaled /= 1000.0;
    }
    format!("{value:.1e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_fit_their_column() {
        for (value, text) in [
            (0.0, "0"),
            (7.4, "7"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1234.0, "1.23k"),
            (9994.0, "9.99k"),
            (9996.0, "10.0k"),
            (99_960.0, "100k"),
            (412_345.0, "412k"),
            (999_600.0, "1.00M"),
            (7e6, "7.00M"),
            (1.5e12, "1.50T"),
            (3e15, "3.0e15"),
            (-1234.0, "-1.23k"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn the_three_largest_states_are_shown() {
        let mut result = ResultDict::new();
        for (state, share) in [("starting", 0.0), ("publishing", 0.06), ("starved", 0.3), ("learning", 0.61)] {
            result.set(&format!("ledger.time_this_iter.learner.{state}"), share);
        }
        result.set("ledger.time_this_iter.learner.reporting", 0.03);
        let line = of(&result);
        assert!(line.ends_with("learner: learning 61%, starved 30%, publishing 6%"), "{line}");
    }

    #[test]
    fn absent_and_unusable_figures_keep_the_columns() {
        let empty = of(&ResultDict::new());
        assert_eq!(empty, "iter     -     -  eta      -  env-steps     -      -/s  return        -  lag     -");

        let mut result = ResultDict::new();
        result.set("progress", f64::NAN);
        result.set("episode_return_mean", f64::NEG_INFINITY);
        result.set("policy_lag", "none yet");
        result.set("ledger.time_this_iter.learner", 3);
        assert_eq!(of(&result), empty);
    }

    #[test]
    fn lines_of_ordinary_results_are_aligned() {
        let mut result = ResultDict::new();
        let mut widths = Vec::new();
        for (iteration, progress, steps, mean) in [(1, 0.001, 96.0, -3.25), (250, 0.995, 1.25e7, 475.0)] {
            result.set("training_iteration", iteration);
            result.set("progress", progress);
            result.set("time_total_s", steps);
            result.set("num_env_steps_sampled", steps);
            result.set("throughput.env_steps_per_s", steps / 3.0);
            result.set("episode_return_mean", mean);
            result.set("policy_lag.mean", progress);
            widths.push(of(&result).len());
        }
        assert_eq!(widths[0], widths[1]);
        assert_eq!(widths[0], of(&ResultDict::new()).len());
    }

    #[test]
    fn times_are_compact_and_fit_their_column() {
        for (secs, text) in [
            (0.0, "0s"),
            (11.6, "12s"),
            (59.4, "59s"),
            (59.6, "1m00s"),
            (185.0, "3m05s"),
            (3599.4, "59m59s"),
            (3599.6, "1h00m"),
            (7_800.0, "2h10m"),
            (86_369.0, "23h59m"),
            (86_371.0, "1d"),
            (345_600.0, "4d"),
            (LONGEST_SECS, "9999d"),
        ] {
            assert_eq!(duration(secs), text, "{secs}");
            assert!(text.len() <= 6);
        }
    }

    #[test]
    fn the_time_left_follows_from_progress_or_is_unknown() {
        for (progress, secs, left) in [
            (0.25, 60.0, Some(180.0)),
            (1.0, 60.0, Some(0.0)),
            (1.5, 60.0, Some(0.0)),
            (0.0, 60.0, None),
            (-0.5, 60.0, None),
            (f64::NAN, 60.0, None),
            (1e-300, 60.0, None),
        ] {
            let mut result = ResultDict::new();
            result.set("progress", progress);
            assert_eq!(secs_left(&result), None);
            result.set("time_total_s", secs);
            assert_eq!(secs_left(&result), left, "{progress}");
        }
    }
}
