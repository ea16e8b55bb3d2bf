/// Borrowed observations, row-major.
#[derive(Clone, Copy, Debug)]
pub enum ObsRef<'a> {
    /// Stored as floats.
    F32(&'a [f32]),
    /// Stored as bytes; networks scale them by the bounds of their space, pixels by 1/255.
    U8(&'a [u8]),
}

impl ObsRef<'_> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(obs) => obs.len(),
            Self::U8(obs) => obs.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
