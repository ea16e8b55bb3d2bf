//! Development tasks of pronk.
fn main() {}
