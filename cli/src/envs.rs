//! `pronk envs`.

use std::process::ExitCode;

use anyhow::Result;
use pronk::rollout::{probe_multi_agent_spec, probe_spec};
use serde_json::json;

use crate::environment::{Environment, FAMILIES, NATIVE};
use crate::table::table;

/// List the environments
#[derive(clap::Args)]
#[command(after_help = "\
Environments of Gymnasium, Atari and PettingZoo step in Python processes. `pronk doctor` says what they need.")]
pub(crate) struct Envs {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Envs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut list = Vec::new();
        for native in &NATIVE {
            let (observations, actions, agents) = match (native.make)() {
                Environment::Single(env) => {
                    let spec = probe_spec(&env, 0)?;
                    (spec.observation.to_string(), spec.action.to_string(), 1)
                }
                Environment::Several(env) => {
                    let agents = probe_multi_agent_spec(&env, 0)?.agents;
                    let first = agents.first().map(|agent| (agent.observation.to_string(), agent.action.to_string()));
                    let (observations, actions) = first.unwrap_or_default();
                    (observations, actions, agents.len())
                }
            };
            list.push((native, observations, actions, agents));
        }
        if self.json {
            let of =
                |(native, observations, actions, agents): &(&crate::environment::Native, String, String, usize)| {
                    json!({
                        "env": native.name,
                        "about": native.about,
                        "observations": observations,
                        "actions": actions,
                        "agents": agents,
                    })
                };
            say!(
                "{}",
                json!({ "native": list.iter().map(of).collect::<Vec<_>>(), "families": FAMILIES.map(|it| it.0) })
            );
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = table(&["env", "agents", "observations", "actions", ""]);
        for (native, observations, actions, agents) in list {
            rows.add_row([native.name.into(), agents.to_string(), observations, actions, native.about.into()]);
        }
        say!("{rows}\n");
        for (family, what, about) in FAMILIES {
            say!(" {:<18} {about}", format!("{family}:{what}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
