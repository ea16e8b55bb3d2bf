//! Runner of `classic_control.json`: trajectories and specs of gymnasium's classic control environments.

use anyhow::{Context, Result, ensure};
use pronk_buffer::{FinalObs, ObsKind};
use pronk_policy::Space;
use pronk_rollout::{
    ActionRef, CartPole, End, Env, EnvError, EnvSpec, ObsMut, SerialVectorEnv, Step, VectorContext, VectorEnv,
    VectorStep,
};
use serde_json::Value;

use crate::{Case, Recorder, json};

const CART_POLE: &str = "CartPole-v1";
const NOT_NATIVE: &str = "no native environment of this name";

/// The file suggests it: libm differs in the last bits and the dynamics are unstable.
const TOLERANCE: f64 = 1e-6;
/// Observations and bounds are rounded to f32, whose half ulp is 6e-8.
const F32_TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (name, spec) in file.get("specs").and_then(Value::as_object).into_iter().flatten() {
        match name.as_str() {
            CART_POLE => r.case("specs", name, |c| check_spec(c, &CartPole::new().spec(), name, spec)),
            _ => r.no_runner("specs", name, NOT_NATIVE),
        }
    }
    for (index, trajectory) in json::section(file, "trajectories").iter().enumerate() {
        let name = json::name_of(trajectory, index);
        let env = trajectory.get("env").and_then(Value::as_str).unwrap_or("an environment without a name");
        let kind = format!("trajectories/{env}");
        match env {
            CART_POLE => r.case(&kind, name, |c| check_trajectory(c, trajectory)),
            _ => r.no_runner(&kind, name, NOT_NATIVE),
        }
    }
}

/// The file's `reward_threshold` is a goal of training and no part of the environment.
fn check_spec(c: &mut Case, got: &EnvSpec, name: &str, want: &Value) -> Result<()> {
    c.equal("name", got.name.as_str(), name);
    let limit = json::optional_number_at(want, "max_episode_steps")?;
    c.equal("max_episode_steps", got.max_episode_steps.map(f64::from), limit);
    let Space::Box { low, high, .. } = &got.observation else {
        anyhow::bail!("the observation space is {}, not a box", got.observation);
    };
    c.close_all("obs_low", &widen(low), &json::floats_at(want, "obs_low")?, F32_TOLERANCE);
    c.close_all("obs_high", &widen(high), &json::floats_at(want, "obs_high")?, F32_TOLERANCE);
    match &got.action {
        Space::Discrete { n } => c.equal("action.discrete", *n, json::usize_at(want, "action.discrete")?),
        other => anyhow::bail!("the action space {other} has no counterpart in the file"),
    }
    Ok(())
}

/// What the file says about each step, `[K]` or `[K, 4]` flattened.
struct Trajectory {
    initial: [f64; 4],
    max_episode_steps: u32,
    actions: Vec<u32>,
    states: Vec<f64>,
    observations: Vec<f64>,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl Trajectory {
    fn read(entry: &Value) -> Result<Self> {
        let initial = json::floats_at(entry, "initial_state")?;
        let actions: Vec<u32> = json::usizes_at(entry, "actions")?.into_iter().map(|action| action as u32).collect();
        let read = Self {
            initial: initial.try_into().ok().context("`initial_state` must hold four numbers")?,
            max_episode_steps: u32::try_from(json::usize_at(entry, "max_episode_steps")?)?,
            states: json::floats_at(entry, "states")?,
            observations: json::floats_at(entry, "observations")?,
            rewards: json::floats_at(entry, "rewards")?,
            terminated: bools_at(entry, "terminated")?,
            truncated: bools_at(entry, "truncated")?,
            actions,
        };
        let steps = read.actions.len();
        ensure!(
            (read.rewards.len(), read.terminated.len(), read.truncated.len()) == (steps, steps, steps),
            "rewards, terminated and truncated must be as long as actions, {steps}"
        );
        Ok(read)
    }

    /// One [`End`] a step. Where gymnasium says both, the episode has terminated: nothing was cut off.
    fn ends(&self) -> Vec<End> {
        let both = self.terminated.iter().zip(&self.truncated);
        both.map(|flags| match flags {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        })
        .collect()
    }
}

fn check_trajectory(c: &mut Case, entry: &Value) -> Result<()> {
    let want = Trajectory::read(entry)?;
    check_dynamics(c, &want)?;
    check_ends(c, &want)
}

/// The environment alone, which knows nothing of time limits.
fn check_dynamics(c: &mut Case, want: &Trajectory) -> Result<()> {
    let mut env = CartPole::from_state(want.initial);
    let (mut states, mut observations, mut rewards, mut terminated) = (vec![], vec![], vec![], vec![]);
    let mut row = [0.0; 4];
    for action in &want.actions {
        let step = env.step(ActionRef::Discrete(&[*action]), ObsMut::F32(&mut row))?;
        states.extend(env.state());
        observations.extend(widen(&row));
        rewards.push(f64::from(step.reward));
        terminated.push(step.end == End::Terminated);
    }
    c.close_all("states", &states, &want.states, TOLERANCE);
    c.close_all("observations", &observations, &want.observations, F32_TOLERANCE);
    c.close_all("rewards", &rewards, &want.rewards, TOLERANCE);
    c.equal("terminated", &terminated, &want.terminated);
    Ok(())
}

/// The environment in a vector, which enforces the limit and keeps what was cut off.
fn check_ends(c: &mut Case, want: &Trajectory) -> Result<()> {
    let start = FromState { env: CartPole::new(), initial: want.initial, max_episode_steps: want.max_episode_steps };
    let context = VectorContext { worker: 0, incarnation: 0, seed: 0 };
    let mut envs = SerialVectorEnv::new(&context, 1, |_| Ok(start.clone()))?;
    let mut row = [0.0; 4];
    envs.reset_all(ObsMut::F32(&mut row))?;

    let mut final_obs = FinalObs::new(ObsKind::F32, row.len());
    let mut ends = vec![];
    for (t, action) in want.actions.iter().enumerate() {
        let (mut reward, mut end) = ([0.0], [End::No]);
        let out = VectorStep {
            t,
            obs: ObsMut::F32(&mut row),
            rewards: &mut reward,
            ends: &mut end,
            final_obs: &mut final_obs,
        };
        envs.step(ActionRef::Discrete(&[*action]), out)?;
        ends.extend(end);
    }
    let truncated_at = want.ends().iter().position(|end| *end == End::Truncated);
    c.equal("ends", ends, want.ends());
    c.equal("final observations", final_obs.len(), usize::from(truncated_at.is_some()));
    if let Some(t) = truncated_at {
        let got =
            final_obs.get(t, 0).and_then(|row| row.as_f32()).context("the truncated step has no final observation")?;
        let want = want.observations.chunks(row.len()).nth(t).context("`observations` is shorter than `actions`")?;
        c.close_all("final observation", &widen(got), want, F32_TOLERANCE);
    }
    Ok(())
}

/// CartPole that every reset puts into the same state.
#[derive(Clone)]
struct FromState {
    env: CartPole,
    initial: [f64; 4],
    max_episode_steps: u32,
}

impl Env for FromState {
    fn spec(&self) -> EnvSpec {
        EnvSpec { max_episode_steps: Some(self.max_episode_steps), ..self.env.spec() }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env = CartPole::from_state(self.initial);
        obs.write(&self.initial.map(|value| value as f32))
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.env.step(action, obs)
    }
}

fn bools_at(entry: &Value, path: &str) -> Result<Vec<bool>> {
    let items = json::array_at(entry, path)?.iter();
    items.map(|item| item.as_bool().with_context(|| format!("`{path}`: expected booleans, got {item}"))).collect()
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}
