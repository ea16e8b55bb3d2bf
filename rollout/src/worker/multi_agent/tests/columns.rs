use std::sync::atomic::Ordering;

use pronk_buffer::{End, Tag};
use pronk_metrics::Steps;

use super::*;
use crate::env::EnvContext;
use crate::testing::script::N_AGENTS;
use crate::worker::Collected;
use crate::worker::multi_agent::tests::oracle::{Own, Sent, time_lines};

const T: usize = 5;

const NAMES: [&str; N_AGENTS] = ["first", "second", "third"];

/// Thirty fragments of scripted environments, each with the next version, whose weight is a tenth of it.
fn run(manner: Manner, seed: u64) -> (Diary, Sent, StepLedger, Vec<MultiAgentBatch>) {
    let diary = Diary::default();
    let (links, steps, _guard) = links();
    let for_envs = diary.clone();
    let factory = move |context: &EnvContext| Script::new(context, &for_envs, manner);
    let (policies, mapping) = three_policies();
    let config = MultiAgentWorkerConfig { seed, ..config(policies, mapping) };
    let mut worker = RolloutWorker::multi_agent(config, Arc::new(factory), links).unwrap();
    let (mut sent, mut fragments) = (Sent::default(), Vec::new());
    for version in 0..30 {
        diary.version.store(version, Ordering::SeqCst);
        let fragment = worker.sample(&weights(version, &["a", "b"], version as f32 / 10.0), &mut clock()).unwrap();
        sent.add(&fragment, version);
        fragments.push(fragment);
    }
    (diary, sent, steps, fragments)
}

#[test]
fn columns_are_the_time_lines_of_single_agents() {
    for (manner, seed) in [(Manner::Together, 1), (Manner::InTurns, 2), (Manner::AtRandom, 3), (Manner::AtRandom, 4)] {
        let (diary, sent, _, _) = run(manner, seed);
        let lines = time_lines(&diary, |agent, seed| policy_in_turns(NAMES[agent], seed));
        let (mut n_columns, mut n_ends) = (0, [0; 3]);
        for (key, line) in &lines {
            let complete = line.iter().take_while(|own| own.next.is_some()).count();
            assert!(line.len() - complete <= 1, "{key:?}: only the last step can be open");
            let columns = sent.columns.get(key).map_or(&[][..], Vec::as_slice);
            let expected = if &*key.2 == "c" { 0 } else { complete / T };
            assert_eq!(columns.len(), expected, "{manner:?} {key:?}: every full column is sent, and none else");
            for (column, steps) in columns.iter().zip(line.chunks_exact(T)) {
                n_columns += 1;
                for (t, (got, own)) in column.steps.iter().zip(steps).enumerate() {
                    n_ends[own.end as usize] += 1;
                    assert_eq!((got.obs, got.action), (own.obs, own.action), "{key:?} step {t}");
                    assert_eq!((got.reward, got.end), (own.reward, own.end), "{key:?} step {t}");
                    assert_eq!(column.values[t], own.version as f32 / 10.0 + own.obs.iter().sum::<f32>());
                    match own.end {
                        End::No => assert_eq!(got.next, own.next, "{key:?} step {t}: what follows"),
                        End::Truncated => assert_eq!(got.next, own.next, "{key:?} step {t}: what was cut off"),
                        End::Terminated => assert_eq!(got.next, None),
                    }
                }
                check_last_row(column, &steps[T - 1]);
                assert_eq!(column.version, steps[0].version, "the version of the first step");
            }
        }
        assert!(n_columns > 40 && n_ends.iter().all(|n| *n > 5), "{manner:?}: {n_columns} columns, ends {n_ends:?}");
        assert_eq!(sent.columns.values().map(Vec::len).sum::<usize>(), n_columns, "no column of anybody else");
    }
}

fn check_last_row(column: &crate::worker::multi_agent::tests::oracle::SentColumn, last: &Own) {
    if last.end == End::No {
        let row = last.next.expect("complete");
        assert_eq!(column.last_row, row, "row T is what follows the last step");
        assert_eq!(column.values[T], column.sent_with as f32 / 10.0 + row.iter().sum::<f32>());
    } else {
        assert_eq!((column.last_row, column.values[T]), ([0.0; 3], 0.0), "nothing follows an end");
    }
}

#[test]
fn every_step_is_counted_once_by_the_environments_and_in_the_ledger() {
    for manner in [Manner::Together, Manner::InTurns, Manner::AtRandom] {
        let (diary, _, steps, fragments) = run(manner, 5);
        let env: u64 = fragments.iter().map(MultiAgentBatch::env_steps).sum();
        let agent: u64 = fragments.iter().map(MultiAgentBatch::agent_steps).sum();
        for fragment in &fragments {
            assert_eq!(fragment.ticket_steps(), Some(fragment.steps()));
            assert!(fragment.env_steps().is_multiple_of(3) && fragment.env_steps() >= 3 * T as u64);
        }
        // The worker has ended with `run`, so what waited in its columns is booked.
        let totals = steps.snapshot();
        let counted =
            Steps { env: diary.env_steps.load(Ordering::SeqCst), agent: diary.agent_steps.load(Ordering::SeqCst) };
        assert_eq!(totals.sampled, counted);
        assert_eq!(totals.in_flight, Steps { env, agent });
        assert_eq!(totals.dropped["not_trained"].env, 0);
        assert!(totals.dropped["not_trained"].agent > 0 && totals.dropped["shutdown"].agent > 0, "{totals:?}");
        assert_eq!(totals.sampled.env, env, "all environment steps are in the fragments");
        assert!(totals.is_closed());
        drop(fragments);
        assert_eq!(steps.snapshot().in_flight, Steps::default());
        assert!(steps.snapshot().is_closed());
    }
}

#[test]
fn a_seed_decides_every_fragment_and_another_makes_others() {
    let traced = |seed| {
        let (_, _, _, fragments) = run(Manner::AtRandom, seed);
        let columns = |fragment: &MultiAgentBatch| {
            let of_policy = |batch: &pronk_buffer::SampleBatch| {
                (format!("{:?} {:?} {:?}", batch.obs(), batch.actions(), batch.ends()), batch.behaviour_logp().to_vec())
            };
            (
                fragment.env_steps(),
                fragment.policies().map(|(id, batch)| (id.clone(), of_policy(batch))).collect::<Vec<_>>(),
            )
        };
        fragments.iter().map(columns).collect::<Vec<_>>()
    };
    let first = traced(0);
    assert_eq!(first, traced(0), "0 is a seed");
    assert_ne!(first, traced(1));
}

#[test]
fn episodes_and_agents_returns_are_what_was_paid() {
    let diary = Diary::default();
    let (links, _steps, _guard) = links();
    let for_envs = diary.clone();
    let factory = move |context: &EnvContext| Script::new(context, &for_envs, Manner::Together);
    let (policies, mapping) = three_policies();
    let mut worker = RolloutWorker::multi_agent(config(policies, mapping), Arc::new(factory), links).unwrap();
    for version in 0..10 {
        worker.sample(&weights(version, &["a", "b"], 0.0), &mut clock()).unwrap();
    }
    let Collected { episodes, policy_returns: returns, .. } = worker.take_collected();
    let later = worker.take_collected();
    assert!(later.episodes.is_empty() && later.policy_returns.is_empty());

    // By hand: all agents act in every step, so all have ended when the episode is over.
    let (mut n, mut sum, mut len) = (0, 0.0, 0);
    let mut by_policy = ByPolicy::<Vec<f64>>::new();
    for calls in diary.calls.lock().unwrap().iter() {
        let (mut seed, mut earned, mut steps) = (0, [0.0; N_AGENTS], 0);
        for call in calls {
            if let Some(begun) = call.episode_seed {
                (seed, earned, steps) = (begun, [0.0; N_AGENTS], 0);
                continue;
            }
            steps += 1;
            call.paid.iter().for_each(|(agent, reward)| earned[*agent] += f64::from(*reward));
            if call.ended.is_empty() {
                continue;
            }
            (n, sum, len) = (n + 1, sum + earned.iter().sum::<f64>(), len + steps);
            for (agent, earned) in earned.into_iter().enumerate() {
                by_policy.entry(policy_in_turns(NAMES[agent], seed)).or_default().push(earned);
            }
        }
    }
    assert!(n > 10);
    assert_eq!((episodes.len(), episodes.iter().map(|episode| episode.episode_return).sum::<f64>()), (n, sum));
    assert_eq!(episodes.iter().map(|episode| episode.episode_len).sum::<u32>(), len);
    assert_eq!(returns.len(), by_policy.len());
    for (policy, expected) in by_policy {
        let got = returns[&policy];
        assert_eq!((got.n, got.sum), (expected.len() as u64, expected.iter().sum()), "{policy}");
        assert_eq!(got.min, expected.iter().copied().fold(f64::INFINITY, f64::min));
        assert_eq!(got.max, expected.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    }
}

#[test]
fn a_steady_worker_reuses_its_storage() {
    let (links, _steps, _guard) = links();
    let pool = links.pool.clone();
    let diary = Diary::default();
    let factory = move |context: &EnvContext| Script::new(context, &diary, Manner::Together);
    let policies = ByPolicy::from([("a".into(), scripted(None))]);
    let mut worker =
        RolloutWorker::multi_agent(config(policies, PolicyMapping::shared("a")), Arc::new(factory), links).unwrap();
    let mut address = || {
        let fragment = worker.sample(&weights(0, &["a"], 0.0), &mut clock()).unwrap();
        assert_eq!(fragment.get("a").unwrap().shape().columns, 9);
        fragment.get("a").unwrap().rewards().as_ptr()
    };
    let first = address();
    assert_eq!(pool.idle(), 1);
    assert!((0..10).all(|_| address() == first));
}

#[test]
fn a_fragment_begins_when_the_one_before_it_ended() {
    let (_, _, _, fragments) = run(Manner::InTurns, 6);
    for (slot, fragment) in (0..).zip(&fragments) {
        for (_, batch) in fragment.policies() {
            assert_eq!(batch.tags(), [Tag { worker: 1, slot, version: slot, ..Tag::default() }]);
        }
    }
    // Three agents take turns: a column takes three times as long as a fragment would with one.
    assert!(fragments[0].env_steps() > 3 * T as u64, "it goes on until a column is full");
}
