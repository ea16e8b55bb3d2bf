use crate::env::ObsMut;

/// The content of an observation row before it is written: for floats a NaN that no arithmetic gives; for
/// bytes, which may have any value, another one in each of an episode's two runs, so that an unwritten byte
/// makes them differ.
#[derive(Clone, Copy)]
pub(crate) enum Background {
    First,
    Second,
}

const UNWRITTEN: u32 = 0x7fc5_a5a5;

/// Whether a value is the background.
pub(crate) fn is_unwritten(value: f32) -> bool {
    value.to_bits() == UNWRITTEN
}

impl Background {
    /// Fills a row before the environment writes it.
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
