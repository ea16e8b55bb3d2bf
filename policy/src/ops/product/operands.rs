/// Columns are computed in blocks of this many: one register of AVX-512, two of AVX2, four of NEON.
pub(crate) const BLOCK: usize = 16;

/// The most columns that lie together in `b`: four registers of AVX-512.
pub(crate) const PANEL: usize = 64;

/// Numbers of `b` that stay in the first-level cache while all rows pass by, 24 of usually 32 to 48 KiB.
pub(crate) const CACHED: usize = 6 * 1024;

/// Row `i` and term `p` of the left operand are at `i * row + p * step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) row: usize,
    pub(crate) step: usize,
}

/// Term `p` and column `j` of the right operand are at `j / PANEL * panel + p * step + j % PANEL`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) step: usize,
    pub(crate) panel: usize,
}

/// Row `i` and column `j` are at `i * row + j / PANEL * panel + j % PANEL`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) row: usize,
    pub(crate) panel: usize,
}

impl Place {
    /// Row after row.
    pub(crate) const fn rows_of(row: usize) -> Self {
        Self { row, panel: PANEL }
    }

    /// The greatest index of so many rows and columns.
    pub(crate) fn last(self, rows: usize, columns: usize) -> usize {
        let (row, panel) = ((rows - 1).saturating_mul(self.row), ((columns - 1) / PANEL).saturating_mul(self.panel));
        sum([row, panel, (columns - 1) % PANEL])
    }
}

/// Where a set of rows begins: in the left operand, in the result, and in the values that a slope is taken from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    pub(crate) a: usize,
    pub(crate) out: usize,
    pub(crate) y: usize,
}

/// Where a piece of the sum begins in each operand, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) len: usize,
}

/// What a sum starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// Nothing.
    Zero,
    /// A number per column.
    Bias(&'a [f32]),
    /// What the result's place holds.
    Out,
    /// Both.
    OutAndBias(&'a [f32]),
}

impl<'a> Start<'a> {
    pub(crate) fn bias(self) -> Option<&'a [f32]> {
        match self {
            Self::Bias(bias) | Self::OutAndBias(bias) => Some(bias),
            Self::Zero | Self::Out => None,
        }
    }
}

/// What becomes of a sum. NaN stays NaN in all of them, save where ReLU's slope is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Finish<'a> {
    /// It is the result.
    Nothing,
    /// Zero below zero.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// The sum times the slope that ReLU had where it gave these values.
    ReluSlope(Values<'a>),
    /// The sum times the slope that the tangent had where it gave these values.
    TanhSlope(Values<'a>),
    /// The sum times ReLU's slope, added to what the result's place holds.
    AddReluSlope(Values<'a>),
}

impl<'a> Finish<'a> {
    pub(crate) fn values(self) -> Option<Values<'a>> {
        match self {
            Self::ReluSlope(y) | Self::TanhSlope(y) | Self::AddReluSlope(y) => Some(y),
            Self::Nothing | Self::Relu | Self::Tanh => None,
        }
    }
}

/// What an activation gave: one value for each number of the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) place: Place,
}

/// One matrix product, described. [`Product::run`] computes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    /// The left operand, read number by number.
    pub(crate) a: Left<'a>,
    /// The right operand, read in whole blocks.
    pub(crate) b: Right<'a>,
    /// Where the result goes.
    pub(crate) out: Place,
    /// Rows of each group.
    pub(crate) rows: usize,
    /// Columns, padded.
    pub(crate) columns: usize,
    /// Sets of rows.
    pub(crate) groups: &'a [Group],
    /// MicroBatches of the sum.
    pub(crate) segments: &'a [Segment],
    /// What the sum starts from.
    pub(crate) start: Start<'a>,
    /// What becomes of it.
    pub(crate) finish: Finish<'a>,
}

/// How many columns a matrix of so many is stored with: one block, two, or whole panels.
pub(crate) const fn padded(columns: usize) -> usize {
    match columns {
        0..=BLOCK => BLOCK,
        columns if columns <= 2 * BLOCK => 2 * BLOCK,
        columns => columns.next_multiple_of(PANEL),
    }
}

/// The sum, or the greatest number there is: an offset below zero comes as a very great one and must not wrap around.
pub(super) fn sum<const N: usize>(terms: [usize; N]) -> usize {
    terms.into_iter().fold(0, usize::saturating_add)
}
