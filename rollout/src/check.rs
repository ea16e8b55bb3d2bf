//! Does an environment keep the rules?

mod error;
mod instance;
mod multi_agent;
mod play;
mod rules;
mod single_agent;
mod twice;
mod unwritten;

pub use error::{EnvCheckError, EnvFault};
pub use multi_agent::check_multi_agent_env;
pub use single_agent::check_env;
pub use twice::{check_env_twice, check_multi_agent_env_twice};
