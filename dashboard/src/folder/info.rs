//! What `run.json` in the folder of a run says.

use std::io;

use pronk::RunState;
use serde_json::Value;

use super::open::Place;

/// 9999-12-31 23:59:59.
pub(super) const LAST_SECOND: u64 = 253_402_300_799;

/// What `run.json` in the folder of a run says, and the run's state by it; null and unknown without one.
///
/// # Errors
/// Why it cannot be read, in words.
pub(crate) fn run_info(folder: &Place) -> Result<(Value, RunState), String> {
    match folder.text("run.json") {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(info) => {
                let state = RunState::of_info(&info);
                Ok((info, state))
            }
            Err(_) => Err("run.json cannot be read: it is not JSON".to_owned()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Value::Null, RunState::Unknown)),
        Err(error) => Err(format!("run.json cannot be read: {error}")),
    }
}

/// When the run began, in seconds since 1970, as its `run.json` says; `None` also after the year 9999, which
/// a browser may fail to show.
pub(crate) fn began(info: &Value) -> Option<u64> {
    info["began"].as_u64().filter(|began| *began <= LAST_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_before_the_year_10000() {
        let of = |began: Value| super::began(&serde_json::json!({"began": began}));
        assert_eq!(of(LAST_SECOND.into()), Some(LAST_SECOND));
        for began in [(LAST_SECOND + 1).into(), u64::MAX.into(), (-1).into(), 1.5.into(), "2026".into(), Value::Null] {
            assert_eq!(of(began), None);
        }
    }
}
