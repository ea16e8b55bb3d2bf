//! What arguments are in Python.

use std::fs;

use serde_json::{Value, json};

use super::{gymnasium, object};

/// What an environment that is told these is told, in Python's words, and its error.
fn told(kwargs: Value, vars: &[(&str, &str)]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut kwargs = object(kwargs);
    kwargs.insert("file".to_owned(), folder.path().join("told").to_str().into());
    let mut envs = gymnasium("pronk_test_envs:Told-v0", kwargs.into());
    envs.program.vars.extend(vars.iter().map(|(name, value)| (name.into(), value.into())));
    let error = envs.env().err().unwrap().to_string();
    (fs::read_to_string(folder.path().join("told")).unwrap_or_default(), error)
}

#[test]
fn arguments_are_what_they_stand_for() {
    let cases = [
        (json!(false), "False"),
        (json!(null), "None"),
        (json!({ "none": true }), "None"),
        (json!("none"), "'none'"),
        (json!(3), "3"),
        (json!(3.0), "3.0"),
        (json!(i64::MIN), "-9223372036854775808"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!({ "float": "inf" }), "inf"),
        (json!([{ "a": [{ "float": "-inf" }] }, { "float": "nan" }]), "[{'a': [-inf]}, nan]"),
        (json!({ "env": "PRONK_TOLD" }), "'None'"),
        (json!({ "env": "PRONK_TOLD", "other": 1 }), "{'env': 'PRONK_TOLD', 'other': 1}"),
        (json!({ "literal": { "env": "PRONK_TOLD" } }), "{'env': 'PRONK_TOLD'}"),
        (json!({ "literal": { "env": { "float": "inf" } } }), "{'env': inf}"),
        (json!({ "literal": { "literal": {} } }), "{'literal': {}}"),
        (json!({ "float": "3", "none": false }), "{'float': '3', 'none': False}"),
        (json!({ "none": false }), "{'none': False}"),
        (json!({ "float": "3" }), "{'float': '3'}"),
    ];
    for (value, python) in cases {
        let (told, error) = told(json!({ "a": value }), &[("PRONK_TOLD", "None")]);
        assert_eq!(told, format!("{{'a': {python}}}"), "{value}: {error}");
    }
    // The names of arguments stand for nothing.
    assert_eq!(told(json!({ "env": "PRONK_TOLD" }), &[]).0, "{'env': 'PRONK_TOLD'}");
}

#[test]
fn a_variable_is_in_no_message_and_has_to_be_there() {
    let secret = "it's\\a\nsecret";
    let (of_one, error) = told(json!({ "a": [{ "env": "PRONK_TOLD" }] }), &[("PRONK_TOLD", secret)]);
    assert!(of_one.contains(r"\\a\nsecret"), "{of_one}");
    // `gymnasium.make` and the environment quote the arguments.
    assert!(error.contains("$PRONK_TOLD") && !error.contains("secret"), "{error}");
    let (of_none, error) = told(json!({ "a": { "env": "PRONK_NOT_SET" } }), &[]);
    assert!(of_none.is_empty() && error.contains("PRONK_NOT_SET is not set") && error.contains("literal"), "{error}");
}
