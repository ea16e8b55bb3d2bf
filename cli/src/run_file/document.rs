//! The settings in a TOML file, with their places.

use std::path::Path;

use serde_json::Value;
use toml::de::DeTable;

use super::entry::{Entry, Source, unknown};
use super::keys::{Found, Keys};
use super::{FileError, arguments};

/// The settings in the text of the file `path`, by their full paths.
pub(super) fn entries(path: &Path, text: &str, keys: &Keys) -> Result<Vec<Entry>, FileError> {
    let no_toml = |error| FileError::no_toml(path, text, &error);
    let values: toml::Table = text.parse().map_err(no_toml)?;
    if ["config", "parameters"].iter().all(|key| values.contains_key(*key)) {
        return Err(FileError::whole(path, "this is a sweep file: run it by `pronk sweep`".to_owned()));
    }
    let places = DeTable::parse(text).map_err(no_toml)?;
    let mut reader = Reader { path, text, keys, entries: Vec::new() };
    reader.table(&values, places.get_ref(), &mut Vec::new())?;
    Ok(reader.entries)
}

/// A value of a file as JSON, also a number that is not finite: only an argument of an environment may be
/// one.
///
/// # Errors
/// A date, which is no value of any setting, and which JSON cannot say.
pub(crate) fn json(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => arguments::number(number),
        toml::Value::Boolean(is) => is.into(),
        toml::Value::Datetime(date) => {
            return Err(format!("{date} is a date, which no setting is: for a text, put it in quotes, as \"{date}\""));
        }
        toml::Value::Array(list) => list.into_iter().map(json).collect::<Result<_, _>>()?,
        toml::Value::Table(table) => {
            let of_entry = |(key, value)| Ok((key, json(value)?));
            table.into_iter().map(of_entry).collect::<Result<_, String>>()?
        }
    })
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    keys: &'a Keys,
    entries: Vec<Entry>,
}

impl Reader<'_> {
    fn table(&mut self, values: &toml::Table, places: &DeTable<'_>, path: &mut Vec<String>) -> Result<(), FileError> {
        // In the order of the file, so that the first mistake is the first to be named.
        let mut places: Vec<_> = places.iter().collect();
        places.sort_by_key(|(key, _)| key.span().start);
        for (key, place) in places {
            let name: &str = key.get_ref();
            let Some(value) = values.get(name) else { continue };
            path.push(name.to_owned());
            let source = self.place(key.span().start);
            match (self.keys.find(path), value, place.get_ref()) {
                (Found::Table(_), toml::Value::Table(below), toml::de::DeValue::Table(places)) => {
                    self.choose(path, below, &source);
                    self.table(below, places, path)?;
                }
                (Found::Table(table), toml::Value::String(name), _) if table == ["algorithm"] => {
                    self.entries.push(Entry { key: table, value: name.as_str().into(), source });
                }
                (Found::Table(_), ..) => {
                    let reason = format!("`{}` is a table: write its keys below [{0}]", path.join("."));
                    return Err(FileError::Setting { place: source, reason });
                }
                (Found::Setting(key), ..) => match json(value.clone()) {
                    Ok(value) => self.setting(key, value, source)?,
                    Err(reason) => return Err(FileError::Setting { place: source, reason }),
                },
                (Found::Nothing { nearest }, ..) => return Err(unknown(&source, path, nearest)),
            }
            path.pop();
        }
        Ok(())
    }

    /// An empty table `[algorithm.ppo]` chooses PPO with its defaults.
    fn choose(&mut self, path: &[String], below: &toml::Table, source: &Source) {
        if below.is_empty() && path.len() == 2 && path[0] == "algorithm" {
            self.entries.push(Entry {
                key: path.to_owned(),
                value: Value::Object(Default::default()),
                source: source.clone(),
            });
        }
    }

    fn setting(&mut self, key: Vec<String>, value: Value, source: Source) -> Result<(), FileError> {
        if let Some(first) = self.entries.iter().find(|entry| entry.key == key) {
            let reason = format!("`{}` is given twice: it is at {} already", key.join("."), first.source);
            return Err(FileError::Setting { place: source, reason });
        }
        self.entries.push(Entry { key, value, source });
        Ok(())
    }

    fn place(&self, offset: usize) -> Source {
        Source::in_file(self.path, self.text, offset)
    }
}
