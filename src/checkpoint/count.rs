//! Counts in a checkpoint, which may be damaged or forged.

/// No run counts so far, and a few such counts can be added.
pub(super) const MOST: u64 = 1 << 60;

/// Refuses a count that no run reaches.
pub(crate) fn check_count(name: &str, count: u64) -> Result<(), String> {
    if count > MOST { Err(format!("it has {count} {name}, and no run has so many")) } else { Ok(()) }
}
