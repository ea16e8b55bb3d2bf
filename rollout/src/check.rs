//! Does an environment keep the rules?

mod error;
mod multi_agent;
mod play;
mod rules;
mod single_agent;
mod unwritten;

pub use error::{EnvCheckError, EnvFault};
pub use multi_agent::check_multi_agent_env;
pub use single_agent::check_env;
