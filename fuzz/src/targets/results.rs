//! Results of a run, and the curves that pages draw of them.

use pronk::ResultDict;
use pronk::metrics::RunHistory;
use serde_json::Value;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "results",
    promise: "Lines that are results read back the same, and a page of all of them stays below a megabyte.",
    run,
};

/// Of a page of any number of results.
const LARGEST_PAGE: usize = 1 << 20;

fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut history = RunHistory::default();
    let mut settings = Value::Null;
    for result in text.lines().filter_map(ResultDict::from_json_line) {
        let written = result.to_json_line();
        assert_eq!(ResultDict::from_json_line(&written).as_ref(), Some(&result), "{written}");
        history.take(&result);
        settings = result.get("config").cloned().unwrap_or(settings);
    }
    let page = history.to_json(&settings).to_string();
    assert!(page.len() <= LARGEST_PAGE, "a page of {} bytes from {} bytes", page.len(), bytes.len());
    drop(history.curves());
}
