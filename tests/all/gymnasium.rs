//! Environments of Gymnasium, ALE and PettingZoo in processes of their own. `cargo xtask gymnasium` installs
//! what they need and runs these tests.

mod arguments;
mod deterministic;
mod faults;
mod frames;
mod games;
mod habits;
mod learning;
mod lives;
mod spaces;
mod trajectories;

use std::path::{Path, PathBuf};

use pronk::buffer::{FinalObs, ObsColumn, ObsKind, ObsView};
use pronk::env_process::{ChildOutput, Gymnasium, PettingZoo, ProcessEnvs, Program};
use pronk::policy::ObsDtype;
use pronk::rollout::{CallMonitor, VectorContext, VectorEnv, VectorStep};
use pronk::{ActionRef, End, EnvFactory, EnvFailure, ObsMut};
use serde_json::{Map, Value};

/// The interpreter with the packages.
pub(crate) fn python() -> PathBuf {
    let installed = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python/bin/python");
    let python = std::env::var_os("PRONK_TEST_PYTHON").map_or_else(installed, PathBuf::from);
    assert!(python.exists(), "{} is missing: `cargo xtask gymnasium` installs it", python.display());
    python
}

/// Environments by their id, among those of `pronk_test_envs.py`.
pub(crate) fn gymnasium(id: &str, kwargs: Value) -> ProcessEnvs {
    quiet(Gymnasium { kwargs: object(kwargs), python: python(), ..Gymnasium::new(id) })
}

/// Parallel environments by their module, among them `pronk_test_parallel.py`.
pub(crate) fn pettingzoo(module: &str, kwargs: Value) -> ProcessEnvs {
    quiet(PettingZoo { kwargs: object(kwargs), python: python(), ..PettingZoo::new(module) })
}

/// Modules for tests can be imported; what is printed is not shown.
pub(crate) fn quiet(program: impl Into<Program>) -> ProcessEnvs {
    let mut program = program.into();
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("envs/process/tests/python");
    program.vars.push(("PYTHONPATH".into(), modules.into()));
    ProcessEnvs { output: ChildOutput::Hidden, ..ProcessEnvs::new(program) }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

/// Environments stepped by hand, with what the last step gave.
pub(crate) struct Stepped {
    pub(crate) envs: Box<dyn VectorEnv>,
    pub(crate) obs: ObsColumn,
    pub(crate) rewards: Vec<f32>,
    pub(crate) ends: Vec<End>,
    pub(crate) final_obs: FinalObs,
}

impl Stepped {
    /// Begins an episode in each of so many.
    pub(crate) fn reset(factory: &impl EnvFactory, n_envs: usize) -> Result<Self, EnvFailure> {
        let context = VectorContext { worker: 1, seed: 3, ..VectorContext::default() };
        Self::of(factory.make_vector(&context, n_envs, &CallMonitor::new())?)
    }

    /// Begins an episode in each of these.
    pub(crate) fn of(mut envs: Box<dyn VectorEnv>) -> Result<Self, EnvFailure> {
        let n_envs = envs.n_envs();
        let len = n_envs * envs.spec().observation.obs_len();
        let (mut obs, kind) = match envs.spec().observation.obs_dtype() {
            ObsDtype::F32 => (ObsColumn::F32(vec![f32::NAN; len]), ObsKind::F32),
            ObsDtype::U8 => (ObsColumn::U8(vec![0; len]), ObsKind::U8),
        };
        envs.reset_all(obs.view_mut().into())?;
        let final_obs = FinalObs::new(kind, len / n_envs);
        Ok(Self { envs, obs, rewards: vec![0.0; n_envs], ends: vec![End::No; n_envs], final_obs })
    }

    pub(crate) fn step(&mut self, actions: ActionRef<'_>) -> Result<(), EnvFailure> {
        let Self { envs, obs, rewards, ends, final_obs } = self;
        envs.step(actions, VectorStep { t: 0, obs: ObsMut::from(obs.view_mut()), rewards, ends, final_obs })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self.obs.view() {
            ObsView::U8(obs) => obs,
            ObsView::F32(_) => panic!("observations are floats"),
        }
    }

    pub(crate) fn floats(&self) -> &[f32] {
        match self.obs.view() {
            ObsView::F32(obs) => obs,
            ObsView::U8(_) => panic!("observations are bytes"),
        }
    }
}
