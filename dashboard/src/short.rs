//! Texts that are kept of every run, in bounded length: files of others say anything.

/// The maximal length of the name of an environment or algorithm.
pub(crate) const MAX_NAME_CHARS: usize = 200;

/// The maximal length of an error.
pub(crate) const MAX_ERROR_CHARS: usize = 2000;

/// The first characters of a text, with an ellipsis if there are more.
pub(crate) fn short(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
