//! Products of rounded factors against the formula for these factors, with every unit that the machine has.

use super::*;
use crate::ops::rounding::rounded;

/// The nearest bfloat16 by trying both neighbours, in double precision.
fn nearest(x: f32) -> f32 {
    let below = f32::from_bits(x.to_bits() & 0xffff_0000);
    let above = f32::from_bits((x.to_bits() & 0xffff_0000).wrapping_add(0x1_0000));
    let (down, up) = (f64::from(x) - f64::from(below), f64::from(above) - f64::from(x));
    let is_even = below.to_bits() >> 16 & 1 == 0;
    match down.abs().total_cmp(&up.abs()) {
        std::cmp::Ordering::Less => below,
        std::cmp::Ordering::Equal if is_even => below,
        _ => above,
    }
}

/// The pairs of a right operand in panels.
fn pairs_of(operands: &Operands) -> Vec<u32> {
    let (step, panel) = (operands.b_place.row, operands.b_place.panel);
    let rows = panel / PANEL;
    let mut pairs = Vec::new();
    for panel in operands.b.chunks(rows * step) {
        for two in 0..rows_of_pairs(rows) {
            for j in 0..step {
                let half = |row: usize| u32::from(panel.get(row * step + j).map_or(0, |&x| rounded(x)));
                pairs.push(half(2 * two) | half(2 * two + 1) << 16);
            }
        }
    }
    pairs
}

fn rounded_by<'a>(product: Product<'a>, rounding: Rounding<'a>) -> Product<'a> {
    Product { b: Right { rounding, ..product.b }, ..product }
}

/// A shape whose right operand can be in pairs.
fn any_paired_shape() -> impl Strategy<Value = Shape> {
    any_shape().prop_map(|shape| Shape {
        step: 1,
        b_lies: Lies::Panels,
        segments: shape.segments.into_iter().map(|(a, b, len)| (a, b / 2 * 2, len)).collect(),
        ..shape
    })
}

/// Checks a product of rounded factors with all units, from all starts.
fn agrees_with_its_formula(shape: &Shape, finish: usize, rounding: Rounding<'_>) -> Result<(), TestCaseError> {
    let (operands, mut nearest_operands) = (Operands::new(shape.clone()), Operands::new(shape.clone()));
    nearest_operands.a.iter_mut().chain(&mut nearest_operands.b).for_each(|x| *x = nearest(*x));
    let (sums, finish) = (nearest_operands.sums(), operands.finishes()[finish]);
    for start in operands.starts() {
        let product = rounded_by(operands.product(start, finish), rounding);
        for unit in Unit::all() {
            let result = unit.force(|| is_finished(&sums, product, &operands.out));
            result.map_err(|error| TestCaseError::fail(format!("{unit:?}: {error}")))?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 96 }, ..ProptestConfig::default() })]

    #[test]
    fn a_product_with_pairs_is_the_formula_of_rounded_factors(shape in any_paired_shape(), finish in 0_usize..6) {
        let pairs = pairs_of(&Operands::new(shape.clone()));
        agrees_with_its_formula(&shape, finish, Rounding::Pairs(&pairs))?;
    }

    #[test]
    fn a_product_that_rounds_both_is_the_formula_of_rounded_factors(shape in any_shape(), finish in 0_usize..6) {
        agrees_with_its_formula(&Shape { row: 1, ..shape }, finish, Rounding::Both)?;
    }

    #[test]
    fn a_number_is_rounded_to_the_nearest(x in prop::num::f32::NORMAL) {
        prop_assume!(x.abs() < 3.38e38);
        prop_assert_eq!(u32::from(rounded(x)) << 16, nearest(x).to_bits());
    }
}

#[test]
fn special_numbers_stay_special_when_rounded() {
    let widened = |x: f32| f32::from_bits(u32::from(rounded(x)) << 16);
    assert!([f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)].into_iter().all(|x| widened(x).is_nan()));
    for x in [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -255.0] {
        assert_eq!(widened(x).to_bits(), x.to_bits());
    }
    // Half between two, to the even one; and beyond the largest.
    assert_eq!([257.0, 259.0, f32::MAX].map(widened), [256.0, 260.0, f32::INFINITY]);
}

/// A product of 15 rows, one of them with NaN.
fn product_of(a: &[f32], pairs: &[u32], check: impl FnOnce(Product<'_>)) {
    let product = Product {
        a: Left { numbers: a, row: 1, step: 1 },
        b: Right { numbers: &[], step: PANEL, panel: 2 * PANEL, rounding: Rounding::Pairs(pairs) },
        out: Place::rows_of(PANEL),
        rows: a.len(),
        columns: PANEL,
        groups: &[Group::default()],
        segments: &[Segment { a: 0, b: 0, len: 1 }],
        start: Start::Zero,
        finish: Finish::Nothing,
    };
    check(product);
}

#[test]
fn nan_stays_nan_in_its_row_of_a_rounded_product() {
    let (mut a, pairs) = ([1.0; 15], vec![u32::from(rounded(2.0)); rows_of_pairs(2) * PANEL]);
    a[4] = f32::NAN;
    product_of(&a, &pairs, |product| {
        for unit in Unit::all() {
            let mut out = vec![0.5; a.len() * PANEL];
            unit.force(|| product.run(&mut out));
            for (i, row) in out.chunks_exact(PANEL).enumerate() {
                assert!(row.iter().all(|&x| if i == 4 { x.is_nan() } else { x == 2.0 }), "{unit:?}: {row:?}");
            }
        }
    });
}

#[test]
fn what_is_not_a_number_leaves_nothing_behind_for_the_next_product() {
    let product_of = |b: &[f32]| {
        let terms = b.len() / PANEL;
        let mut out = [0.5; PANEL];
        let product = Product {
            a: Left { numbers: &vec![1.0; terms], row: 1, step: 1 },
            b: Right { numbers: b, step: PANEL, panel: PANEL, rounding: Rounding::Both },
            out: Place::rows_of(PANEL),
            rows: 1,
            columns: PANEL,
            groups: &[Group::default()],
            segments: &[Segment { a: 0, b: 0, len: terms }],
            start: Start::Zero,
            finish: Finish::Nothing,
        };
        product.run(&mut out);
        out
    };
    for unit in Unit::all() {
        unit.force(|| {
            assert!(product_of(&[f32::NAN; 32 * PANEL]).iter().all(|x| x.is_nan()), "{unit:?}");
            assert_eq!(product_of(&[2.0; 3 * PANEL]), [6.0; PANEL], "{unit:?}");
        });
    }
}

#[test]
fn a_rounded_product_that_would_read_beyond_its_pairs_is_refused() {
    let refused = |product: Product<'_>| {
        let panic = catch_unwind(AssertUnwindSafe(|| product.run(&mut [0.0; 15 * PANEL]))).unwrap_err();
        *panic.downcast::<&str>().unwrap()
    };
    // A tile reads 16 pairs of terms, each segment a tile at least, and a block beside the last.
    let (a, pairs) = ([1.0; 16], vec![0; 16 * PANEL + BLOCK]);
    product_of(&a[..15], &pairs, |good| {
        good.run(&mut [0.0; 15 * PANEL]);
        let short = Right { rounding: Rounding::Pairs(&pairs[1..]), ..good.b };
        assert_eq!(refused(Product { b: short, ..good }), "the right operand's pairs lie inside their slice");
        let segments = [Segment { a: 0, b: 2 * PANEL, len: 1 }];
        assert_eq!(
            refused(Product { segments: &segments, ..good }),
            "the right operand's pairs lie inside their slice"
        );
        let segments = [Segment { a: 0, b: PANEL, len: 1 }];
        assert_eq!(refused(Product { segments: &segments, ..good }), "a segment begins with a whole pair");
        let wide = Right { step: 2 * PANEL, ..good.b };
        assert_eq!(refused(Product { b: wide, ..good }), "rows of the right operand are as long as its panels");
        let apart = Left { step: 2, ..good.a };
        assert_eq!(refused(Product { a: apart, ..good }), "terms of the left operand are neighbours");
        let short = Left { numbers: &a[..14], ..good.a };
        assert_eq!(refused(Product { a: short, ..good }), "the left operand lies inside its slice");
        let (rows_apart, numbers) = (Left { row: 2, ..good.a }, [0.0; PANEL]);
        let both = Right { rounding: Rounding::Both, numbers: &numbers, ..good.b };
        let apart = Product { a: rows_apart, b: both, rows: 5, ..good };
        assert_eq!(refused(apart), "rows of the left operand are neighbours");
    });
}
