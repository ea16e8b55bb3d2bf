//! What programs take from the command line.

use super::finding::Finding;
use super::repo::Repo;

/// Types whose values may be negative.
const SIGNED: [&str; 7] = ["f32", "f64", "i8", "i16", "i32", "i64", "isize"];

/// Arguments of clap that would take a negative number for a flag.
pub(super) fn negative(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in repo.rust() {
        for (at, _) in source.code.match_indices("#[arg(") {
            let rest = &source.code[at..];
            let Some((attribute, field)) = rest.split_once(")]") else { continue };
            let Some((field, _)) = field.split_once('\n').and_then(|(_, field)| field.split_once('\n')) else {
                continue;
            };
            let is_signed = field.split(|c: char| !c.is_alphanumeric()).any(|word| SIGNED.contains(&word));
            if is_signed && !attribute.contains("allow_negative_numbers = true") {
                let line = 1 + source.code[..at].matches('\n').count();
                found.push(Finding::new(file, line, format!("`{}`", field.trim())));
            }
        }
    }
    found
}
