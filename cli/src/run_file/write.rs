//! Writes settings as a file that reads back the same.

use serde_json::{Value, json};

use super::{RunFile, arguments};

impl RunFile {
    /// All settings, as TOML.
    ///
    /// # Errors
    /// The environment's own arguments hold what TOML cannot, which no file or flag can say.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(&toml(self.to_json()))
    }

    /// All settings, as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut file = json!({
            "env": self.env,
            "env_options": self.env_options,
            "multi_agent": self.multi_agent,
            "stop": self.stop,
            "log": self.log,
        });
        if let (Value::Object(file), Ok(Value::Object(mut config))) = (&mut file, serde_json::to_value(&self.config)) {
            // Beside a schedule it has no effect, and would be refused.
            if self.config.learner.lr_schedule.is_some()
                && let Some(Value::Object(learner)) = config.get_mut("learner")
            {
                learner.remove("lr");
            }
            file.extend(config);
        }
        file
    }
}

/// A setting as TOML, which has no null: `"none"` stands for it.
pub(super) fn toml(value: Value) -> toml::Value {
    match value {
        Value::Null => "none".into(),
        Value::Bool(is) => is.into(),
        Value::String(text) => text.into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            // Whole numbers of TOML end at 2⁶³ − 1, and seeds later.
            None if number.is_u64() => number.to_string().into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::Array(list) => toml::Value::Array(list.into_iter().map(toml).collect()),
        Value::Object(table) => match arguments::not_finite(&table) {
            Some(number) => number.into(),
            None => toml::Value::Table(table.into_iter().map(|(key, value)| (key, toml(value))).collect()),
        },
    }
}
