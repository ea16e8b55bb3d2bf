/// Columns are computed in blocks of this many: one register of AVX-512, two of AVX2, four of NEON.
pub(crate) const BLOCK: usize = 16;

/// Columns of a panel of `b`: four registers of AVX-512.
pub(crate) const PANEL: usize = 64;

/// Numbers of `b` that stay in the L1 cache: 24 of usually 32 to 48 KiB.
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
    pub(crate) rounding: Rounding<'a>,
}

/// Whether both factors of a product's terms are rounded to bfloat16.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rounding<'a> {
    /// No.
    Exact,
    /// Yes; the right operand has been rounded: terms `p`, an even number, and `p + 1` are the low and the
    /// high half at `j / PANEL * pairs_panel() + p / 2 * step + j % PANEL`. After a panel's last there are
    /// zeros, up to [`rows_of_pairs`]. The left operand's `step` must be 1.
    Pairs(&'a [u32]),
    /// Yes, both where they are multiplied. The left operand's `row` must be 1, as in a gradient of weights.
    Both,
}

impl Right<'_> {
    /// The distance of panels of pairs.
    pub(crate) fn pairs_panel(self) -> usize {
        rows_of_pairs(self.panel / PANEL) * PANEL
    }
}

/// Terms of a tile of rounded numbers: 64 bytes of a row.
pub(super) const TERMS: usize = 32;

/// The rows of pairs of a panel with this many terms: a product reads whole tiles, and the block beside the
/// last.
pub(crate) const fn rows_of_pairs(terms: usize) -> usize {
    terms.div_ceil(2) + TERMS / 2 + 1
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

    /// The largest index of this many rows and columns.
    pub(crate) fn last(self, rows: usize, columns: usize) -> usize {
        let (row, panel) = ((rows - 1).saturating_mul(self.row), ((columns - 1) / PANEL).saturating_mul(self.panel));
        sum([row, panel, (columns - 1) % PANEL])
    }
}

/// The start of a group of rows: in the left operand, in the result, and in the activations of a slope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    pub(crate) a: usize,
    pub(crate) out: usize,
    pub(crate) y: usize,
}

/// The start of a segment of the sum in each operand, and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) len: usize,
}

/// The start of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// Zero.
    Zero,
    /// A number per column.
    Bias(&'a [f32]),
    /// The old value of the result.
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

/// The function of a finished sum. NaN stays NaN, except where ReLU's slope is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Finish<'a> {
    /// The identity.
    Nothing,
    /// ReLU.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// The sum times the slope of ReLU at these outputs.
    ReluSlope(Values<'a>),
    /// The sum times the slope of the tangent at these outputs.
    TanhSlope(Values<'a>),
    /// The sum times ReLU's slope, added to the old value.
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

/// Outputs of an activation, one for each element of the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) place: Place,
}

/// The description of a matrix product, for [`Product::run`].
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
    /// Segments of the sum.
    pub(crate) segments: &'a [Segment],
    /// The start of the sum.
    pub(crate) start: Start<'a>,
    /// The finish.
    pub(crate) finish: Finish<'a>,
}

/// The padded number of columns: one block, two, or whole panels.
pub(crate) const fn padded(columns: usize) -> usize {
    match columns {
        0..=BLOCK => BLOCK,
        columns if columns <= 2 * BLOCK => 2 * BLOCK,
        columns => columns.next_multiple_of(PANEL),
    }
}

/// The saturating sum: a negative offset is a huge one and must not wrap around.
pub(super) fn sum<const N: usize>(terms: [usize; N]) -> usize {
    terms.into_iter().fold(0, usize::saturating_add)
}
