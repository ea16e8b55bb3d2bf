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
    fs::write(folder.path().join(FILE), info.to_string()).unwrap();
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
        fs::write(folder.path().join(FILE), info).unwrap();
        assert_eq!(RunState::of(folder.path()), state);
    }
}
