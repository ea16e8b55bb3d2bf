//! An actor's side: joining, shipping fragments, reporting, and fetching weights.

mod act;
mod contact;
mod courier;
mod fetch;
mod join;
mod member;
mod sources;
mod window;

pub use act::Act;
pub use contact::Left;
pub use fetch::Layouts;
pub use join::{Actor, Entered, JoinError};
pub use member::{ActorEdges, Member, Stay};
