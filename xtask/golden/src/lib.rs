//! Golden numbers.
