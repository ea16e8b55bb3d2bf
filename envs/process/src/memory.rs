//! Memory shared with a child: numbers are copied in and out, and no reference points into it.

#![allow(unsafe_code)] // the copies; each says why it is sound

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

/// Shared memory without a size yet; the child has its descriptor.
pub struct Unmapped(File);

impl Unmapped {
    /// Empty memory, and its descriptor for the child. The last process that drops it frees it.
    ///
    /// # Errors
    /// The system's.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let memory = File::from(memfd_create("pronk-env", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        let theirs = OwnedFd::from(memory.try_clone()?);
        Ok((Self(memory), theirs))
    }

    /// Sets its size and seals it, so that no child can shrink the mapping.
    pub(crate) fn map(self, bytes: usize) -> io::Result<Memory> {
        ftruncate(&self.0, bytes as u64)?;
        fcntl_add_seals(&self.0, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // A child may have changed it in between, and reading beyond the end would kill this process.
        if self.0.metadata()?.len() != bytes as u64 {
            return Err(io::Error::other("the child changed its size"));
        }
        Ok(Memory { map: MmapOptions::new().len(bytes).map_raw(&self.0)? })
    }
}

/// An in-memory file with this text, for a child.
pub(crate) fn text_file(text: &str) -> io::Result<OwnedFd> {
    use std::io::{Seek, Write};
    let mut file = File::from(memfd_create("pronk-program", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// Memory of a fixed size. A child may write into it at any time, so reads are copies, to be validated.
pub(crate) struct Memory {
    map: MmapRaw,
}

/// Types for which every bit pattern is valid, without padding.
pub(crate) trait Number: Copy + Default {}

impl Number for u8 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for f32 {}
impl Number for f64 {}

impl Memory {
    /// Copies out the numbers from byte `at`, as many as `into` holds.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub(crate) fn read<T: Number>(&self, at: usize, into: &mut [T]) {
        self.check(at, size_of_val(into));
        // SAFETY: the bytes lie within the mapping, which lives as long as `self` and cannot shrink, being
        // sealed; `into` is memory of this process alone and as long; both are copied as bytes, so nothing
        // need be aligned, and every pattern is a `T`. A child that writes meanwhile changes which numbers
        // come out, and those are checked by the caller.
        unsafe { self.map.as_ptr().add(at).copy_to_nonoverlapping(into.as_mut_ptr().cast(), size_of_val(into)) }
    }

    /// Copies numbers in, from byte `at` on.
    ///
    /// # Panics
    /// When they do not fit into the memory.
    pub(crate) fn write<T: Number>(&self, at: usize, from: &[T]) {
        self.check(at, size_of_val(from));
        // SAFETY: as in `read`, the other way round; nothing in this process refers into the mapping.
        unsafe { self.map.as_mut_ptr().add(at).copy_from_nonoverlapping(from.as_ptr().cast(), size_of_val(from)) }
    }

    /// One number.
    pub(crate) fn get<T: Number>(&self, at: usize) -> T {
        let mut number = [T::default()];
        self.read(at, &mut number);
        number[0]
    }

    fn check(&self, at: usize, bytes: usize) {
        let len = self.map.len();
        assert!(at.checked_add(bytes).is_some_and(|end| end <= len), "{bytes} bytes from {at} of {len}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_is_written_comes_out_again_from_any_byte() {
        let (memory, theirs) = Unmapped::create().unwrap();
        let memory = memory.map(4096).unwrap();
        memory.write(3, &[1.5f64, f64::NEG_INFINITY]);
        memory.write(19, &[7u32]);
        let mut floats = [0.0f64; 2];
        memory.read(3, &mut floats);
        assert_eq!(floats, [1.5, f64::NEG_INFINITY]);
        assert_eq!(memory.get::<u32>(19), 7);
        drop(theirs);
    }

    #[test]
    fn a_child_cannot_change_the_size() {
        let (memory, theirs) = Unmapped::create().unwrap();
        let memory = memory.map(4096).unwrap();
        assert!(ftruncate(&theirs, 0).is_err());
        assert!(ftruncate(&theirs, 8192).is_err());
        assert_eq!(memory.get::<u8>(4095), 0);
    }

    #[test]
    fn memory_that_a_child_shrinks_before_it_is_sealed_is_refused() {
        for _ in 0..300 {
            let (memory, theirs) = Unmapped::create().unwrap();
            let (shrinks, is_mapped) = (AtomicBool::new(false), AtomicBool::new(false));
            let mapped = std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Until it is sealed.
                    while ftruncate(&theirs, 0).is_ok() && !is_mapped.load(Ordering::Relaxed) {
                        shrinks.store(true, Ordering::Relaxed);
                    }
                });
                while !shrinks.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                let mapped = memory.map(4096);
                is_mapped.store(true, Ordering::Relaxed);
                mapped
            });
            // Reading beyond the end would kill this process.
            let bytes = File::from(theirs).metadata().unwrap().len();
            assert!(mapped.is_err() || bytes == 4096, "{bytes} bytes are mapped as 4096");
        }
    }

    #[test]
    #[should_panic(expected = "8 bytes from 4090 of 4096")]
    fn what_lies_outside_is_not_read() {
        Unmapped::create().unwrap().0.map(4096).unwrap().get::<u64>(4090);
    }
}
