//! Tables of the terminal.

use comfy_table::{ContentArrangement, Table, presets};
use pronk::metrics::format_return;

/// A table with these heads, without lines, so that other programs can read it too.
pub(crate) fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads.iter().map(|head| head.to_uppercase()));
    table
}

/// What stands for no value.
pub(crate) fn dash() -> String {
    "–".to_owned()
}

/// A return, or another number like it.
pub(crate) fn number(value: Option<f64>) -> String {
    value.map_or_else(dash, format_return)
}

/// A time in seconds.
pub(crate) fn secs(secs: f64) -> String {
    format!("{secs:.1} s")
}

/// A count with its thousands apart: 1,234,567.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
