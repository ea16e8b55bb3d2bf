//! How the log of a run starts.

use super::entry::Header;
use super::error::RecordError;
use super::log::{Keeper, RunLog};
use super::options::Recording;
use super::recorder::Recorder;
use super::replay::Replay;

/// The log of a run with this header, which records it, or compares it with the record that it repeats.
pub(crate) fn start(
    header: Header,
    recording: Option<&Recording>,
    replay: Option<&Replay>,
) -> Result<RunLog, RecordError> {
    let weights = header.weights;
    let keeper = match (recording, replay) {
        (_, Some(replay)) => {
            replay.check(&header)?;
            Keeper::Verifies(replay.verifier())
        }
        (Some(recording), None) => {
            let header = Header { has_fragments: recording.has_fragments, ..header };
            Keeper::Records(Recorder::create(recording, &header)?)
        }
        (None, None) => Keeper::Nothing,
    };
    Ok(RunLog::new(weights, keeper))
}
