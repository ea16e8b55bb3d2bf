//! What does a run look like in a browser, while it trains and after?
//!
//! [`Dashboard`] is a reporter that serves the run of its process; [`Dashboard::watch`] serves folders of
//! runs. Both serve the same page and the same JSON, read-only, from one thread.

#[cfg(not(unix))]
compile_error!("pronk-dashboard opens files without following links as Unix does");

mod access;
mod answers;
mod assets;
mod board;
mod connections;
mod dashboard;
mod error;
mod events;
mod figures;
mod folder;
mod reader;
mod request;
mod routes;
mod server;
mod settings;
mod short;
mod summary;
mod videos;
mod watch;

pub use dashboard::Dashboard;
pub use error::DashboardError;
pub use watch::Watch;
