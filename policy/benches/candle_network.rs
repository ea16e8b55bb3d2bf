//! Speed of the network.
fn main() {}
