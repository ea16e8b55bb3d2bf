//! Tables of the terminal.

use comfy_table::{ContentArrangement, Table, presets};

/// A table with these heads, without lines, so that other programs can read it too.
pub(crate) fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads.iter().map(|head| head.to_uppercase()));
    table
}
