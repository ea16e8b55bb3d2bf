//! The page: a template, the data as JSON, and the script that draws it.

use serde_json::Value;

use super::charts::{SCRIPT, STYLE, UPLOT_SCRIPT, UPLOT_STYLE};
use crate::history::RunHistory;

/// Lays out the report with the charts.
const REPORT: &str = include_str!("report.js");

/// The style of its page.
const REPORT_STYLE: &str = include_str!("report.css");

/// The whole page.
pub(super) fn page(history: &RunHistory, settings: &Value) -> String {
    let data = history.to_json(settings);
    let name: String = data["name"].as_str().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    let name = name.replace('&', "&amp;").replace('<', "&lt;");
    // Only these could end or confuse a script element; escaped they mean the same.
    let data = data.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<title>{name}</title>\n<style>\n{UPLOT_STYLE}\n{STYLE}{REPORT_STYLE}</style>\n</head>\n<body>\n\
         <noscript>This page draws itself with JavaScript; results.jsonl has the same figures.</noscript>\n\
         <main></main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{UPLOT_SCRIPT}</script>\n<script>\n{SCRIPT}{REPORT}</script>\n</body>\n</html>\n"
    )
}
