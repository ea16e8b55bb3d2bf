//! Environments that come with the library.

mod acrobot;
mod arithmetic;
mod canvas;
mod cartpole;
mod dynamics;
mod masked;
mod mountain_car;
mod mountain_car_continuous;
mod pendulum;
mod recall;
mod rendezvous;
#[cfg(test)]
mod tests;
mod tic_tac_toe;

pub use acrobot::Acrobot;
pub use cartpole::CartPole;
pub use masked::Masked;
pub use mountain_car::MountainCar;
pub use mountain_car_continuous::MountainCarContinuous;
pub use pendulum::Pendulum;
pub use recall::Recall;
pub use rendezvous::Rendezvous;
pub use tic_tac_toe::TicTacToe;
