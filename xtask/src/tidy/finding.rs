use crate::tidy::repo::RepoFile;

/// Where a rule is broken, and by what.
pub(crate) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) what: String,
}

impl Finding {
    pub(super) fn new(file: &RepoFile, line: usize, what: impl Into<String>) -> Self {
        Self::at(&file.path, line, what)
    }

    pub(super) fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}
