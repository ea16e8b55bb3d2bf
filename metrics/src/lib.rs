//! Metrics room of pronk: what a thread says about itself.
