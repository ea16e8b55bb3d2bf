//! What the columns must be, from what the environments wrote down, one agent after the other.

use std::collections::BTreeMap;

use pronk_buffer::{ActionView, End, MultiAgentBatch, SampleBatch};
use pronk_metrics::PolicyId;

use crate::testing::script::{Call, Diary, N_AGENTS};

/// Environment, agent and policy.
pub(super) type Key = (usize, usize, PolicyId);

/// One step of one agent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Own {
    pub(super) obs: [f32; 3],
    pub(super) action: u32,
    pub(super) reward: f32,
    pub(super) end: End,
    /// Of the weights that it was made with.
    pub(super) version: u64,
    /// What follows, once that is known; after an end, what would have followed.
    pub(super) next: Option<[f32; 3]>,
}

/// All steps of every agent under every policy, in order.
pub(super) fn time_lines(diary: &Diary, policy_of: impl Fn(usize, u64) -> PolicyId) -> BTreeMap<Key, Vec<Own>> {
    let mut lines: BTreeMap<Key, Vec<Own>> = BTreeMap::new();
    for (env, calls) in diary.calls.lock().unwrap().iter().enumerate() {
        for agent in 0..N_AGENTS {
            one_agent(env, agent, calls, &policy_of, &mut lines);
        }
    }
    lines
}

fn one_agent(
    env: usize,
    agent: usize,
    calls: &[Call],
    policy_of: &impl Fn(usize, u64) -> PolicyId,
    lines: &mut BTreeMap<Key, Vec<Own>>,
) {
    let of = |list: &[(usize, f32)]| list.iter().find(|(who, _)| *who == agent).map(|(_, what)| *what);
    let mut key = (env, agent, PolicyId::from("nobody"));
    let (mut seen, mut open) = ([f32::NAN; 3], false);
    for call in calls {
        if let Some(seed) = call.episode_seed {
            key.2 = policy_of(agent, seed);
            open = false;
        }
        if let Some((_, action)) = call.acted.iter().find(|(who, _)| *who == agent) {
            let own = Own { obs: seen, action: *action, reward: 0.0, end: End::No, version: call.version, next: None };
            lines.entry(key.clone()).or_default().push(own);
            open = true;
        }
        if let Some((_, obs)) = call.shown.iter().find(|(who, _)| *who == agent) {
            seen = *obs;
        }
        let Some(last) = lines.get_mut(&key).and_then(|line| line.last_mut()).filter(|_| open) else { continue };
        last.reward += of(&call.paid).unwrap_or(0.0);
        let end = call.ended.iter().find(|(who, _)| *who == agent).map(|(_, end)| *end);
        if end.is_some() || call.asked.contains(&agent) {
            last.end = end.unwrap_or(End::No);
            last.next = Some(seen);
            open = false;
        }
    }
}

/// The columns of fragments, by agent and policy, in the order in which they were sent.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) columns: BTreeMap<Key, Vec<SentColumn>>,
}

#[derive(Clone, Debug)]
pub(super) struct SentColumn {
    pub(super) steps: Vec<Own>,
    /// Row `T` of the observations.
    pub(super) last_row: [f32; 3],
    /// `[T+1]`.
    pub(super) values: Vec<f32>,
    pub(super) version: u64,
    /// The version of the fragment it was sent with.
    pub(super) sent_with: u64,
}

impl Sent {
    /// Takes the columns of a fragment. The observations say whose they are.
    pub(super) fn add(&mut self, fragment: &MultiAgentBatch, version: u64) {
        for (policy, batch) in fragment.policies() {
            let mut whose = Vec::new();
            for b in 0..batch.shape().columns {
                let column = read(batch, b, version);
                let who = column.steps[0].obs[0] as usize;
                whose.push(who);
                self.columns.entry((who / 10, who % 10, policy.clone())).or_default().push(column);
            }
            assert!(whose.is_sorted(), "columns are in the order of environments and agents: {whose:?}");
            batch.check_finite().unwrap();
        }
    }
}

fn read(batch: &SampleBatch, b: usize, sent_with: u64) -> SentColumn {
    let (t_max, width) = (batch.shape().steps, batch.shape().columns);
    let row = |t: usize| {
        let row = batch.obs_row(t).row(b).as_f32().unwrap();
        [row[0], row[1], row[2]]
    };
    let ActionView::U32(actions) = batch.actions() else { panic!("discrete actions") };
    let step = |t: usize| Own {
        obs: row(t),
        action: actions[t * width + b],
        reward: batch.rewards()[t * width + b],
        end: batch.ends()[t * width + b],
        version: 0,
        next: match batch.ends()[t * width + b] {
            End::No => Some(row(t + 1)),
            End::Terminated => None,
            End::Truncated => batch.final_obs().get(t, b).map(|row| row.as_f32().unwrap().try_into().unwrap()),
        },
    };
    SentColumn {
        steps: (0..t_max).map(step).collect(),
        last_row: row(t_max),
        values: (0..=t_max).map(|t| batch.behaviour_values()[t * width + b]).collect(),
        version: batch.versions()[b],
        sent_with,
    }
}
