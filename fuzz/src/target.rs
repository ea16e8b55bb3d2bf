use std::fmt::Display;

/// A reader and what holds of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its folder in the corpus too.
    pub name: &'static str,
    /// What holds for any bytes. That reading ends, without a panic and within the memory, holds for all.
    pub promise: &'static str,
    /// Reads the bytes and returns whether they were accepted; panics if what it promises does not hold.
    pub run: fn(&[u8]) -> bool,
}

/// Not accepted: `error` is made into a text, as a program would.
pub(crate) fn refused(error: impl Display) -> bool {
    assert_ne!(error.to_string(), "");
    false
}
