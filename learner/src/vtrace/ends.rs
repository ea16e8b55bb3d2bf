//! Ends of episodes inside a batch.

use num_traits::Float;
use pronk_buffer::End;

use crate::ShapeError;

/// Rewards and discounts with the ends of episodes folded in.
///
/// The discount of every end is 0, since the next row belongs to the next episode. The last reward of a
/// truncated episode includes `gamma * V(final observation)`: this bootstraps its return, and V-trace stays a
/// recursion on plain slices.
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
    /// Computes both from `rewards` and `ends`, `[steps, columns]`, and the values of final observations with
    /// their `(step, column)`. Those of terminated episodes are not used.
    ///
    /// # Errors
    /// Different lengths, or a final value out of range.
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
