//! [`Environment`]: environments by name.

use std::sync::Arc;

use pronk::env_process::{AtariVector, ChildOutput, Gymnasium, PettingZoo, ProcessEnvs, Program, Wrapper};
use pronk::envs::{
    Acrobot, CartPole, Masked, MountainCar, MountainCarContinuous, Pendulum, Recall, Rendezvous, TicTacToe,
};
use pronk::prelude::*;
use pronk::rollout::{
    CallMonitor, EnvTasks, MultiAgentEnv, MultiAgentFactory, VectorContext, VectorEnv, probe_multi_agent_spec,
    probe_spec,
};
use pronk::{EnvFactory, EnvFailure, MultiAgentConfig, Space, Vectorised};
use serde_json::json;

use crate::run_file::{EnvOptions, Policies, Timeout};

/// An environment that a name stands for.
#[derive(Clone)]
pub(crate) enum Environment {
    Single(SingleAgent),
    Several(MultiAgent),
}

/// A factory of environments with one agent.
#[derive(Clone)]
pub(crate) struct SingleAgent(Arc<dyn EnvFactory>);

/// A factory of environments with several agents.
#[derive(Clone)]
pub(crate) struct MultiAgent(Arc<dyn MultiAgentFactory>);

/// Why a name stands for no environment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("there is no environment `{name}`{}: `pronk envs` lists all", hint(.nearest.as_deref()))]
    Unknown { name: String, nearest: Option<String> },
    #[error("`env_options.{option}` is not for `{env}`: leave it out")]
    Option { env: String, option: &'static str },
    #[error(
        "the environment variable {0} is not set, and `env_options` has {{ env = \"{0}\" }}: set it, or write \
         {{ literal = {{ env = \"{0}\" }} }} for a table with the key `env`"
    )]
    Variable(String),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!(", did you mean `{nearest}`?")).unwrap_or_default()
}

/// An environment that is compiled in.
pub(crate) struct Native {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) make: fn() -> Environment,
}

/// Those that step by SIMD with their states in arrays do so: the episodes are the same.
pub(crate) const NATIVE: [Native; 9] = [
    Native { name: "CartPole-v1", about: "balance a pole on a cart", make: || single(Vectorised::<CartPole>::new()) },
    Native {
        name: "Acrobot-v1",
        about: "swing a two-link arm above a line",
        make: || single(Vectorised::<Acrobot>::new()),
    },
    Native {
        name: "MountainCar-v0",
        about: "drive out of a valley that is too steep",
        make: || single(Vectorised::<MountainCar>::new()),
    },
    Native {
        name: "MountainCarContinuous-v0",
        about: "the same with a continuous force, which costs",
        make: || single(Vectorised::<MountainCarContinuous>::new()),
    },
    Native {
        name: "Pendulum-v1",
        about: "swing a pendulum up and hold it",
        make: || single(Vectorised::<Pendulum>::new()),
    },
    Native {
        name: "Masked",
        about: "choose among actions of which a mask allows some",
        make: || single(|_: &EnvContext| Masked::new(6, 20)),
    },
    Native {
        name: "Recall",
        about: "remember what was shown six steps ago: needs an LSTM",
        make: || single(|_: &EnvContext| Recall::new(6)),
    },
    Native {
        name: "Rendezvous",
        about: "two agents meet without speaking",
        make: || several(|_: &EnvContext| Rendezvous::new()),
    },
    Native { name: "TicTacToe", about: "two agents take turns", make: || several(|_: &EnvContext| TicTacToe::new()) },
];

/// The policy that agents share.
pub(crate) const SHARED: &str = "team";

/// What comes before the colon of environments in other processes, and what after it.
pub(crate) const FAMILIES: [(&str, &str, &str); 3] = [
    ("gymnasium", "ID", "an environment of Gymnasium, such as gymnasium:LunarLander-v3"),
    ("atari", "GAME", "an Atari game with the usual preprocessing, such as atari:Pong"),
    ("pettingzoo", "MODULE", "a parallel environment of PettingZoo, such as pettingzoo:mpe2.simple_spread_v3"),
];

impl Environment {
    /// The environment called `name`, for so many environments per worker; what it prints goes to `output`.
    pub(crate) fn named(
        name: &str,
        options: &EnvOptions,
        envs_per_worker: usize,
        output: ChildOutput,
    ) -> Result<Self, EnvironmentError> {
        if let Some(native) = NATIVE.iter().find(|native| native.name == name) {
            options.refuse_all(name)?;
            return Ok((native.make)());
        }
        if let Some(name) = options.variables().into_iter().find(|name| std::env::var_os(name).is_none()) {
            return Err(EnvironmentError::Variable(name.to_owned()));
        }
        let process = |program: Program| {
            let defaults = ProcessEnvs::new(program);
            ProcessEnvs {
                envs_per_process: options.envs_per_process.unwrap_or(envs_per_worker),
                clip_rewards: options.clip_rewards,
                start_timeout: options.start_timeout.map_or(defaults.start_timeout, |Timeout(time)| time),
                step_timeout: options.step_timeout.map_or(defaults.step_timeout, |Timeout(time)| time),
                close_timeout: options.close_timeout.map_or(defaults.close_timeout, |Timeout(time)| time),
                output,
                ..defaults
            }
        };
        let wrappers: Vec<Wrapper> = options.wrappers.iter().cloned().map(Wrapper::from).collect();
        let (kwargs, python) = (options.kwargs.clone(), options.python.clone());
        let (max_episode_steps, action_mask) = (options.max_episode_steps, options.action_mask);
        let channels_first = options.channels_first.unwrap_or(true);
        match name.split_once(':') {
            Some(("gymnasium", id)) if !id.is_empty() => {
                let own = Gymnasium::new(id);
                let env = Gymnasium { kwargs, python, max_episode_steps, action_mask, channels_first, wrappers, ..own };
                Ok(single(process(env.into())))
            }
            Some(("atari", game)) if !game.is_empty() => {
                options.refuse(name, "max_episode_steps", max_episode_steps.is_some())?;
                options.refuse(name, "action_mask", action_mask)?;
                options.refuse(name, "wrappers", !wrappers.is_empty())?;
                options.refuse(name, "channels_first", options.channels_first.is_some())?;
                Ok(single(process(AtariVector { kwargs, python, ..AtariVector::new(game) }.into())))
            }
            Some(("pettingzoo", module)) if !module.is_empty() => {
                // Each environment has a process of its own, and rewards are as they come.
                options.refuse(name, "envs_per_process", options.envs_per_process.is_some())?;
                options.refuse(name, "clip_rewards", options.clip_rewards.is_some())?;
                let own = PettingZoo::new(module);
                let env =
                    PettingZoo { kwargs, python, max_episode_steps, action_mask, channels_first, wrappers, ..own };
                Ok(several(process(env.into())))
            }
            _ => Err(EnvironmentError::Unknown { name: name.to_owned(), nearest: nearest(name) }),
        }
    }
}

impl Environment {
    /// Makes one, which tells whether a run could.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn probe(&self) -> Result<(), EnvFailure> {
        match self {
            Self::Single(env) => probe_spec(env, 0).map(drop),
            Self::Several(env) => probe_multi_agent_spec(&*env.0, 0).map(drop),
        }
    }
}

impl MultiAgent {
    /// The policies of its agents.
    ///
    /// # Errors
    /// An environment that cannot be made: it says who the agents are.
    pub(crate) fn policies(&self, policies: Policies, seed: u64) -> Result<MultiAgentConfig, EnvFailure> {
        Ok(match policies {
            Policies::Shared => MultiAgentConfig::shared(SHARED),
            Policies::Separate => {
                let agents = probe_multi_agent_spec(&*self.0, seed)?.agents;
                MultiAgentConfig::separate(agents.into_iter().map(|agent| (agent.name.clone(), agent.name)))
            }
        })
    }
}

/// The keys of [`EnvOptions`].
const OPTIONS: [&str; 11] = [
    "python",
    "envs_per_process",
    "kwargs",
    "max_episode_steps",
    "action_mask",
    "channels_first",
    "clip_rewards",
    "wrappers",
    "start_timeout",
    "step_timeout",
    "close_timeout",
];

impl EnvOptions {
    /// The options for policies that observe these spaces: those that were trained on images with their
    /// channels last still see them so, if the options do not say.
    pub(crate) fn as_seen<'a>(&self, mut observations: impl Iterator<Item = &'a Space>) -> Self {
        let channels_first = observations.any(Space::looks_channels_last).then_some(false);
        Self { channels_first: self.channels_first.or(channels_first), ..self.clone() }
    }

    /// Refuses every option: a native environment has none.
    fn refuse_all(&self, env: &str) -> Result<(), EnvironmentError> {
        let defaults = json!(Self::default());
        let given = json!(self);
        OPTIONS.into_iter().try_for_each(|option| self.refuse(env, option, given[option] != defaults[option]))
    }

    fn refuse(&self, env: &str, option: &'static str, is_given: bool) -> Result<(), EnvironmentError> {
        if is_given { Err(EnvironmentError::Option { env: env.to_owned(), option }) } else { Ok(()) }
    }
}

fn single(factory: impl EnvFactory + 'static) -> Environment {
    Environment::Single(SingleAgent(Arc::new(factory)))
}

fn several(factory: impl MultiAgentFactory + 'static) -> Environment {
    Environment::Several(MultiAgent(Arc::new(factory)))
}

fn nearest(name: &str) -> Option<String> {
    // `gym:CartPole-v1` is meant to be of a family, however much the rest is like a native one.
    let (family, rest) = name.split_once(':').unwrap_or((name, ""));
    let families = FAMILIES.iter().map(|(known, what, _)| {
        (likeness(family, known), format!("{known}:{}", if rest.is_empty() { *what } else { rest }))
    });
    let native = NATIVE.iter().filter(|_| rest.is_empty()).map(|it| (likeness(name, it.name), it.name.to_owned()));
    let (best, known) = native.chain(families).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best > 0.75).then_some(known)
}

fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(&one.to_lowercase(), &other.to_lowercase())
}

impl EnvFactory for SingleAgent {
    fn make_vector(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        self.0.make_vector(context, n_envs, monitor)
    }

    fn make_vector_to_render(
        &self,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        self.0.make_vector_to_render(context, n_envs, monitor)
    }

    fn tasks(&self) -> Option<EnvTasks> {
        self.0.tasks()
    }
}

impl MultiAgentFactory for MultiAgent {
    fn make(&self, context: &EnvContext, monitor: &CallMonitor) -> Result<Box<dyn MultiAgentEnv>, EnvError> {
        self.0.make(context, monitor)
    }
}
