use serde::Serialize;
use serde_json::{Map, Value};

/// The result of an iteration: an ordered tree of JSON values under RLlib's keys. Paths are keys joined with
/// dots; NaN and infinities become null.
///
/// ```
/// use pronk_metrics::ResultDict;
///
/// let mut result = ResultDict::new();
/// result.set("training_iteration", 3);
/// result.set("policy_lag.mean", 1.5);
/// result.set("episode_return_mean", f64::NAN);
/// assert_eq!(result.number("policy_lag.mean"), Some(1.5));
/// assert_eq!(
///     result.to_json_line(),
///     r#"{"training_iteration":3,"policy_lag":{"mean":1.5},"episode_return_mean":null}"#
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ResultDict(Map<String, Value>);

impl ResultDict {
    /// An empty dict.
    pub fn new() -> ResultDict {
        ResultDict::default()
    }

    /// A dict out of a line of JSON, as [`to_json_line`](Self::to_json_line) writes it; `None` if it is no
    /// object.
    pub fn from_json_line(line: &str) -> Option<ResultDict> {
        serde_json::from_str(line).ok().map(ResultDict)
    }

    /// Sets the value at `path` and makes the objects on the way, replacing values that are not objects.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) {
        set_in(&mut self.0, path, value.into());
    }

    /// The value at `path`.
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('.');
        let first = self.0.get(keys.next()?)?;
        keys.try_fold(first, |value, key| value.as_object()?.get(key))
    }

    /// The number at `path`.
    pub fn number(&self, path: &str) -> Option<f64> {
        self.get(path)?.as_f64()
    }

    /// The top-level keys, in order of insertion.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// All values that are not objects, with the keys of their paths, in order.
    ///
    /// ```
    /// # use pronk_metrics::ResultDict;
    /// let mut result = ResultDict::new();
    /// result.set("policy_lag.mean", 1.5);
    /// result.set("policy_lag.max", 4);
    /// let leaves = result.leaves();
    /// assert_eq!(leaves[1].0, ["policy_lag", "max"]);
    /// assert_eq!(leaves[1].1.as_u64(), Some(4));
    /// ```
    pub fn leaves(&self) -> Vec<(Vec<&str>, &Value)> {
        let mut leaves = Vec::new();
        add_leaves(&self.0, &mut Vec::new(), &mut leaves);
        leaves
    }

    /// The whole tree.
    pub fn as_json(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The whole tree as one line of JSON, without a line end.
    pub fn to_json_line(&self) -> String {
        // Serialising a JSON value to text cannot fail.
        Value::Object(self.0.clone()).to_string()
    }
}

fn add_leaves<'a>(object: &'a Map<String, Value>, way: &mut Vec<&'a str>, leaves: &mut Vec<(Vec<&'a str>, &'a Value)>) {
    for (key, value) in object {
        way.push(key);
        match value {
            Value::Object(inner) => add_leaves(inner, way, leaves),
            leaf => leaves.push((way.clone(), leaf)),
        }
        way.pop();
    }
}

fn set_in(object: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((key, rest)) = path.split_once('.') else {
        object.insert(path.to_owned(), value);
        return;
    };
    if let Some(Value::Object(inner)) = object.get_mut(key) {
        set_in(inner, rest, value);
    } else {
        let mut inner = Map::new();
        set_in(&mut inner, rest, value);
        object.insert(key.to_owned(), Value::Object(inner));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_stay_in_the_order_of_their_first_setting() {
        let mut dict = ResultDict::new();
        for path in ["z.b", "a", "z.a", "a"] {
            dict.set(path, 1);
        }
        assert_eq!(dict.keys().collect::<Vec<_>>(), ["z", "a"]);
        assert_eq!(dict.to_json_line(), r#"{"z":{"b":1,"a":1},"a":1}"#);
    }

    #[test]
    fn setting_below_a_value_replaces_it_by_an_object() {
        let mut dict = ResultDict::new();
        dict.set("info", 5);
        dict.set("info.learner.loss", 0.5);
        assert_eq!(dict.as_json()["info"], json!({"learner": {"loss": 0.5}}));
        dict.set("info", 6);
        assert_eq!(dict.number("info"), Some(6.0));
    }

    #[test]
    fn what_is_not_there_is_none() {
        let mut dict = ResultDict::new();
        dict.set("a.b", "text");
        dict.set("n", f64::INFINITY);
        assert_eq!(dict.get("a.c"), None);
        assert_eq!(dict.get("a.b.c"), None);
        assert_eq!(dict.get(""), None);
        assert_eq!(dict.number("a.b"), None);
        assert_eq!((dict.get("n"), dict.number("n")), (Some(&Value::Null), None));
    }

    #[test]
    fn odd_paths_set_odd_keys_and_nothing_else() {
        let mut dict = ResultDict::new();
        for path in ["", ".", "a.", ".b"] {
            dict.set(path, path);
        }
        for path in [".", "a.", ".b"] {
            assert_eq!(dict.get(path), Some(&json!(path)), "{path:?}");
        }
    }
}
