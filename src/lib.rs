//! pronk
