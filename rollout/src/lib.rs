//! Rollout room of pronk: how data is made.
