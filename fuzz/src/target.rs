/// A reader and what holds of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its folder in the corpus too.
    pub name: &'static str,
    /// What holds for any bytes. That reading ends, without a panic and within the memory, holds for all.
    pub promise: &'static str,
    /// Reads the bytes; panics if what it promises does not hold.
    pub run: fn(&[u8]),
}
