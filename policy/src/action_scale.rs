//! Continuous actions in the bounds of an environment.

use num_traits::clamp;

use crate::Space;

/// Maps the actions of a policy to the bounds of an action space.
///
/// A policy learns actions on the scale [−1, 1]. [`ActionScale::to_env`] clamps each number there and maps it
/// to [low, high] if both are finite; a single finite bound clamps it. Batches and log-probabilities use
/// actions *before* scaling.
///
/// ```
/// use pronk_policy::{ActionScale, Space};
///
/// let space = Space::boxed(vec![0.0, -2.0], vec![10.0, f32::INFINITY], vec![2])?;
/// let mut actions = [0.0, 5.0, 7.0, -5.0];
/// ActionScale::new(&space).to_env(&mut actions);
/// assert_eq!(actions, [5.0, 5.0, 10.0, -2.0]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ActionScale {
    /// The bounds of each number; empty if there are none.
    bounds: Vec<(f32, f32)>,
}

impl ActionScale {
    /// The scale of an action space.
    pub fn new(space: &Space) -> Self {
        let bounds: Vec<_> = match space {
            Space::Discrete { .. } | Space::MultiDiscrete { .. } => Vec::new(),
            Space::Box { low, high, .. } => low.iter().copied().zip(high.iter().copied()).collect(),
        };
        let free = bounds.iter().all(|&bounds| bounds == (f32::NEG_INFINITY, f32::INFINITY));
        Self { bounds: if free { Vec::new() } else { bounds } }
    }

    /// Whether actions stay unchanged: indices, or numbers without bounds.
    pub fn is_identity(&self) -> bool {
        self.bounds.is_empty()
    }

    /// Maps every number to its bounds, in place. NaN stays NaN.
    ///
    /// *Shapes*: `actions` is `[rows, act_len]`.
    pub fn to_env(&self, actions: &mut [f32]) {
        // Without bounds there are no rows to cut.
        for row in actions.chunks_mut(self.bounds.len().max(1)) {
            row.iter_mut().zip(&self.bounds).for_each(|(number, &bounds)| *number = into_bounds(*number, bounds));
        }
    }
}

fn into_bounds(number: f32, (low, high): (f32, f32)) -> f32 {
    // Invalid spaces are refused elsewhere; NaN has no order.
    let in_order = low <= high;
    if !in_order {
        return number;
    }
    if low.is_infinite() || high.is_infinite() {
        return clamp(number, low, high);
    }
    // In double precision, because the distance of two floats need not be a float; as a weighted mean, which
    // is exact at both ends.
    let share = (f64::from(clamp(number, -1.0, 1.0)) + 1.0) / 2.0;
    let scaled = f64::from(low) * (1.0 - share) + f64::from(high) * share;
    clamp(scaled as f32, low, high)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const INF: f32 = f32::INFINITY;

    fn scaled(low: f32, high: f32, numbers: &[f32]) -> Vec<f32> {
        let mut numbers = numbers.to_vec();
        ActionScale::new(&Space::boxed(vec![low], vec![high], vec![1]).unwrap()).to_env(&mut numbers);
        numbers
    }

    #[test]
    fn finite_bounds_are_where_minus_one_and_one_go() {
        assert_eq!(scaled(-2.0, 6.0, &[-1.0, -0.5, 0.0, 1.0, 7.0, -INF]), [-2.0, 0.0, 2.0, 6.0, 6.0, -2.0]);
        assert_eq!(scaled(-1.0, 1.0, &[-1.5, 0.25]), [-1.0, 0.25]);
        assert_eq!(scaled(3.0, 3.0, &[-1.0, 0.3]), [3.0, 3.0]);
        assert_eq!(scaled(f32::MIN, f32::MAX, &[-1.0, 0.0, 0.5, 1.0]), [f32::MIN, 0.0, f32::MAX / 2.0, f32::MAX]);
    }

    #[test]
    fn a_single_bound_clamps_and_no_bound_leaves_alone() {
        assert_eq!(scaled(-2.0, INF, &[-9.0, -1.0, 0.5, 1e9]), [-2.0, -1.0, 0.5, 1e9]);
        assert_eq!(scaled(-INF, 0.5, &[-9.0, 3.0]), [-9.0, 0.5]);
        assert_eq!(scaled(-INF, INF, &[-9.0, 3.0]), [-9.0, 3.0]);
    }

    #[test]
    fn each_number_of_a_row_has_its_own_bounds() {
        let space = Space::boxed(vec![0.0, -INF, 1.0], vec![1.0, INF, INF], vec![3]).unwrap();
        let mut actions = [0.0, 7.0, 0.0, 1.0, -7.0, 3.0, -1.0, 9.0];
        ActionScale::new(&space).to_env(&mut actions);
        assert_eq!(actions, [0.5, 7.0, 1.0, 1.0, -7.0, 3.0, 0.0, 9.0], "the last row is cut short");
    }

    #[test]
    fn there_is_nothing_to_do_for_indices_and_for_numbers_without_any_bound() {
        let identity = |space: Space| ActionScale::new(&space).is_identity();
        assert!(identity(Space::discrete(3).unwrap()) && identity(Space::multi_discrete(vec![3]).unwrap()));
        assert!(identity(Space::boxed(vec![-INF; 2], vec![INF; 2], vec![2]).unwrap()));
        assert!(!identity(Space::boxed(vec![-INF, -1.0], vec![INF; 2], vec![2]).unwrap()));
        let mut numbers = [5.0];
        ActionScale::new(&Space::discrete(3).unwrap()).to_env(&mut numbers);
        assert_eq!(numbers, [5.0]);
    }

    #[test]
    fn nan_stays_nan() {
        for (low, high) in [(0.0, 1.0), (0.0, INF), (-INF, 0.0), (-INF, INF)] {
            assert!(scaled(low, high, &[f32::NAN])[0].is_nan());
        }
    }

    #[test]
    fn bounds_in_no_order_leave_numbers_alone() {
        for (low, high) in [(1.0, 0.0), (f32::NAN, 1.0)] {
            let mut numbers = [5.0];
            let dtype = crate::ObsDtype::F32;
            let scale = ActionScale::new(&Space::Box { low: vec![low], high: vec![high], shape: vec![1], dtype });
            scale.to_env(&mut numbers);
            assert_eq!(numbers, [5.0]);
        }
    }

    proptest! {
        #[test]
        fn what_comes_out_lies_within_the_bounds_and_in_order(a: f32, b: f32, x in -1.5_f32..1.5, y in -1.5_f32..1.5) {
            prop_assume!(a.is_finite() && b.is_finite());
            let (low, high) = (a.min(b), a.max(b));
            let got = scaled(low, high, &[x.min(y), x.max(y), -1.0, 1.0]);
            prop_assert!(low <= got[0] && got[0] <= got[1] && got[1] <= high);
            prop_assert_eq!((got[2], got[3]), (low, high));
        }
    }
}
