use super::*;
use crate::run::WorkerFailureCause;

fn episode(n: u32) -> EpisodeStat {
    EpisodeStat { worker: 1, index: 0, seed: u64::from(n), episode_return: f64::from(n), episode_len: n }
}

fn report(n: u32) -> WorkerReport {
    let mut report =
        WorkerReport { fragments: 1, steps: Steps { env: 8, agent: 16 }, restarts: 2, ..WorkerReport::default() };
    report.policy_returns = ByPolicy::from([(format!("p{}", n % 2).into(), ReturnStat::of(f64::from(n)))]);
    report.add_episodes(vec![episode(n)]);
    report.add_failure(format!("failure {n}"));
    report.abandoned = vec![format!("thread {n}")].into();
    report
}

#[test]
fn folding_keeps_sums_exact_and_the_newest_entries_of_bounded_lists() {
    let n = 3 * WorkerReport::MAX_EPISODES as u32;
    let mut folded = WorkerReport::default();
    (1..=n).for_each(|i| folded.fold(report(i)));

    assert_eq!((folded.fragments, folded.restarts), (n.into(), 2 * u64::from(n)));
    assert_eq!((folded.steps.env, folded.steps.agent), (8 * u64::from(n), 16 * u64::from(n)));
    let sum = u64::from(n) * u64::from(n + 1) / 2;
    assert_eq!((folded.n_episodes, folded.len_sum), (n.into(), sum));
    assert_eq!(folded.return_sum, sum as f64);
    assert_eq!(folded.episode_return_mean(), Some(f64::from(n + 1) / 2.0));
    // The lowest return is that of an episode long forgotten.
    assert_eq!((folded.return_min, folded.return_max), (Some(1.0), Some(f64::from(n))));
    assert_eq!(folded.episodes.len(), WorkerReport::MAX_EPISODES);
    assert_eq!(folded.episodes.last(), Some(&episode(n)));
    assert_eq!(folded.episodes.first(), Some(&episode(n - WorkerReport::MAX_EPISODES as u32 + 1)));
    let odd: f64 = (1..=n).step_by(2).map(f64::from).sum();
    let (all_odd, last_odd) = (u64::from(n / 2), f64::from(n - 1));
    let expected = ReturnStat { n: all_odd, sum: odd, min: 1.0, max: last_odd };
    assert_eq!((folded.policy_returns.len(), folded.policy_returns["p1"]), (2, expected));
    assert_eq!((folded.n_failures, folded.failures.len()), (n.into(), MAX_FAILURES));
    assert_eq!(folded.failures.last(), Some(&format!("failure {n}")));
    assert_eq!((folded.abandoned.count, folded.abandoned.newest.len()), (n.into(), MAX_ABANDONED));
    assert_eq!(folded.abandoned.newest.last(), Some(&format!("thread {n}")));
}

#[test]
fn one_addition_of_many_episodes_counts_them_all() {
    let n = 2 * WorkerReport::MAX_EPISODES as u32;
    let mut report = WorkerReport::default();
    report.add_episodes((1..=n).rev().map(episode).collect());
    assert_eq!((report.n_episodes, report.episodes.len()), (n.into(), WorkerReport::MAX_EPISODES));
    assert_eq!((report.return_min, report.return_max), (Some(1.0), Some(f64::from(n))));
}

#[test]
fn a_report_without_episodes_has_no_figures_and_takes_none_away() {
    let empty = WorkerReport::default();
    assert_eq!((empty.episode_return_mean(), empty.episode_len_mean()), (None, None));
    assert_eq!((empty.return_min, empty.return_max), (None, None));

    let mut folded = report(3);
    folded.fold(empty);
    assert_eq!((folded.return_min, folded.return_max), (Some(3.0), Some(3.0)));
}

#[test]
fn every_worker_that_ended_stays_in_the_report() {
    let ended = |worker: u32| WorkerReport {
        ended: vec![WorkerFailure {
            thread: format!("rollout-{worker}"),
            consecutive_failures: 1,
            cause: WorkerFailureCause::Panic("planted".into()),
        }],
        ..WorkerReport::default()
    };
    let mut folded = ended(1);
    folded.fold(report(1));
    folded.fold(ended(2));
    let threads: Vec<_> = folded.ended.iter().map(|failure| failure.thread.as_str()).collect();
    assert_eq!(threads, ["rollout-1", "rollout-2"]);
}
