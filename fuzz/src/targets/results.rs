//! Results of a run, and the curves that pages draw of them.

use pronk::ResultDict;
use pronk::metrics::RunHistory;
use serde_json::{Value, json};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "results",
    promise: "Lines that are objects, and no others, are results and read back the same, and a page of all of them stays below a megabyte.",
    run,
};

/// Of a page of any number of results.
const LARGEST_PAGE: usize = 1 << 20;

fn run(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut history = RunHistory::default();
    let (mut settings, mut n_results) = (Value::Null, 0);
    for line in text.lines() {
        let result = ResultDict::from_json_line(line);
        let json = serde_json::from_str::<Value>(line).ok().filter(Value::is_object);
        assert_eq!(result.as_ref().map(|result| json!(result)), json, "{line}");
        let Some(result) = result else { continue };
        let written = result.to_json_line();
        assert_eq!(ResultDict::from_json_line(&written).as_ref(), Some(&result), "{written}");
        history.take(&result);
        n_results += 1;
        settings = result.get("config").cloned().unwrap_or(settings);
    }
    let page = history.to_json(&settings).to_string();
    assert!(page.len() <= LARGEST_PAGE, "a page of {} bytes from {} bytes", page.len(), bytes.len());
    drop(history.curves());
    n_results > 0
}
