#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use super::*;

#[test]
fn a_process_that_has_ended_does_not_run_even_if_its_parent_has_not_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let process = u64::from(child.id());
    let machine = machine();
    let info =
        json!({"machine": machine, "process": process, "process_began": process_began(process), "outcome": null});
    fs::write(folder.path().join(RUN_INFO), info.to_string()).unwrap();
    assert_eq!(RunState::of(folder.path()), RunState::Running);

    child.kill().unwrap();
    let began = Instant::now();
    while RunState::of(folder.path()) == RunState::Running && began.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    assert_eq!(RunState::of(folder.path()), RunState::Killed);
    child.wait().unwrap();
}

#[test]
fn a_number_that_another_process_has_by_now_is_not_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let process = u64::from(std::process::id());
    let earlier = process_began(process).unwrap() - 1;
    let info = |began: u64, host: &str| {
        json!({"machine": {"host": host}, "process": process, "process_began": began, "outcome": null}).to_string()
    };
    let here = host().unwrap();
    for (info, state) in [
        (info(earlier, &here), RunState::Killed),
        (info(earlier + 1, &here), RunState::Running),
        // Of another machine nothing is known.
        (info(earlier, "elsewhere"), RunState::Running),
        ("no JSON".to_owned(), RunState::Unknown),
    ] {
        fs::write(folder.path().join(RUN_INFO), info).unwrap();
        assert_eq!(RunState::of(folder.path()), state);
    }
}

#[test]
fn a_full_disk_has_room_for_how_a_run_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RUN_INFO);
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    assert!(write_over(&path, "{}", full()).is_err(), "there is no file to write over");
    fs::write(&path, "{\"outcome\": null, \"began\": 1}").unwrap();
    for text in ["{\"outcome\": {\"failure\": \"a longer text, in the same block\"}}", "{}"] {
        write_over(&path, text, full()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let too_long = "x".repeat(1 << 20);
    assert!(write_over(&path, &too_long, full()).is_err_and(|error| error.kind() == io::ErrorKind::StorageFull));
    assert!(write_over(&path, "x", io::ErrorKind::PermissionDenied.into()).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
}

#[test]
fn every_start_of_a_run_is_kept_with_where_it_went_on() {
    let folder = tempfile::tempdir().unwrap();
    let begin = || RunInfo::begin(folder.path(), "CartPole-v1", 7).map(drop).unwrap();
    begin();
    let results = "{\"num_env_steps_sampled\":100}\n{\"num_env_steps_sampled\":250}\n";
    fs::write(folder.path().join(RESULTS), results).unwrap();
    begin();
    let info = RunInfo::read(folder.path()).unwrap();
    let from: Vec<_> = info["starts"].as_array().unwrap().iter().map(|start| start["from_env_steps"].clone()).collect();
    assert_eq!(from, [Value::Null, json!(250)]);
    assert_eq!(info["starts"][1]["began"], info["began"]);
    assert_eq!(info["starts"][1]["git_commit"], info["working_directory"]["git_commit"]);
    assert_eq!(info["working_directory"]["path"], json!(std::env::current_dir().unwrap()));
}
