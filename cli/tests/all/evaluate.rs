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

#[test]
fn episodes_that_do_not_end_are_ended_at_a_limit_which_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    let (status, _, errors) = pronk(folder, &["train", "config.toml", "--out", "run", "--quiet"]);
    assert_eq!(status, 0, "{errors}");
    // No pole falls within five steps.
    let short = ["evaluate", "run", "--episodes", "40", "--max-episode-steps", "5"];
    let (status, text, errors) = pronk(folder, &short);
    assert_eq!((status, &*errors), (0, ""), "no line of progress where there is no terminal");
    assert!(text.contains("return 5.00 ± 0.00 over 40 episodes of 5.0 steps"), "{text}");
    assert!(text.contains("40 of 40 episodes did not end by themselves"), "{text}");
    let (_, line, _) = pronk(folder, &[&short[..], &["--json"]].concat());
    assert_eq!(json(&line)["episodes_cut_short"], 40);
    let (_, text, _) = pronk(folder, &["evaluate", "run", "--episodes", "2"]);
    assert!(!text.contains("did not end"), "{text}");
    let (status, _, errors) = pronk(folder, &["evaluate", "run", "--max-episode-steps", "0"]);
    assert!(status == 2 && errors.contains("--max-episode-steps"), "{errors}");
}
