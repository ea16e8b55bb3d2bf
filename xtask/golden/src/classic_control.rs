//! Runner of `classic_control.json`: trajectories and specs of gymnasium's classic control environments.

use anyhow::{Context, Result, ensure};
use pronk_buffer::{FinalObs, ObsKind};
use pronk_policy::Space;
use pronk_rollout::{
    Acrobot, ActionRef, CallMonitor, CartPole, End, Env, EnvError, EnvSpec, Kernel, MountainCar, MountainCarContinuous,
    NativeVectorEnv, ObsMut, Pendulum, SerialVectorEnv, Step, VectorContext, VectorEnv, VectorStep,
};
use serde_json::Value;

use crate::{Case, Recorder, json};

/// The file suggests it: libm differs in the last bits and the dynamics are unstable.
const TOLERANCE: f64 = 1e-6;
/// The file suggests it for states that are rounded to f32 after every step.
const F32_STATE_TOLERANCE: f64 = 1e-5;
/// Bounds and rewards are rounded to f32, whose half ulp is 6e-8.
const F32_TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (name, spec) in file.get("specs").and_then(Value::as_object).into_iter().flatten() {
        match spec_of(name) {
            Some(got) => r.case("specs", name, |c| check_spec(c, &got, name, spec)),
            None => r.no_runner("specs", name, NOT_NATIVE),
        }
    }
    for (index, trajectory) in json::section(file, "trajectories").iter().enumerate() {
        let name = json::name_of(trajectory, index);
        let env = trajectory.get("env").and_then(Value::as_str).unwrap_or("an environment without a name");
        let kind = format!("trajectories/{env}");
        match checker_of(env) {
            Some(check) => r.case(&kind, name, |c| check(c, trajectory)),
            None => r.no_runner(&kind, name, NOT_NATIVE),
        }
    }
}

const NOT_NATIVE: &str = "no native environment of this name";

type Checker = fn(&mut Case, &Value) -> Result<()>;

fn spec_of(name: &str) -> Option<EnvSpec> {
    let specs = [
        Acrobot::new().spec(),
        CartPole::new().spec(),
        MountainCar::new().spec(),
        MountainCarContinuous::new().spec(),
        Pendulum::new().spec(),
    ];
    specs.into_iter().find(|spec| spec.name == name)
}

fn checker_of(env: &str) -> Option<Checker> {
    match env {
        "Acrobot-v1" => Some(check_trajectory::<Acrobot, 4>),
        "CartPole-v1" => Some(check_trajectory::<CartPole, 4>),
        "MountainCar-v0" => Some(check_trajectory::<MountainCar, 2>),
        "MountainCarContinuous-v0" => Some(check_trajectory::<MountainCarContinuous, 2>),
        "Pendulum-v1" => Some(check_trajectory::<Pendulum, 2>),
        _ => None,
    }
}

/// A native environment whose state is `N` numbers.
trait Native<const N: usize>: Env + Clone + Kernel {
    const TOLERANCE: f64;
    fn at(state: [f64; N]) -> Self;
    fn now(&self) -> [f64; N];
}

macro_rules! native {
    ($($env:ty, $n:literal, $tolerance:expr;)*) => {$(
        impl Native<$n> for $env {
            const TOLERANCE: f64 = $tolerance;
            fn at(state: [f64; $n]) -> Self {
                <$env>::from_state(state)
            }
            fn now(&self) -> [f64; $n] {
                self.state()
            }
        }
    )*};
}

native! {
    Acrobot, 4, TOLERANCE;
    CartPole, 4, TOLERANCE;
    MountainCar, 2, TOLERANCE;
    MountainCarContinuous, 2, F32_STATE_TOLERANCE;
    Pendulum, 2, TOLERANCE;
}

/// The file's `reward_threshold` is a goal of training and no part of the environment.
fn check_spec(c: &mut Case, got: &EnvSpec, name: &str, want: &Value) -> Result<()> {
    c.equal("name", got.name.as_str(), name);
    let limit = json::optional_number_at(want, "max_episode_steps")?;
    c.equal("max_episode_steps", got.max_episode_steps.map(f64::from), limit);
    check_bounds(c, &got.observation, want, ["obs_low", "obs_high"])?;
    match &got.action {
        Space::Discrete { n } => c.equal("action.discrete", *n, json::usize_at(want, "action.discrete")?),
        space @ Space::Box { .. } => check_bounds(c, space, want, ["action.low", "action.high"])?,
        other => anyhow::bail!("the action space {other} has no counterpart in the file"),
    }
    Ok(())
}

fn check_bounds(c: &mut Case, got: &Space, want: &Value, [low_at, high_at]: [&str; 2]) -> Result<()> {
    let Space::Box { low, high, .. } = got else {
        anyhow::bail!("the space {got} is not a box, but the file has `{low_at}`");
    };
    c.close_all(low_at, &widen(low), &json::floats_at(want, low_at)?, F32_TOLERANCE);
    c.close_all(high_at, &widen(high), &json::floats_at(want, high_at)?, F32_TOLERANCE);
    Ok(())
}

/// What was done, one action a step.
enum Actions {
    Discrete(Vec<u32>),
    Continuous(Vec<f32>),
}

impl Actions {
    fn read(entry: &Value, space: &Space) -> Result<Self> {
        if space.has_discrete_actions() {
            let actions = json::usizes_at(entry, "actions")?;
            return Ok(Self::Discrete(actions.into_iter().map(|action| action as u32).collect()));
        }
        ensure!(space.act_len() == 1, "continuous actions of {} numbers have no runner", space.act_len());
        let actions = json::floats_at(entry, "actions")?;
        Ok(Self::Continuous(actions.into_iter().map(|action| action as f32).collect()))
    }

    fn len(&self) -> usize {
        match self {
            Self::Discrete(actions) => actions.len(),
            Self::Continuous(actions) => actions.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = ActionRef<'_>> {
        (0..self.len()).map(|t| match self {
            Self::Discrete(actions) => ActionRef::Discrete(&actions[t..=t]),
            Self::Continuous(actions) => ActionRef::Continuous(&actions[t..=t]),
        })
    }
}

/// What the file says about each step, `[K]`, `[K, N]` or `[K, obs_len]` flattened.
struct Trajectory {
    max_episode_steps: u32,
    actions: Actions,
    states: Vec<f64>,
    observations: Vec<f64>,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl Trajectory {
    fn read(entry: &Value, action: &Space) -> Result<Self> {
        let read = Self {
            max_episode_steps: u32::try_from(json::usize_at(entry, "max_episode_steps")?)?,
            states: json::floats_at(entry, "states")?,
            observations: json::floats_at(entry, "observations")?,
            rewards: json::floats_at(entry, "rewards")?,
            terminated: bools_at(entry, "terminated")?,
            truncated: bools_at(entry, "truncated")?,
            actions: Actions::read(entry, action)?,
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

fn check_trajectory<E: Native<N>, const N: usize>(c: &mut Case, entry: &Value) -> Result<()> {
    let initial = json::floats_at(entry, "initial_state")?;
    let initial: [f64; N] =
        initial.try_into().ok().with_context(|| format!("`initial_state` must hold {N} numbers"))?;
    let env = E::at(initial);
    let want = Trajectory::read(entry, &env.spec().action)?;
    check_dynamics(c, env.clone(), &want)?;
    check_ends(c, env, &want)?;
    check_vectorised::<E, N>(c, initial, &want)
}

/// The environment alone, which knows nothing of time limits.
fn check_dynamics<E: Native<N>, const N: usize>(c: &mut Case, mut env: E, want: &Trajectory) -> Result<()> {
    let (mut states, mut observations, mut rewards, mut terminated) = (vec![], vec![], vec![], vec![]);
    let mut row = vec![0.0; env.spec().observation.obs_len()];
    for action in want.actions.iter() {
        let step = env.step(action, ObsMut::F32(&mut row))?;
        states.extend(env.now());
        observations.extend(widen(&row));
        rewards.push(f64::from(step.reward));
        terminated.push(step.end == End::Terminated);
    }
    c.close_all("states", &states, &want.states, E::TOLERANCE);
    c.close_all("observations", &observations, &want.observations, E::TOLERANCE);
    c.close_all("rewards", &rewards, &want.rewards, F32_TOLERANCE);
    c.equal("terminated", &terminated, &want.terminated);
    Ok(())
}

/// The environment in a vector, which enforces the limit and keeps what was cut off.
fn check_ends<E: Native<N>, const N: usize>(c: &mut Case, env: E, want: &Trajectory) -> Result<()> {
    let mut row = vec![0.0; env.spec().observation.obs_len()];
    let start = FromStart { start: env.clone(), env, max_episode_steps: want.max_episode_steps };
    let context = VectorContext::default();
    let mut envs = SerialVectorEnv::new(&context, 1, &CallMonitor::new(), |_| Ok(start.clone()))?;
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
        envs.step(action, out)?;
        ends.extend(end);
    }
    let truncated_at = want.ends().iter().position(|end| *end == End::Truncated);
    c.equal("ends", ends, want.ends());
    c.equal("final observations", final_obs.len(), usize::from(truncated_at.is_some()));
    if let Some(t) = truncated_at {
        let got =
            final_obs.get(t, 0).and_then(|row| row.as_f32()).context("the truncated step has no final observation")?;
        let want = want.observations.chunks(row.len()).nth(t).context("`observations` is shorter than `actions`")?;
        c.close_all("final observation", &widen(got), want, E::TOLERANCE);
    }
    Ok(())
}

/// The same environment many times over, with its states in arrays. After an end it begins anew, which ends
/// the comparison.
fn check_vectorised<E: Native<N>, const N: usize>(c: &mut Case, initial: [f64; N], want: &Trajectory) -> Result<()> {
    // More than fill the registers, and one that is left over.
    const N_ENVS: usize = 129;
    let context = VectorContext::default();
    let mut envs = NativeVectorEnv::<E>::with_time_limit(&context, N_ENVS, Some(want.max_episode_steps))?;
    let obs_len = envs.spec().observation.obs_len();
    let (mut obs, mut rewards, mut ends) = (vec![0.0; N_ENVS * obs_len], vec![0.0; N_ENVS], vec![End::No; N_ENVS]);
    envs.reset_all(ObsMut::F32(&mut obs))?;
    for index in 0..N_ENVS {
        let mut state = envs.state(index);
        state.as_mut()[..N].copy_from_slice(&initial);
        envs.set_state(index, state);
    }

    let steps = want.actions.iter().zip(want.ends());
    for (t, (action, end)) in steps.enumerate() {
        let mut final_obs = FinalObs::new(ObsKind::F32, obs_len);
        let out = VectorStep {
            t,
            obs: ObsMut::F32(&mut obs),
            rewards: &mut rewards,
            ends: &mut ends,
            final_obs: &mut final_obs,
        };
        match action {
            ActionRef::Discrete(one) => envs.step(ActionRef::Discrete(&[one[0]; N_ENVS]), out)?,
            ActionRef::Continuous(one) => envs.step(ActionRef::Continuous(&[one[0]; N_ENVS]), out)?,
        }
        for index in [0, N_ENVS - 1] {
            c.equal("vectorised end", ends[index], end);
            c.close("vectorised reward", rewards[index].into(), want.rewards[t], F32_TOLERANCE);
            let row = match end {
                End::No => Some(&obs[index * obs_len..(index + 1) * obs_len]),
                End::Truncated => final_obs.get(t, index).and_then(|row| row.as_f32()),
                End::Terminated => continue,
            };
            let row = row.context("the truncated step has no final observation")?;
            c.close_all(
                "vectorised observation",
                &widen(row),
                &want.observations[t * obs_len..][..obs_len],
                E::TOLERANCE,
            );
            if end == End::No {
                let state = envs.state(index);
                c.close_all("vectorised state", &state.as_ref()[..N], &want.states[t * N..][..N], E::TOLERANCE);
            }
        }
        if end != End::No {
            break;
        }
    }
    Ok(())
}

/// An environment that every reset puts into the same state. What a reset shows is not compared, so it shows
/// nothing.
#[derive(Clone)]
struct FromStart<E> {
    start: E,
    env: E,
    max_episode_steps: u32,
}

impl<E: Env + Clone> Env for FromStart<E> {
    fn spec(&self) -> EnvSpec {
        EnvSpec { max_episode_steps: Some(self.max_episode_steps), ..self.env.spec() }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env = self.start.clone();
        obs.f32()?.fill(0.0);
        Ok(())
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
