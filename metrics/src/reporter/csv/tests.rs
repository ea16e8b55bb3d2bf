#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use serde_json::json;

use super::*;

fn dict(leaves: &[(&str, Value)]) -> ResultDict {
    let mut result = ResultDict::new();
    leaves.iter().for_each(|(path, value)| result.set(path, value.clone()));
    result
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn each_result_is_a_row_on_disk_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/progress.csv");
    let mut table = Csv::create(&path).unwrap();
    for iteration in 1..=3 {
        table.report(&dict(&[("n", iteration.into()), ("is_odd", (iteration % 2 == 1).into())])).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written.lines().count(), 1 + iteration);
        assert_eq!(written.lines().last().unwrap(), format!("{iteration},{}", iteration % 2 == 1));
    }
    table.finish().unwrap();
}

#[test]
fn a_new_column_widens_the_file_and_keeps_every_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress.csv");
    let mut table = Csv::create(&path).unwrap();
    table.report(&dict(&[("a", 1.into()), ("b", 2.5.into())])).unwrap();
    table.report(&dict(&[("a", 3.into())])).unwrap();
    table.report(&dict(&[("c.d", 4.into()), ("a", 5.into()), ("e", false.into())])).unwrap();
    table.report(&dict(&[("b", 6.into()), ("f", 7.into())])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a,b,c/d,e,f\n1,2.5,,,\n3,,,,\n5,,4,false,\n,6,,,7\n");
    assert_eq!(files_in(folder.path()), 1);
}

#[test]
fn numbers_have_all_their_digits_and_what_is_none_is_an_empty_cell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress.csv");
    let mut table = Csv::create(&path).unwrap();
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut report = |values: [Value; 6]| {
        table.report(&dict(&names.into_iter().zip(values).collect::<Vec<_>>())).unwrap();
        fs::read_to_string(&path).unwrap().lines().last().unwrap().to_owned()
    };
    let exact = report([
        (1_u64 << 31).into(),
        ((1_u64 << 53) + 1).into(),
        u64::MAX.into(),
        i64::MIN.into(),
        (0.1 + 0.2).into(),
        f64::MIN_POSITIVE.into(),
    ]);
    assert_eq!(
        exact,
        "2147483648,9007199254740993,18446744073709551615,-9223372036854775808,\
         0.30000000000000004,2.2250738585072014e-308"
    );
    let none = report([1.into(), f64::NAN.into(), f64::INFINITY.into(), "text".into(), json!([1, 2]), json!({})]);
    assert_eq!(none, "1,,,,,");
}

#[test]
fn odd_names_are_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress.csv");
    let mut table = Csv::create(&path).unwrap();
    table.report(&dict(&[("say \"a,b\"", 1.into()), ("two\nlines", 2.into())])).unwrap();
    // The header ends on the second line of the file; widening must not take it for a row.
    table.report(&dict(&[("x", 3.into())])).unwrap();
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(written, "\"say \"\"a,b\"\"\",\"two\nlines\",x\n1,2,\n,,3\n");
}

#[test]
fn a_result_without_numbers_is_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress.csv");
    let mut table = Csv::create(&path).unwrap();
    table.report(&dict(&[("text", "text".into()), ("none", Value::Null)])).unwrap();
    table.report(&dict(&[("n", 1.into())])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "n\n1\n");
}

#[test]
fn nothing_is_lost_when_widening_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress.csv");
    let mut table = Csv::create(&path).unwrap();
    table.report(&dict(&[("a", 1.into())])).unwrap();
    // A folder stands where the wider file would grow.
    let in_the_way = folder.path().join("progress.csv.new");
    fs::create_dir(&in_the_way).unwrap();
    let error = table.report(&dict(&[("a", 2.into()), ("b", 2.into())])).unwrap_err().to_string();
    assert!(error.contains("csv") && error.contains(&*path.to_string_lossy()), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\n1\n");

    table.report(&dict(&[("a", 3.into())])).unwrap();
    fs::remove_dir(&in_the_way).unwrap();
    table.report(&dict(&[("b", 4.into())])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a,b\n1,\n3,\n,4\n");
}

#[cfg(target_os = "linux")]
#[test]
fn widening_goes_through_a_link_and_leaves_devices_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::write(&real, "of before").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mut table = Csv::create(&link).unwrap();
    table.report(&dict(&[("a", 1.into())])).unwrap();
    table.report(&dict(&[("b", 2.into())])).unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "a,b\n1,\n,2\n");

    let mut table = Csv::create("/dev/null").unwrap();
    table.report(&dict(&[("a", 1.into())])).unwrap();
    let error = table.report(&dict(&[("b", 2.into())])).unwrap_err().to_string();
    assert!(error.contains("/dev/null") && error.contains("regular file"), "{error}");
}

#[test]
fn errors_name_the_reporter_and_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("file");
    fs::write(&in_the_way, "").unwrap();
    let error = Csv::create(in_the_way.join("progress.csv")).unwrap_err().to_string();
    assert!(error.contains("csv") && error.contains(&*in_the_way.to_string_lossy()), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let mut table = Csv::create("/dev/full").unwrap();
    for _ in 0..2 {
        let error = table.report(&dict(&[("a", 1.into())])).unwrap_err().to_string();
        assert!(error.contains("csv") && error.contains("/dev/full"), "{error}");
    }
}
