//! [`Parameter`]: a setting that a sweep varies, and the values that it may have.

use std::path::Path;

use pronk::Rng;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::run_file::{Entry, FileError, Source, json};

/// A setting that a sweep varies.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameter {
    /// Its path, as the file has it.
    key: Vec<String>,
    place: Source,
    range: Range,
}

/// The values of a setting.
#[derive(Clone, Debug, PartialEq)]
enum Range {
    /// One of these.
    Choice(Vec<Value>),
    /// Any number from the first up to the second.
    Uniform(f64, f64),
    /// The same, with a uniform logarithm.
    LogUniform(f64, f64),
    /// A whole number, from the first to the second, both included.
    IntUniform(i64, i64),
}

/// What may stand where a list of values does.
const RANGES: &str = "{ uniform = [LOW, HIGH] }, { log_uniform = [LOW, HIGH] }, { int_uniform = [LOW, HIGH] } or \
                      { choice = [VALUE, …] }";

impl Parameter {
    pub(super) fn name(&self) -> String {
        self.key.join(".")
    }

    /// Its values, for a search that tries each.
    ///
    /// # Errors
    /// A range, which has too many.
    pub(super) fn all(&self) -> Result<Vec<Entry>, FileError> {
        match &self.range {
            Range::Choice(values) => Ok(values.iter().map(|value| self.entry(value.clone())).collect()),
            _ => Err(self.wrong("is a range, and a grid tries every value: list them, or set search = \"random\"")),
        }
    }

    /// A value at random.
    pub(super) fn draw(&self, rng: &mut Rng) -> Entry {
        let value = match self.range {
            Range::Choice(ref values) => values[rng.below(values.len() as u64) as usize].clone(),
            Range::Uniform(low, high) => (low + (high - low) * rng.next_f64()).into(),
            // Rounding must not lead out of the range.
            Range::LogUniform(low, high) => {
                (low.ln() + (high.ln() - low.ln()) * rng.next_f64()).exp().clamp(low, high).into()
            }
            Range::IntUniform(low, high) => low.wrapping_add_unsigned(rng.below(high.abs_diff(low) + 1)).into(),
        };
        self.entry(value)
    }

    /// The error that something is wrong with the parameter.
    pub(super) fn wrong(&self, reason: &str) -> FileError {
        FileError::Setting { place: self.place.clone(), reason: format!("`{}` {reason}", self.name()) }
    }

    fn entry(&self, value: Value) -> Entry {
        Entry { key: self.key.clone(), value, source: self.place.clone() }
    }
}

/// The table `[parameters]` of the sweep file `path`, in the order of the file.
///
/// # Errors
/// The first one without a list or a range, and a range that is none.
pub(super) fn parameters(
    path: &Path,
    text: &str,
    values: &toml::Table,
    places: &DeTable<'_>,
) -> Result<Vec<Parameter>, FileError> {
    let mut reader = Reader { path, text, found: Vec::new() };
    reader.table(values, places, &[])?;
    Ok(reader.found)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    found: Vec<Parameter>,
}

impl Reader<'_> {
    fn table(&mut self, values: &toml::Table, places: &DeTable<'_>, above: &[String]) -> Result<(), FileError> {
        // In the order of the file, so that the first mistake is the first to be named.
        let mut places: Vec<_> = places.iter().collect();
        places.sort_by_key(|(key, _)| key.span().start);
        for (name, place) in places {
            let Some(value) = values.get(name.get_ref().as_ref()) else { continue };
            let key = [above, &name.get_ref().split('.').map(str::to_owned).collect::<Vec<_>>()].concat();
            let mut parameter =
                Parameter { key, place: self.place(name.span().start), range: Range::Choice(Vec::new()) };
            match (value, place.get_ref()) {
                // Keys with dots that are not quoted are tables too.
                (toml::Value::Table(below), DeValue::Table(places)) if !self.is_inline(place.span().start) => {
                    self.table(below, places, &parameter.key)?;
                    continue;
                }
                (toml::Value::Array(_), _) => parameter.range = choice(&parameter, value)?,
                (toml::Value::Table(written), _) => parameter.range = range(&parameter, written)?,
                _ => return Err(parameter.wrong(&format!("needs a list of values, or {RANGES}"))),
            }
            self.found.push(parameter);
        }
        Ok(())
    }

    fn is_inline(&self, offset: usize) -> bool {
        self.text.get(offset..).is_some_and(|text| text.starts_with('{'))
    }

    fn place(&self, offset: usize) -> Source {
        Source::in_file(self.path, self.text, offset)
    }
}

/// `{ NAME = … }`
fn range(parameter: &Parameter, written: &toml::Table) -> Result<Range, FileError> {
    let (Some((name, value)), 1) = (written.iter().next(), written.len()) else {
        return Err(parameter.wrong(&format!("needs one of {RANGES}")));
    };
    let needs = |what: &str| parameter.wrong(&format!("needs {what}, not {name} = {value}"));
    match name.as_str() {
        "choice" => choice(parameter, value),
        "uniform" | "log_uniform" => {
            let [low, high] = bounds(value, |bound| match *bound {
                toml::Value::Integer(bound) => Some(bound as f64),
                toml::Value::Float(bound) => Some(bound),
                _ => None,
            })
            .filter(|[low, high]| low < high && (high - low).is_finite())
            .ok_or_else(|| needs("two finite numbers [LOW, HIGH] with LOW < HIGH"))?;
            match name.as_str() {
                "uniform" => Ok(Range::Uniform(low, high)),
                _ if low > 0.0 => Ok(Range::LogUniform(low, high)),
                _ => Err(needs("bounds above 0, where logarithms are")),
            }
        }
        "int_uniform" => {
            let [low, high] = bounds(value, toml::Value::as_integer)
                .filter(|[low, high]| low <= high && high.abs_diff(*low) < u64::MAX)
                .ok_or_else(|| needs("two whole numbers [LOW, HIGH] with LOW ≤ HIGH"))?;
            Ok(Range::IntUniform(low, high))
        }
        _ => Err(parameter.wrong(&format!("cannot be `{name}`: write {RANGES}"))),
    }
}

fn choice(parameter: &Parameter, written: &toml::Value) -> Result<Range, FileError> {
    let values = written.as_array().ok_or_else(|| parameter.wrong("needs a list of values"))?;
    if values.is_empty() {
        return Err(parameter.wrong("has no values: list one at least, or leave it out"));
    }
    let values = values.iter().cloned().map(json).collect::<Result<_, _>>();
    Ok(Range::Choice(values.map_err(|reason| parameter.wrong(&format!("cannot have a value: {reason}")))?))
}

/// A list of two.
fn bounds<T: Copy>(value: &toml::Value, read: impl Fn(&toml::Value) -> Option<T>) -> Option<[T; 2]> {
    match value.as_array()?.as_slice() {
        [low, high] => Some([read(low)?, read(high)?]),
        _ => None,
    }
}
