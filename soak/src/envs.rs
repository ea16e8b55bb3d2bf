//! Environments that count their steps, return wrong values, or are in processes that break the protocol.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pronk::env_process::{ProcessEnvs, Program};
use pronk::envs::CartPole;
use pronk::rollout::{CallMonitor, VectorContext, VectorEnv};
use pronk::{ActionRef, End, Env, EnvContext, EnvError, EnvFactory, EnvFailure, EnvSpec, ObsMut, Rng, Step};
use serde_json::json;

/// Steps that environments of workers have made, counted outside of pronk.
static STEPS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn steps_made() -> u64 {
    STEPS.load(Ordering::Relaxed)
}

/// An environment whose steps are counted.
pub(crate) struct Counted<E> {
    inner: E,
    /// Steps of evaluations are in no ledger.
    counts: bool,
}

impl<E> Counted<E> {
    pub(crate) fn new(inner: E) -> Self {
        Self { inner, counts: std::thread::current().name() != Some("evaluator") }
    }
}

/// CartPole, counted.
pub(crate) fn cartpole(_: &EnvContext) -> Counted<CartPole> {
    Counted::new(CartPole::new())
}

impl<E: Env> Env for Counted<E> {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let step = self.inner.step(action, obs)?;
        if self.counts {
            STEPS.fetch_add(1, Ordering::Relaxed);
        }
        Ok(step)
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.inner.save()
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.inner.load(state)
    }
}

/// CartPole that returns a wrong value in one of `one_in` steps.
pub(crate) struct Liar {
    inner: CartPole,
    rng: Rng,
    one_in: u64,
}

impl Liar {
    pub(crate) fn new(context: &EnvContext, one_in: u64) -> Self {
        Self { inner: CartPole::new(), rng: Rng::seed_from(context.seed), one_in }
    }
}

impl Env for Liar {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        match self.rng.below(self.one_in) {
            0 => obs.write(&[f32::NAN; 4]),
            _ => self.inner.reset(seed, obs),
        }
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let on = |reward| Ok(Step { reward, end: End::No });
        match self.rng.below(7 * self.one_in) {
            0 => obs.write(&[0.0, f32::NAN, 0.0, 0.0]).and(on(1.0)),
            1 => obs.write(&[f32::NEG_INFINITY; 4]).and(on(1.0)),
            2 => obs.write(&[0.0; 3]).and(on(1.0)),
            3 => obs.write(&[f32::MAX; 4]).and(on(1.0)),
            4 => self.inner.step(action, obs).and(on(f32::INFINITY)),
            5 => self.inner.step(action, obs).and(on(f32::MAX)),
            // Nothing is written, and the episode is over before it has begun.
            6 => Ok(Step { reward: f32::NAN, end: End::Terminated }),
            _ => self.inner.step(action, obs),
        }
    }
}

/// The child of the protocol's conformance tests, which the driver has compiled; with a `lie` it breaks the
/// protocol.
pub(crate) fn corridors(tools: &Path, lie: Option<&str>) -> ProcessEnvs {
    let config = lie.map(|lie| ("lie".to_owned(), json!(lie))).into_iter().collect();
    let program = Program { config, ..Program::new(tools.join("corridor")) };
    ProcessEnvs {
        envs_per_process: 2,
        step_timeout: Duration::from_secs(2),
        close_timeout: Duration::from_secs(2),
        ..ProcessEnvs::new(program)
    }
}

/// Processes of environments. Those of all workers but the first break the protocol, one after the other,
/// each in another way.
pub(crate) struct LyingProcesses {
    honest: ProcessEnvs,
    liars: Vec<ProcessEnvs>,
}

/// What `corridor.c` can do wrong, in a step or before it. The first one must be in a step, or no run begins.
const LIES: [&str; 12] =
    ["answer", "protocol", "json", "size", "extra", "env", "message", "resize", "ends", "nan", "late", "quiet"];

impl LyingProcesses {
    pub(crate) fn new(tools: &Path) -> Self {
        Self { honest: corridors(tools, None), liars: LIES.map(|lie| corridors(tools, Some(lie))).into() }
    }
}

impl EnvFactory for LyingProcesses {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        let envs = match context.worker {
            // The first worker is honest, so that the run goes on.
            ..=1 => &self.honest,
            _ => &self.liars[context.incarnation as usize % self.liars.len()],
        };
        envs.make_vector(context, n_envs, monitor)
    }
}
