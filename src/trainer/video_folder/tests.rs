use std::fs::File;
use std::time::{Duration, SystemTime};

use super::*;

/// Makes videos of evaluations at these env-steps, each an hour older than the one before it, as if the clock
/// had been set back.
fn folder(env_steps: &[u64]) -> (tempfile::TempDir, VideoFolder) {
    let dir = tempfile::tempdir().unwrap();
    for (hours, env_steps) in env_steps.iter().enumerate() {
        let file = File::create(dir.path().join(run_folder::video(*env_steps))).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(3600 * (100 - hours as u64))).unwrap();
    }
    let videos = VideoFolder::new(dir.path().to_owned());
    (dir, videos)
}

fn kept(dir: &tempfile::TempDir) -> Vec<u64> {
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<u64> = names.filter_map(|name| run_folder::video_env_steps(&name)).collect();
    kept.sort_unstable();
    kept
}

#[test]
fn the_newest_video_stays_whatever_the_clock_says() {
    let env_steps: Vec<u64> = (1..=11).map(|i| 1000 * i).collect();
    let (dir, videos) = folder(&env_steps);
    fs::write(dir.path().join("evaluation-7.png"), "").unwrap();
    videos.remove_old(11_000).unwrap();
    assert_eq!(kept(&dir), env_steps[1..]);
    assert!(dir.path().join("evaluation-7.png").exists(), "it is another's");
    videos.remove_old(11_000).unwrap();
    assert_eq!(kept(&dir), env_steps[1..]);
}

#[test]
fn a_resumed_run_keeps_its_own_videos_rather_than_those_that_the_killed_process_left_ahead_of_it() {
    // Killed at 12,000 and resumed at 6,500.
    let left: Vec<u64> = (3..=12).map(|i| 1000 * i).collect();
    let (dir, videos) = folder(&left);
    for env_steps in [7_100, 8_100] {
        File::create(dir.path().join(run_folder::video(env_steps))).unwrap();
        videos.remove_old(env_steps).unwrap();
    }
    assert_eq!(kept(&dir), [3000, 4000, 5000, 6000, 7000, 7100, 8100, 10_000, 11_000, 12_000]);
}
