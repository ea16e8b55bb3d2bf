//! `pronk evaluate`.

use std::fs;
use std::path::Path;

use pronk::envs::CartPole;
use pronk::prelude::*;

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

/// A run of a program of one's own, which logs to `folder`.
fn logged<E: Env + 'static>(folder: &Path, env: fn() -> E) -> pronk::Run {
    let mut config = TrainerConfig { seed: 7, ..TrainerConfig::default() };
    config.workers.num_rollout_workers = 0;
    config.results.min_time_s_per_iteration = 0.0;
    // A schedule, beside which the program takes no `lr`.
    config.learner.lr_schedule = Some(pronk::Schedule::Constant(0.001));
    let builder = Trainer::builder(config).env(move |_: &EnvContext| env()).log_to(folder);
    builder.build().unwrap().run(StopWhen { iterations: Some(2), ..StopWhen::default() }).unwrap()
}

/// CartPole under a name that the program does not know.
struct Own(CartPole);

impl Env for Own {
    fn spec(&self) -> EnvSpec {
        EnvSpec { name: "Own-v0".to_owned(), ..self.0.spec() }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.0.step(action, obs)
    }
}

#[test]
fn a_run_of_another_program_is_known_by_what_it_has_logged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = logged(&folder.join("own"), || Own(CartPole::new()));
    let run = logged(&folder.join("known"), CartPole::new);
    let (status, line, errors) = pronk(folder, &["compare", "own", "known", "--json"]);
    assert_eq!((status, &*errors), (0, ""));
    let compared = json(&line);
    let of = |key: &str| compared["runs"].as_array().unwrap().iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("state"), ["finished", "finished"]);
    assert_eq!(of("env"), ["Own-v0", "CartPole-v1"]);
    assert_eq!((of("seed"), of("algorithm")), (vec![7.into(), 7.into()], vec!["impala".into(), "impala".into()]));

    // What is missing is said, with what to do.
    let (status, _, errors) = pronk(folder, &["evaluate", "known"]);
    assert!(status == 1 && errors.contains("known has no policy yet") && errors.contains("Run::save"), "{errors}");
    run.save(folder.join("known")).unwrap();
    own.save(folder.join("own")).unwrap();
    let (status, line, errors) = pronk(folder, &["evaluate", "known", "--episodes", "2", "--json"]);
    assert_eq!((status, json(&line)["episodes"].as_u64()), (0, Some(2)), "{errors}");
    assert!(errors.contains("CartPole-v1 is played as pronk makes it"), "{errors}");
    let (status, _, errors) = pronk(folder, &["evaluate", "own"]);
    assert!(status == 2 && errors.contains("there is no environment `Own-v0`"), "{errors}");
    assert!(errors.contains("evaluate the policy there") && errors.contains("own/config.toml"), "{errors}");
    fs::remove_file(folder.join("known/config.toml")).unwrap();
    let (status, _, errors) = pronk(folder, &["evaluate", "known"]);
    assert!(status == 1 && errors.contains("known/config.toml is missing"), "{errors}");

    // A file of the program's own in that place stays.
    fs::create_dir(folder.join("mine")).unwrap();
    fs::write(folder.join("mine/config.toml"), "mine = 1\n").unwrap();
    logged(&folder.join("mine"), CartPole::new);
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    let (status, _, errors) = pronk(folder, &["train", "config.toml", "--out", "mine", "--overwrite", "--quiet"]);
    assert!(status == 2 && errors.contains("mine/config.toml, which no run has written"), "{errors}");
    assert_eq!(fs::read_to_string(folder.join("mine/config.toml")).unwrap(), "mine = 1\n");
}

#[test]
fn a_run_of_another_folder_says_where_it_was_started() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = folder.path();
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    let (status, _, errors) = pronk(folder, &["train", "config.toml", "--out", "run", "--quiet"]);
    assert_eq!(status, 0, "{errors}");
    // As if it had been a run of this environment.
    let gripper = CONFIG.replace("CartPole-v1", "gymnasium:my_envs:Gripper-v0");
    fs::write(folder.join("run/config.toml"), format!("{gripper}env_options.python = \"venv/bin/python\"\n")).unwrap();
    let run = folder.join("run").display().to_string();
    let started = format!("the run was started in {}", folder.display());
    for command in [&["evaluate", &run][..], &["train", "--resume", &run]] {
        let (status, _, errors) = pronk(elsewhere.path(), command);
        assert!(status == 1 && errors.contains(&started) && errors.contains("cannot start"), "{command:?}: {errors}");
        let (_, _, errors) = pronk(folder, command);
        assert!(errors.contains("cannot start") && !errors.contains(&started), "{command:?}: {errors}");
    }
}

#[test]
fn the_settings_of_a_run_name_its_interpreter_from_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let gripper = CONFIG.replace("CartPole-v1", "gymnasium:my_envs:Gripper-v0");
    fs::write(folder.join("config.toml"), gripper).unwrap();
    let python = |python: &str| {
        let (_, _, errors) = pronk(folder, &["train", "config.toml", "--set", &format!("env_options.python={python}")]);
        errors
    };
    let absolute = folder.join("venv/bin/python").display().to_string();
    for relative in ["venv/bin/python", "./venv/bin/python"] {
        let errors = python(relative);
        assert!(errors.contains(&format!("cannot start `{absolute}`")), "{errors}");
    }
    assert!(python("no-such-python").contains("cannot start `no-such-python`"), "a name is looked up in PATH");
}
