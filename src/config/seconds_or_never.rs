//! Durations as a number of seconds in config files, or the word `never`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

const NEVER: &str = "never";

#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Secs(f64),
    Word(String),
}

pub(super) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.serialize_f64(value.as_secs_f64()),
        None => serializer.serialize_str(NEVER),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    match Text::deserialize(deserializer)? {
        Text::Secs(secs) => Duration::try_from_secs_f64(secs)
            .map(Some)
            .map_err(|error| D::Error::custom(format!("{secs} is not a time in seconds: {error}"))),
        Text::Word(word) if word == NEVER => Ok(None),
        Text::Word(word) => Err(D::Error::custom(format!("`{word}` is neither a time in seconds nor \"{NEVER}\""))),
    }
}
