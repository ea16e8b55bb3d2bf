//! The protocols of this room under every schedule that is tried. `cargo xtask model` runs them; each says in
//! one sentence what holds.

mod hang;
mod inference;
mod seats;
mod sharing;

/// Of each model; they have too many to try all.
const SCHEDULES: usize = 3_000;
