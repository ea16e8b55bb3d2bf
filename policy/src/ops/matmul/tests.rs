#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Matrix, add_product};
use crate::{PolicyError, Rng};

fn normals(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.normal() as f32).collect()
}

#[test]
fn every_shape_and_transpose_agrees_with_the_definition() {
    let mut rng = Rng::seed_from(1);
    // Sides around the widths of registers and of gemm's blocks, empty ones included.
    let sides = [0, 1, 3, 16, 17, 64, 100];
    for (m, n, k) in sides.iter().flat_map(|&m| sides.iter().flat_map(move |&n| sides.map(|k| (m, n, k)))) {
        let (a, b, start) = (normals(&mut rng, m * k), normals(&mut rng, k * n), normals(&mut rng, m * n + 2));
        let transpose = |xs: &[f32], rows: usize, columns: usize| -> Vec<f32> {
            (0..rows * columns).map(|i| xs[i % rows * columns + i / rows]).collect()
        };
        let (a_t, b_t) = (transpose(&a, m, k), transpose(&b, k, n));
        let a_views = [Matrix::new(&a, m, k).unwrap(), Matrix::new(&a_t, k, m).unwrap().transposed()];
        let b_views = [Matrix::new(&b, k, n).unwrap(), Matrix::new(&b_t, n, k).unwrap().transposed()];
        for (a_view, b_view) in a_views.iter().flat_map(|&a| b_views.map(|b| (a, b))) {
            // A number on either side of the product must stay as it was.
            let mut out = start.clone();
            add_product(&mut out[1..=m * n], a_view, b_view).unwrap();
            assert_eq!((out[0], out[m * n + 1]), (start[0], start[m * n + 1]), "{m} {n} {k}");
            for i in 0..m {
                for j in 0..n {
                    let sum: f64 = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j])).sum();
                    let at = 1 + i * n + j;
                    // 100 products of numbers of size one in f32.
                    let off = f64::from(out[at]) - f64::from(start[at]) - sum;
                    assert!(off.abs() < 1e-4, "{m} {n} {k} at {i} {j}: off by {off}");
                }
            }
        }
    }
}

#[test]
fn sides_that_do_not_fit_are_refused() {
    let six = [0.0; 6];
    assert!(matches!(Matrix::new(&six, 2, 2), Err(PolicyError::Length { expected: 4, got: 6, .. })));
    assert!(Matrix::new(&six, usize::MAX, 2).is_err());
    let (a, b) = (Matrix::new(&six, 2, 3).unwrap(), Matrix::new(&six, 2, 3).unwrap());
    assert!(add_product(&mut [0.0; 6], a, b).is_err());
    assert!(add_product(&mut [0.0; 3], a, b.transposed()).is_err());
    assert!(add_product(&mut [0.0; 4], a, b.transposed()).is_ok());
}

#[test]
fn nan_spreads_along_its_row() {
    let (a, b) = ([f32::NAN, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0]);
    let mut out = [0.0; 4];
    add_product(&mut out, Matrix::new(&a, 2, 2).unwrap(), Matrix::new(&b, 2, 2).unwrap()).unwrap();
    assert!(out[0].is_nan() && out[1].is_nan() && out[2..] == [1.0, 2.0], "{out:?}");
}
