/// The first `n_chars` characters of `text`, with an ellipsis if there are more.
pub(super) fn shortened(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn characters_are_counted_and_never_cut() {
        assert_eq!((&*super::shortened("äöü", 2), &*super::shortened("äöü", 3)), ("äö…", "äöü"));
    }
}
