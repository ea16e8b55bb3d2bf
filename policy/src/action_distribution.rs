use crate::distribution::{Distribution, GaussianConfig};
use crate::{Categorical, DiagGaussian, Gaussian, PolicyError, Space};

/// The distribution over an action space: [`Categorical`] for `Discrete` and `MultiDiscrete`,
/// [`DiagGaussian`] for `Box`.
///
/// The actions of a `Box` are on the policy's scale; [`ActionScale`](crate::ActionScale) maps them to the
/// bounds of the space.
///
/// ```
/// use pronk_policy::{ActionsMut, Rng, Space, distribution_for};
///
/// let distribution = distribution_for(&Space::discrete(2)?)?;
/// let (mut action, mut logp) = ([0], [0.0]);
/// distribution.sample(&[0.0, 100.0], &mut Rng::seed_from(0), ActionsMut::Discrete(&mut action), &mut logp)?;
/// assert_eq!((action, logp), ([1], [0.0]));
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub fn distribution_for(space: &Space) -> Result<Box<dyn Distribution>, PolicyError> {
    distribution_with(space, Gaussian::default())
}

/// The distribution over an action space, with this Gaussian for a `Box`.
///
/// ```
/// use pronk_policy::{Gaussian, Space, distribution_with};
///
/// let torques = Space::boxed(vec![-2.0; 3], vec![2.0; 3], vec![3])?;
/// assert_eq!(distribution_with(&torques, Gaussian::Squashed)?.dist_len(), torques.dist_len());
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub fn distribution_with(
    space: &Space,
    gaussian: impl Into<GaussianConfig>,
) -> Result<Box<dyn Distribution>, PolicyError> {
    space.check()?;
    Ok(match space {
        Space::Discrete { n } => Box::new(Categorical::new(*n)?),
        Space::MultiDiscrete { nvec } => Box::new(Categorical::multi(nvec)?),
        Space::Box { .. } => Box::new(DiagGaussian::new(space.act_len(), gaussian)?),
    })
}
