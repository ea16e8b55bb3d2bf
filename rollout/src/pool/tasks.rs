//! Environments that are tasks of one thread.

mod make;
mod play;
mod request;
mod task_pool;
mod task_set;
mod thread;

pub use make::EnvTasks;
pub(crate) use make::MakeTask;
pub(crate) use play::play;
pub(crate) use request::TaskSlot;
pub(crate) use task_pool::TaskPool;
