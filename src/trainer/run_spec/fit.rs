//! What a checkpoint or record has in common with the run that goes on from it or repeats it.

use pronk_rollout::{EnvSpec, NormalizerConfig};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::record::Replay;
use crate::trainer::networks::Networks;

/// The spec of an environment with the observations that its networks read. A run that goes on from before
/// bytes were scaled by their bounds, or repeats one, reads pixels (`Space::as_pixels`).
pub(super) fn as_networks_read(spec: EnvSpec, from: Option<&Checkpoint>, replay: Option<&Replay>) -> EnvSpec {
    let as_pixels = spec.observation.as_pixels();
    let reads_pixels =
        from.is_some_and(|from| from.observation == as_pixels) || replay.is_some_and(Replay::reads_pixels);
    if reads_pixels { EnvSpec { observation: as_pixels, ..spec } } else { spec }
}

/// Refuses a checkpoint of other spaces, normalisation or network, and names the difference.
pub(super) fn check_fits(
    spec: &EnvSpec,
    normalize: NormalizerConfig,
    networks: &Networks,
    checkpoint: &Checkpoint,
) -> Result<(), CheckpointError> {
    if checkpoint.observation != spec.observation {
        return Err(CheckpointError::DoesNotFit { what: "observation space" });
    }
    if checkpoint.action != spec.action {
        return Err(CheckpointError::DoesNotFit { what: "action space" });
    }
    check_normalized(normalize, checkpoint)?;
    networks.check_fits(checkpoint)
}

/// Weights trained on normalised data do not fit raw data, nor the other way round.
fn check_normalized(normalize: NormalizerConfig, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
    let theirs = &checkpoint.normalizer;
    if normalize.observations != theirs.observations.is_some() {
        return Err(CheckpointError::DoesNotFit { what: "`observation_filter`" });
    }
    if normalize.return_gamma.is_some() != theirs.returns.is_some() {
        return Err(CheckpointError::DoesNotFit { what: "`normalize_rewards`" });
    }
    Ok(())
}
