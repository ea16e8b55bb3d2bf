use super::*;

/// How far two numbers are apart, counted in the floats between them. Both have the same sign or are next to
/// zero.
fn ulps_apart(a: f64, b: f64) -> u64 {
    (a.to_bits() as i64 - b.to_bits() as i64).unsigned_abs()
}

/// Angles from `-limit` to `limit`, evenly.
fn angles(limit: f64, n: i32) -> impl Iterator<Item = f64> {
    (-n..=n).map(move |i| limit * f64::from(i) / f64::from(n))
}

#[test]
fn sine_and_cosine_of_small_angles_are_within_two_ulp_of_the_librarys() {
    // The angles of a pole that has not fallen, and twice as far again.
    for angle in angles(0.21, 400_000).chain(angles(0.78, 400_000)) {
        let (sin, cos) = sin_cos(angle);
        assert!(ulps_apart(sin, angle.sin()) <= 2, "sin {angle:e}: {sin:e}, not {:e}", angle.sin());
        assert!(ulps_apart(cos, angle.cos()) <= 2, "cos {angle:e}: {cos:e}, not {:e}", angle.cos());
    }
}

#[test]
fn sine_and_cosine_of_any_angle_that_is_reached_are_the_librarys_but_for_rounding() {
    for limit in [4.0, 30.0, 1000.0, 1e5] {
        for angle in angles(limit, 300_000) {
            let (sin, cos) = sin_cos(angle);
            assert!((sin - angle.sin()).abs() < 3e-16, "sin {angle:e}: {sin:e}, not {:e}", angle.sin());
            assert!((cos - angle.cos()).abs() < 3e-16, "cos {angle:e}: {cos:e}, not {:e}", angle.cos());
        }
    }
}

#[test]
fn multiples_of_a_quarter_turn_keep_sign_and_size() {
    for quarter in -1000..1000 {
        let angle = f64::from(quarter) * std::f64::consts::FRAC_PI_2;
        let (sin, cos) = sin_cos(angle);
        assert!((sin - angle.sin()).abs() < 3e-16 && (cos - angle.cos()).abs() < 3e-16, "quarter {quarter}");
    }
}

#[test]
fn what_is_no_angle_has_no_sine() {
    for angle in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (sin, cos) = sin_cos(angle);
        assert!(sin.is_nan() && cos.is_nan(), "{angle}");
    }
}
