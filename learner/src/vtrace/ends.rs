//! How the end of an episode inside a batch enters the returns.

use num_traits::Float;
use pronk_buffer::End;

use crate::ShapeError;

/// Rewards and discounts in which the ends of episodes are already folded.
///
/// Every end cuts: the next row belongs to the next episode, so its discount is 0. A terminated episode is
/// worth nothing afterwards. A truncated one would have gone on, so `gamma * V(final observation)` joins its
/// last reward: the same return as bootstrapping there, and V-trace stays a recursion on plain slices.
///
/// # Example
/// ```
/// use pronk_buffer::End;
/// use pronk_learner::EpisodeEnds;
///
/// let mut folded = EpisodeEnds::default();
/// let ends = [End::No, End::Truncated];
/// folded.fold(0.5, 1, &[1.0, 1.0], &ends, [((1, 0), 8.0)])?;
/// assert_eq!(folded.rewards, [1.0, 1.0 + 0.5 * 8.0]);
/// assert_eq!(folded.discounts, [0.5, 0.0]);
/// # Ok::<(), pronk_learner::ShapeError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EpisodeEnds<F> {
    /// `[steps, columns]`.
    pub rewards: Vec<F>,
    /// `[steps, columns]`.
    pub discounts: Vec<F>,
}

impl<F: Float> EpisodeEnds<F> {
    /// Replaces what is held by `rewards` and `ends`, `[steps, columns]` both, and the values of final
    /// observations, each with its `(step, column)`. The value of a terminated episode's final observation is
    /// not used.
    ///
    /// # Errors
    /// When the lengths differ, or a final value points outside.
    pub fn fold(
        &mut self,
        gamma: F,
        columns: usize,
        rewards: &[F],
        ends: &[End],
        final_values: impl IntoIterator<Item = ((u32, u32), F)>,
    ) -> Result<(), ShapeError> {
        let steps = rewards.len().checked_div(columns).unwrap_or(0);
        ShapeError::check("rewards", rewards.len(), steps, columns)?;
        ShapeError::check("ends", ends.len(), steps, columns)?;
        self.rewards.clear();
        self.rewards.extend_from_slice(rewards);
        self.discounts.clear();
        self.discounts.extend(ends.iter().map(|end| if *end == End::No { gamma } else { F::zero() }));
        for ((t, b), value) in final_values {
            let (t, b) = (t as usize, b as usize);
            if t >= steps || b >= columns {
                return Err(ShapeError {
                    name: "final_obs",
                    shape: format!("step {t}, column {b} of [steps, columns] = [{steps}, {columns}]"),
                    expected: t * columns + b + 1,
                    got: rewards.len(),
                });
            }
            let i = t * columns + b;
            if ends[i] == End::Truncated {
                self.rewards[i] = self.rewards[i] + gamma * value;
            }
        }
        Ok(())
    }
}
