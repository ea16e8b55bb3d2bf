//! Learner room of pronk: how data becomes weights.
