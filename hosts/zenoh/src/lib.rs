//! Zenoh as the engine that carries bytes between hosts.
