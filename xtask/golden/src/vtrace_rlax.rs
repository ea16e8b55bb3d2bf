//! Runner of `vtrace_rlax.json`.

use serde_json::Value;

use crate::Recorder;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    r.no_runner_for_any(file, "not written yet");
}
