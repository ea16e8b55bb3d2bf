//! [`Entry`]: one setting, and where it was given.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;

use super::keys::{Found, Keys};
use super::write::toml;
use super::{FileError, document, is_table};

/// A setting as it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its full path.
    pub(crate) key: Vec<String>,
    pub(crate) value: Value,
    pub(crate) source: Source,
}

/// Where a setting was given.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// In a file, with line and column from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// By a flag, as it was written.
    Flag(String),
}

impl Source {
    /// Whether it is a place in the file `path`.
    pub(super) fn is_in(&self, path: &Path) -> bool {
        matches!(self, Self::File { path: file, .. } if file == path)
    }

    /// Whether one is by another flag than the other, such as `--seed` and `--set`.
    pub(super) fn is_unlike(&self, other: &Self) -> bool {
        let name = |source: &Self| match source {
            Self::Flag(flag) => flag.split(' ').next().map(str::to_owned),
            Self::File { .. } => None,
        };
        name(self) != name(other)
    }

    /// The byte at `offset` of the file `path` with this text.
    pub(crate) fn in_file(path: &Path, text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let (line, column) = (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
        Self::File { path: path.to_owned(), line, column }
    }
}

impl Entry {
    /// A setting that a flag of its own gives.
    pub(crate) fn flag(flag: &str, key: &str, value: Value) -> Self {
        let key = key.split('.').map(str::to_owned).collect();
        Self { key, source: Source::Flag(format!("{flag} {value}")), value }
    }

    /// With its full path, which a flag need not name.
    pub(super) fn resolved(self, keys: &Keys, algorithm: &str) -> Result<Self, FileError> {
        match keys.find_for_flag(&self.key, algorithm) {
            Found::Setting(key) => Ok(Self { key, ..self }),
            Found::Table(_) => {
                Err(self.at_fault(&format!("`{}` is a table: name one of its keys", self.key.join("."))))
            }
            Found::Nothing { nearest } => Err(unknown(&self.source, &self.key, nearest)),
        }
    }

    /// Whether `later` leaves nothing of it, because that is a table around it, or a key in what is no table.
    /// The name of an algorithm leaves its settings.
    pub(super) fn is_lost_to(&self, later: &Self) -> bool {
        let is_below = |one: &Self, other: &Self| one.key.len() > other.key.len() && one.key.starts_with(&other.key);
        let is_name = |entry: &Self| entry.key == ["algorithm"];
        let is_lost = is_below(self, later) || is_below(later, self) && !is_table(&self.value);
        is_lost && !is_name(self) && !is_name(later)
    }

    /// Whether it is an argument of the environment, which may be anything, or all of them, or its wrappers
    /// with theirs.
    pub(super) fn is_argument(&self) -> bool {
        ["kwargs", "wrappers"].iter().any(|options| self.key.starts_with(&["env_options", options].map(str::to_owned)))
    }

    /// Whether errors of the library call it so: by its last key, or by the end of its path.
    pub(super) fn is_called(&self, field: &str) -> bool {
        let path = self.key.join(".");
        path == field || path.ends_with(&format!(".{field}")) || field == "algorithm" && self.key[0] == field
    }

    /// Refuses values so deep in tables that the file which is written of them could not be read.
    pub(super) fn check_depth(&self) -> Result<(), FileError> {
        let depth = self.key.len() + depth(&self.value);
        if depth > DEEPEST {
            return Err(self.at_fault(&format!("it is {depth} tables and lists deep, and {DEEPEST} are read at most")));
        }
        Ok(())
    }

    /// The error that the setting cannot have its value.
    pub(super) fn wrong(&self, reason: &str) -> FileError {
        // The library names the setting too.
        let named = |end: &str| reason.find(end).map(|at| &reason[at + end.len()..]);
        let key = self.key.last().map_or("", String::as_str);
        let reason =
            match reason.strip_prefix(&format!("`{key}`")).or(reason.strip_prefix(&format!("`{}`", self.key[0]))) {
                Some(_) => named(": ").unwrap_or(reason),
                None => reason,
            };
        let (key, value, reason) = (self.key.join("."), shown(&self.value), in_words(reason));
        self.at_fault(&format!("invalid value for `{key}`: {value} ({reason})"))
    }

    /// The error that something is wrong with the setting.
    pub(super) fn at_fault(&self, reason: &str) -> FileError {
        FileError::Setting { place: self.source.clone(), reason: reason.to_owned() }
    }
}

/// Tables and lists in each other: a reader of TOML stops at some number.
const DEEPEST: usize = 32;

/// How many tables and lists are in each other.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        Value::Object(table) => 1 + table.values().map(depth).max().unwrap_or_default(),
        // What is none is a table in the file.
        Value::Null => 1,
        _ => 0,
    }
}

/// What the deserialiser expected, without the value again and without names of Rust types.
fn in_words(reason: &str) -> String {
    let begins = ["invalid type: ", "invalid value: ", "unknown variant "];
    let Some((_, expected)) =
        reason.split_once(", expected ").filter(|_| begins.iter().any(|it| reason.starts_with(it)))
    else {
        return reason.to_owned();
    };
    let expected = match expected {
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a boolean" => "true or false",
        "a string" => "a text",
        expected => expected,
    };
    format!("expected {expected}")
}

/// The error that there is no such setting.
pub(super) fn unknown(source: &Source, key: &[String], nearest: Option<String>) -> FileError {
    let hint = nearest.map_or_else(
        || "`pronk config ENV` prints a file with the usual keys".to_owned(),
        |nearest| format!("did you mean `{nearest}`?"),
    );
    FileError::Setting { place: source.clone(), reason: format!("unknown key `{}`: {hint}", key.join(".")) }
}

/// A value as it is written.
pub(crate) fn shown(value: &Value) -> String {
    if value.is_null() { "none".to_owned() } else { toml(value.clone()).to_string() }
}

/// `KEY=VALUE`, the value as in a file, or a text without quotes that cannot be mistaken for something else.
impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE, such as learner.lr=0.001")?;
        let key: Vec<String> = key.trim().split('.').map(|part| part.trim().to_owned()).collect();
        if key.iter().any(String::is_empty) {
            return Err("the key before `=` is empty, or a part of it".to_owned());
        }
        let value = match as_in_a_file(value) {
            Some(value) => document::json(value)?,
            None => text_alone(value.trim())?,
        };
        Ok(Self { key, value, source: Source::Flag(format!("--set {text}")) })
    }
}

/// The value that a text is in a file. Within a list it has no room for a comment after it.
fn as_in_a_file(text: &str) -> Option<toml::Value> {
    let table = format!("list = [{text}]").parse::<toml::Table>().ok().filter(|table| table.len() == 1)?;
    match table.get("list")?.as_array()?.as_slice() {
        [value] if !text.trim_end().ends_with(',') => Some(value.clone()),
        _ => None,
    }
}

/// A text that is no value of TOML.
///
/// # Errors
/// It was probably meant to be something else, which an environment would take it for: Python's `False` is
/// true as a text.
fn text_alone(text: &str) -> Result<Value, String> {
    let number = "a number as in TOML, such as 0.5, 1e6, inf or nan, whole ones from -2^63 to 2^63 - 1";
    let meant = match text.to_lowercase().as_str() {
        "none" if text == "none" => return Ok(Value::Null),
        "" => "a value after `=`",
        "true" => "true",
        "false" => "false",
        "none" | "null" | "nil" => "none",
        number_like if number_like.parse::<f64>().is_ok() => number,
        digits if digits.chars().all(|c| c.is_ascii_digit() || "+-_,.".contains(c)) => number,
        _ if text.starts_with(['"', '\'', '[', '{', '(']) => {
            "a text, a list or a table as in TOML, such as [1, 2], [\"a\"] or { a = 1 }"
        }
        _ => return Ok(text.into()),
    };
    Err(format!("`{text}` is no value: write {meant}, or for a text quotes as well: '{}'", shown(&text.into())))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}
