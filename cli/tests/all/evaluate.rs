//! `pronk evaluate`.

use std::fs;

use super::sweep::CONFIG;
use super::{json, pronk};

#[test]
fn figures_are_of_episodes_that_the_run_has_not_evaluated_and_outlive_a_failed_video() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    let (status, _, errors) = pronk(folder, &["train", "config.toml", "--out", "run", "--quiet", "--seed", "3"]);
    assert_eq!(status, 0, "{errors}");
    let played = |seed: &[&str]| {
        let (status, line, errors) =
            pronk(folder, &[&["evaluate", "run", "--episodes", "9", "--json"][..], seed].concat());
        assert_eq!(status, 0, "{errors}");
        json(&line)["episode_returns"].as_array().unwrap().clone()
    };
    let default = played(&[]);
    assert_eq!((default.len(), &default), (9, &played(&[])), "equal by default, so that runs can be compared");
    // The evaluations of a run play the episodes of its seed, and most runs have the seed 0.
    assert!(["0", "3"].iter().all(|seed| played(&["--seed", seed]) != default), "{default:?}");
    let (_, help, _) = pronk(folder, &["evaluate", "--help"]);
    assert!(help.contains("[default: one that the evaluations of no run use"), "{help}");

    let (status, _, errors) = pronk(folder, &["evaluate", "run", "--episodes", "0"]);
    assert!(status == 2 && errors.contains("--episodes"), "{errors}");
    let no_png = ["evaluate", "run", "--episodes", "1", "--video", "videos/episode.mp4"];
    let (status, text, errors) = pronk(folder, &no_png);
    assert!(status == 2 && text.is_empty() && errors.contains("let videos/episode.mp4 end in .png"), "{errors}");
    let unwritable = ["evaluate", "run", "--episodes", "1", "--video", "config.toml/episode.png"];
    let (status, text, errors) = pronk(folder, &unwritable);
    assert!(text.contains(" over 1 episode of "), "{text}");
    assert!(status == 1 && errors.contains("config.toml/episode.png"), "{errors}");
}
