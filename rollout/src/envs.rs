//! Environments that come with the library.

mod cartpole;

pub use cartpole::CartPole;
