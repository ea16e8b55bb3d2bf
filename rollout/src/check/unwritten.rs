use crate::env::ObsMut;

/// What an observation row holds before the environment writes it. For floats it is a NaN that no arithmetic makes; for
/// bytes, where every value is a possible one, the two runs of an episode have different backgrounds, so that a byte which
/// is not written makes them differ.
#[derive(Clone, Copy)]
pub(crate) enum Background {
    First,
    Second,
}

const UNWRITTEN: u32 = 0x7fc5_a5a5;

/// Whether a value is what stood in the row before.
pub(crate) fn is_unwritten(value: f32) -> bool {
    value.to_bits() == UNWRITTEN
}

impl Background {
    /// Spoils a row before it is written.
    pub(crate) fn fill(self, row: ObsMut<'_>) {
        match row {
            ObsMut::F32(row) => row.fill(f32::from_bits(UNWRITTEN)),
            ObsMut::U8(row) => row.fill(match self {
                Background::First => 0x5a,
                Background::Second => 0xa5,
            }),
        }
    }
}
