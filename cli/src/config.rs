//! `pronk config`.

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueHint;
use pronk::env_process::ChildOutput;

use crate::environment::Environment;
use crate::run_file::EnvOptions;
use crate::unusable;

/// A tuned config that is compiled in.
struct Tuned {
    env: &'static str,
    text: &'static str,
}

/// The files in `configs/`, with the environment that each is for.
const TUNED: [Tuned; 11] = [
    Tuned { env: "CartPole-v1", text: include_str!("../configs/cartpole.toml") },
    Tuned { env: "Acrobot-v1", text: include_str!("../configs/acrobot.toml") },
    Tuned { env: "MountainCar-v0", text: include_str!("../configs/mountain_car.toml") },
    Tuned { env: "MountainCarContinuous-v0", text: include_str!("../configs/mountain_car_continuous.toml") },
    Tuned { env: "Pendulum-v1", text: include_str!("../configs/pendulum.toml") },
    Tuned { env: "Masked", text: include_str!("../configs/masked.toml") },
    Tuned { env: "Recall", text: include_str!("../configs/recall.toml") },
    Tuned { env: "Rendezvous", text: include_str!("../configs/rendezvous.toml") },
    Tuned { env: "TicTacToe", text: include_str!("../configs/tic_tac_toe.toml") },
    Tuned { env: "gymnasium:LunarLander-v3", text: include_str!("../configs/lunar_lander.toml") },
    Tuned { env: "atari:Pong", text: include_str!("../configs/pong.toml") },
];

/// Settings to begin with, for the environments that none are tuned for.
const FAMILIES: [Tuned; 3] = [
    Tuned { env: "gymnasium:", text: include_str!("../configs/gymnasium.toml") },
    Tuned { env: "atari:", text: include_str!("../configs/pong.toml") },
    Tuned { env: "pettingzoo:", text: include_str!("../configs/pettingzoo.toml") },
];

/// Print a config file for an environment, with comments
#[derive(clap::Args)]
#[command(after_help = "Example: pronk config gymnasium:LunarLander-v3 > lander.toml")]
pub(crate) struct Config {
    /// The environment, as `pronk envs` names it
    #[arg(value_hint = ValueHint::Other)]
    env: String,
}

impl Config {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::print(format_args!("{}", text(&self.env).map_err(unusable)?));
        Ok(ExitCode::SUCCESS)
    }
}

/// The file for the environment.
pub(crate) fn text(env: &str) -> Result<String> {
    Environment::named(env, &EnvOptions::default(), 1, ChildOutput::default())?;
    if let Some(tuned) = TUNED.iter().find(|tuned| tuned.env == env) {
        return Ok(tuned.text.to_owned());
    }
    let family = FAMILIES.iter().find(|family| env.starts_with(family.env));
    let text = family.map(|family| family.text).unwrap_or_default();
    let of_pong = |game: &str| text.replacen("# Pong with", &format!("# {game} with what is tuned for Pong:"), 1);
    let text = &env.strip_prefix("atari:").map_or_else(|| text.to_owned(), of_pong);
    let line = text.lines().find(|line| line.starts_with("env = ")).unwrap_or_default();
    let text = text.replacen(line, &format!("env = \"{env}\""), 1);
    // What the target return is differs from one environment to another; a family may have none.
    Ok(text.replacen("\nepisode_return_mean = ", "\n# episode_return_mean = ", 1))
}
