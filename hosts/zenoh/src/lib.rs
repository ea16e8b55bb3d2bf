//! Zenoh as the engine that carries bytes between hosts.
//!
//! [`ZenohListen`] is the learner's end, [`ZenohDial`] an actor's. A request is a zenoh query on
//! `pronk/<host>/<op>`. With [`Certificates`] both ends prove who they are, and bytes are encrypted; without
//! them plain tcp stays on one machine unless the user says `insecure()`.

mod address;
mod certificates;
mod dial;
mod lanes;
mod listen;
mod make;
mod sessions;
mod settings;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use certificates::Certificates;
pub use dial::ZenohDial;
pub use listen::ZenohListen;
pub use make::{LEARNER, MakeError, Validity, make_certificates, make_certificates_valid, make_relay_certificate};
