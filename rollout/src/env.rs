//! What is an environment?

mod agents;
mod async_env;
mod call_monitor;
mod context;
mod episode;
mod episode_stat;
mod error;
mod failure;
pub(crate) mod mask;
mod multi_agent;
mod multi_agent_spec;
mod reaper;
mod saved;
pub(crate) mod seed;
mod single_agent;
mod spec;
mod views;

pub(crate) use agents::AgentState;
pub use agents::Agents;
pub use async_env::{AsyncEnv, IntoAsyncEnv};
pub(crate) use call_monitor::{CallGuard, HangDetector, POLLS_PER_TIMEOUT, poll_interval};
pub use call_monitor::{CallMonitor, EnvCall};
pub use context::{EnvContext, VectorContext};
pub use episode::Episodes;
pub use episode_stat::{EpisodeStat, ReturnStat};
pub use error::EnvError;
pub use failure::{EnvFailure, EnvFailureCause, FailurePlace};
pub use multi_agent::{IntoMultiAgentEnv, MultiAgentEnv};
pub use multi_agent_spec::{AgentSpec, MultiAgentSpec};
pub use reaper::{Reaper, ReaperHandle};
pub use saved::{Restarted, SavedEnv, SavedEnvs, SavedEpisodes, Way};
pub use single_agent::{Env, IntoEnv, Step};
pub use spec::EnvSpec;
pub(crate) use spec::Spec;
pub use views::{ActionRef, ObsMut};
pub(crate) use views::{act_kind, check_finite, first_non_finite, obs_kind};
