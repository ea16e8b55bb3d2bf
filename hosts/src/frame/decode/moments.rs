//! Whether moments can be merged into those of the run.

use std::borrow::Cow;

use pronk_metrics::{NormalizerMoments, RunningMoments};

use super::super::error::FrameError;
use super::super::expected::Expected;
use super::super::header::Moments;

/// Bounds that no fragment comes near, and within which no sum of counts or of squares overflows.
const MAX_ROWS: u64 = u32::MAX as u64;
const MAX_MEAN: f64 = 1e100;
const MAX_VARIANCE: f64 = 1e200;

/// Checks the moments of one fragment.
pub(super) fn check_moments(
    (observations, returns): Moments<'_>,
    expected: &Expected,
) -> Result<NormalizerMoments, FrameError> {
    // Only a single agent's observations are normalised: there is one policy.
    let obs_len = expected.policies.values().map(|policy| policy.shape().obs_len).max().unwrap_or(0);
    let obs_len = expected.normalizer.observations.then_some(obs_len);
    let return_len = expected.normalizer.return_gamma.map(|_| 1);
    Ok(NormalizerMoments {
        observations: check("observations", observations, obs_len)?,
        returns: check("returns", returns, return_len)?,
    })
}

/// `len` is the number of columns; `None` if the run does not normalise them.
fn check(
    what: &'static str,
    moments: Option<Cow<'_, RunningMoments>>,
    len: Option<usize>,
) -> Result<Option<RunningMoments>, FrameError> {
    let expected = || match len {
        Some(len) => format!("{len} columns of finite means and variances, of at most {MAX_ROWS} rows"),
        None => "none, because the run does not normalise them".to_owned(),
    };
    let refuse = |got: String| Err(FrameError::Moments { what, expected: expected(), got });
    match (moments, len) {
        (None, None) => Ok(None),
        (None, Some(_)) => refuse("missing".to_owned()),
        (Some(moments), None) => refuse(format!("of {} columns", moments.mean().len())),
        (Some(moments), Some(len)) if !are_small(&moments, len) => {
            refuse(format!("of {} columns and {} rows", moments.mean().len(), moments.count()))
        }
        (Some(moments), Some(_)) => Ok(Some(moments.into_owned())),
    }
}

fn are_small(moments: &RunningMoments, len: usize) -> bool {
    moments.is_of(len)
        && moments.count() <= MAX_ROWS
        && moments.mean().iter().all(|mean| mean.abs() <= MAX_MEAN)
        && moments.variance().iter().all(|variance| *variance <= MAX_VARIANCE)
}
