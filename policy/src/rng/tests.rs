#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Rng, derive_seed};

#[test]
fn the_numbers_of_a_seed_never_change() {
    // The first four are those of the reference implementation of xoshiro256++ seeded by SplitMix64 from 0.
    let mut rng = Rng::seed_from(0);
    let first = [(); 4].map(|()| rng.next_u64());
    assert_eq!(first, [0x5317_5d61_490b_23df, 0x61da_6f3d_c380_d507, 0x5c0f_df91_ec9a_7bfc, 0x02ee_bf8c_3bbe_5e1a]);
    assert_eq!(derive_seed(0, &[]), 0xe220_a839_7b1d_cdaf);
    assert_eq!(derive_seed(7, &[3, 0, 12]), 0xda2b_8441_e6c2_d6c2);
}

#[test]
fn a_saved_generator_goes_on_where_it_was() {
    let mut rng = Rng::stream(3, &[1, 2]);
    rng.normal();
    let mut restored: Rng = serde_json::from_str(&serde_json::to_string(&rng).unwrap()).unwrap();
    assert_eq!(restored, rng);
    assert_eq!([(); 9].map(|()| restored.next_u64()), [(); 9].map(|()| rng.next_u64()));
}

#[test]
fn every_path_has_a_seed_of_its_own() {
    let mut seeds = Vec::new();
    for seed in 0..8 {
        seeds.push(derive_seed(seed, &[]));
        for a in 0..8 {
            seeds.push(derive_seed(seed, &[a]));
            seeds.extend((0..8).map(|b| derive_seed(seed, &[a, b])));
        }
    }
    let count = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), count);
}

#[test]
fn neighbouring_streams_are_unrelated() {
    // Of 64 bits, unrelated numbers share 32 ± 4; the mean over 1,000 pairs is within 0.13 of 32 in two cases of three.
    for (a, b) in [([0, 0], [0, 1]), ([0, 1], [1, 0]), ([5, 0], [6, 0])] {
        let (mut a, mut b) = (Rng::stream(1, &a), Rng::stream(1, &b));
        let same: u32 = (0..1000).map(|_| (a.next_u64() ^ b.next_u64()).count_zeros()).sum();
        assert!((f64::from(same) / 1000.0 - 32.0).abs() < 0.6, "{same}");
    }
}

#[test]
fn uniforms_fill_the_interval_without_its_end() {
    let mut rng = Rng::seed_from(5);
    let singles: Vec<f64> = (0..20_000).map(|_| f64::from(rng.next_f32())).collect();
    let doubles: Vec<f64> = (0..20_000).map(|_| rng.next_f64()).collect();
    for xs in [singles, doubles] {
        assert!(xs.iter().all(|x| (0.0..1.0).contains(x)));
        // Mean 1/2 with a standard error of 0.002, variance 1/12.
        assert!((mean(&xs) - 0.5).abs() < 0.01);
        assert!((variance(&xs) - 1.0 / 12.0).abs() < 0.003);
    }
}

#[test]
fn normals_have_mean_zero_variance_one_and_normal_tails() {
    let mut rng = Rng::seed_from(6);
    let xs: Vec<f64> = (0..40_000).map(|_| rng.normal()).collect();
    assert!(mean(&xs).abs() < 0.02);
    assert!((variance(&xs) - 1.0).abs() < 0.03);
    let beyond_two = xs.iter().filter(|x| x.abs() > 2.0).count() as f64 / xs.len() as f64;
    assert!((beyond_two - 0.0455).abs() < 0.005, "{beyond_two}");
}

#[test]
fn below_reaches_every_number_equally_often() {
    let mut rng = Rng::seed_from(8);
    let mut counts = [0_u32; 7];
    for _ in 0..70_000 {
        counts[rng.below(7) as usize] += 1;
    }
    let chi_square: f64 = counts.iter().map(|&count| (f64::from(count) - 1e4).powi(2) / 1e4).sum();
    assert!(chi_square < 22.5, "p < 0.001 with 6 degrees of freedom: {counts:?}");
    assert_eq!((rng.below(0), rng.below(1)), (0, 0));
}

#[test]
fn below_is_even_where_the_range_does_not_divide_the_generators() {
    // Scaling 2^64 draws down to 3/4 of that hits every third number twice unless some draws are thrown away.
    let mut rng = Rng::seed_from(9);
    let thirds = (0..30_000).filter(|_| rng.below(3 << 62).is_multiple_of(3)).count();
    assert!((9_500..10_500).contains(&thirds), "{thirds} of 30,000");
}

fn mean(xs: &[f64]) -> f64 {
    xs.iter().sum::<f64>() / xs.len() as f64
}

fn variance(xs: &[f64]) -> f64 {
    let mean = mean(xs);
    xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / xs.len() as f64
}
