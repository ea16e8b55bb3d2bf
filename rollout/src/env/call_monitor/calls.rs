use pronk_metrics::Steps;

use super::FailurePlace;
use super::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What a worker says of its calls without a lock; it alone writes.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Counts entries into and returns from environment code: odd while the worker is inside.
    passages: AtomicU64,
    kind: AtomicU8,
    index: AtomicU32,
    episode_seed: AtomicU64,
    step: AtomicU32,
    incarnation: AtomicU32,
    /// Steps of the unfinished fragment.
    env_steps: AtomicU64,
    agent_steps: AtomicU64,
    /// Agent-steps beside them of policies that are not trained.
    untrained: AtomicU64,
}

/// A call of an environment that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvCall {
    /// Which environment of the worker, from 0.
    pub index: u32,
    /// What the call is for.
    pub place: FailurePlace,
    /// How often the worker has rebuilt its environments.
    pub incarnation: u32,
    /// Distinguishes this call from all others of the worker.
    pub(super) passage: u64,
}

impl Calls {
    /// The call that the worker is in. One that has just begun or ended may show parts of another; one that
    /// lasts does not.
    pub(super) fn current(&self) -> Option<EnvCall> {
        let passage = self.passages.load(Ordering::Acquire);
        if passage.is_multiple_of(2) {
            return None;
        }
        let (episode_seed, step) = (self.episode_seed.load(Ordering::Relaxed), self.step.load(Ordering::Relaxed));
        let place = match self.kind.load(Ordering::Relaxed) {
            RESET => FailurePlace::Reset { episode_seed },
            STEP => FailurePlace::Step { episode_seed, step },
            MASK => FailurePlace::Mask { episode_seed, step },
            RENDER => FailurePlace::Render { episode_seed, step },
            MAKE => FailurePlace::Make,
            _ => FailurePlace::Unknown,
        };
        let index = self.index.load(Ordering::Relaxed);
        Some(EnvCall { index, place, incarnation: self.incarnation.load(Ordering::Relaxed), passage })
    }

    /// The unbooked steps, and agent-steps beside them, if the worker is still in that call.
    pub(super) fn unbooked_in(&self, call: &EnvCall) -> Option<(Steps, u64)> {
        let Self { env_steps, agent_steps, untrained, .. } = self;
        let steps = Steps { env: env_steps.load(Ordering::Acquire), agent: agent_steps.load(Ordering::Acquire) };
        let untrained = untrained.load(Ordering::Acquire);
        // After the loads: a worker that is still in the call has changed none of the counts meanwhile.
        (self.current() == Some(*call)).then_some((steps, untrained))
    }

    pub(super) fn enter(&self, incarnation: u32) {
        self.incarnation.store(incarnation, Ordering::Relaxed);
        self.pass();
    }

    pub(super) fn leave(&self) {
        self.pass();
    }

    /// Begins the present call anew.
    pub(super) fn renew(&self) {
        self.pass();
        self.pass();
    }

    #[inline]
    pub(super) fn at(&self, index: u32, place: FailurePlace) {
        let (kind, episode_seed, step) = match place {
            FailurePlace::Make => (MAKE, 0, 0),
            FailurePlace::Unknown => (UNKNOWN, 0, 0),
            FailurePlace::Reset { episode_seed } => (RESET, episode_seed, 0),
            FailurePlace::Step { episode_seed, step } => (STEP, episode_seed, step),
            FailurePlace::Mask { episode_seed, step } => (MASK, episode_seed, step),
            FailurePlace::Render { episode_seed, step } => (RENDER, episode_seed, step),
        };
        self.kind.store(kind, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.episode_seed.store(episode_seed, Ordering::Relaxed);
        self.step.store(step, Ordering::Relaxed);
    }

    pub(super) fn set_unbooked(&self, steps: Steps, untrained: u64) {
        // A thread that sees one of the counts also sees that the worker has left the call before it.
        self.env_steps.store(steps.env, Ordering::Release);
        self.agent_steps.store(steps.agent, Ordering::Release);
        self.untrained.store(untrained, Ordering::Release);
    }

    fn pass(&self) {
        // Only the worker writes, so load and store cannot lose a count.
        let passages = self.passages.load(Ordering::Relaxed);
        // A thread that sees the worker in a call also sees what it has set before.
        self.passages.store(passages + 1, Ordering::Release);
    }
}

const MAKE: u8 = 0;
const RESET: u8 = 1;
const STEP: u8 = 2;
const MASK: u8 = 3;
const UNKNOWN: u8 = 4;
const RENDER: u8 = 5;
