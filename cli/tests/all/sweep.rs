//! `pronk sweep`.

mod interrupted;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{json, pronk};

/// CartPole without worker threads: the same seed is the same run, however busy the machine is.
pub(super) const CONFIG: &str = r#"
env = "CartPole-v1"
stop.env_steps = 2_000
workers = { num_rollout_workers = 0, num_envs_per_worker = 8, rollout_fragment_length = 20 }
learner = { train_batch_size = 160, lr = 0.001 }
model.fcnet_hiddens = [8]
results.min_time_s_per_iteration = 0
"#;

/// A folder with the config, and a sweep file with this text after `config = …`.
fn folder(sweep: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
    write_sweep(folder.path(), sweep);
    folder
}

fn write_sweep(folder: &Path, sweep: &str) {
    fs::write(folder.join("sweep.toml"), format!("config = \"config.toml\"\n{sweep}")).unwrap();
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// `FILE` of each trial that has one, by the name of its folder.
fn of_trials(sweep: &Path, file: &str) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(sweep) else { return BTreeMap::new() };
    let read = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(path.join(file)).ok()?;
        Some((path.file_name().unwrap().to_str().unwrap().to_owned(), text))
    });
    read.collect()
}

/// The env-steps and the mean return of each result.
fn results(trial: &Path) -> Vec<(u64, Option<f64>)> {
    let text = fs::read_to_string(trial.join("results.jsonl")).unwrap();
    let results: Vec<Value> = text.lines().map(json).collect();
    let iterations: Vec<u64> = results.iter().map(|result| result["training_iteration"].as_u64().unwrap()).collect();
    assert_eq!(iterations, (1..=iterations.len() as u64).collect::<Vec<_>>(), "no gap and no repeat");
    let figures =
        |result: &Value| (result["num_env_steps_sampled"].as_u64().unwrap(), result["episode_return_mean"].as_f64());
    results.iter().map(figures).collect()
}

fn ended(sweep: &Path) -> Vec<String> {
    let outcomes = of_trials(sweep, "run.json").into_iter();
    let has_ended = |text: &str| {
        let info: Value = serde_json::from_str(text).unwrap();
        info["outcome"]["reason"] == "env_steps"
    };
    outcomes.filter(|(_, text)| has_ended(text)).map(|(name, _)| name).collect()
}

const GRID: &str = r#"
seeds = [1, 2]
[parameters]
"learner.lr" = [1e-6, 0.01]
"model.fcnet_hiddens" = [[8], [8, 8]]
"#;

#[test]
fn a_grid_runs_each_combination_with_each_seed_and_nothing_again() {
    let folder = folder(GRID);
    let folder = folder.path();
    let args = ["sweep", "sweep.toml", "--out", "out", "--jobs", "3"];
    let (status, line, errors) = pronk(folder, &[&args[..], &["--json"]].concat());
    assert_eq!((status, errors.as_str()), (0, ""), "{line}");
    let sweep = json(&line);
    let trials = sweep["trials"].as_array().unwrap();
    assert_eq!((trials.len(), &sweep["failed"]), (4, &Value::from(0)));
    let value = |trial: &Value| trial["value"].as_f64().unwrap();
    assert!(trials.windows(2).all(|two| value(&two[0]) >= value(&two[1])), "the best first: {line}");
    for trial in trials {
        let runs = trial["runs"].as_array().unwrap();
        let values: Vec<f64> = runs.iter().map(|run| run["value"].as_f64().unwrap()).collect();
        assert_eq!(value(trial), (values[0] + values[1]) / 2.0);
        for run in runs {
            let of_run = folder.join(run["folder"].as_str().unwrap());
            assert_eq!(results(&of_run).last().unwrap().1, run["value"].as_f64());
        }
    }

    let described = of_trials(&folder.join("out"), "trial.json");
    assert_eq!(described.len(), 8);
    let expected: Value = serde_json::from_str(
        r#"{"parameters": {"learner.lr": 1e-6, "model.fcnet_hiddens": [8, 8]}, "seed": 2, "trial": 2, "rung": 0}"#,
    )
    .unwrap();
    assert_eq!(read_json(&folder.join("out/trial-0002-s2/trial.json")), expected);
    let config = fs::read_to_string(folder.join("out/trial-0002-s2/config.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    assert_eq!((config["seed"].as_integer(), config["learner"]["lr"].as_float()), (Some(2), Some(1e-6)));

    let before = of_trials(&folder.join("out"), "run.json");
    let (status, table, errors) = pronk(folder, &args);
    assert_eq!(status, 0, "{errors}");
    assert_eq!(of_trials(&folder.join("out"), "run.json"), before, "a run that has ended is not started again");
    assert!(!errors.contains("trial-0001"), "{errors}");
    let heads = table.lines().nth(1).unwrap();
    for head in ["TRIAL", "LEARNER.LR", "MODEL.FCNET_HIDDENS", "ENV-STEPS", "MEAN", "MEDIAN", "LOWEST", "STATE"] {
        assert!(heads.contains(head), "{table}");
    }
    assert_eq!(table.matches(" ended").count(), 4, "{table}");
    let (status, text, _) = pronk(folder, &["compare", "out/trial-0001-s1", "out/trial-0001-s2"]);
    assert!(status == 0 && text.contains("GROUP"), "its folders are those of runs: {text}");
}

#[test]
fn without_out_a_sweep_has_a_folder_of_its_own_and_shows_each_run() {
    let folder = folder("[parameters]\nlearner.lr = [0.01, 0.02]");
    let (status, table, errors) = pronk(folder.path(), &["sweep", "sweep.toml", "--jobs", "1"]);
    assert_eq!(status, 0, "{errors}");
    let line = errors.lines().find(|line| line.starts_with("1/2 trial-0001-s0 (learner.lr=0.01): ")).unwrap();
    assert!(errors.contains("\n2/2 trial-0002-s0 (learner.lr=0.02): "), "{errors}");
    assert!(line.contains("episode_return_mean") && line.contains("env-steps in"), "{line}");
    assert!(table.contains("sweeps/2"), "{table}");
    assert!(folder.path().join("sweeps/latest/trial-0001-s0/report.html").exists());
}

#[test]
fn a_run_that_runs_out_before_its_rung_has_not_completed_it_and_is_not_started_again() {
    let sweep = "search = \"asha\"\ntrials = 3\nasha = { min_env_steps = 300, max_env_steps = 600, reduction = 2 }\n\
                 [parameters]\nstop.iterations = [1, 3]";
    let folder = folder(sweep);
    let args = ["sweep", "sweep.toml", "--out", "out", "--json"];
    for _ in 0..2 {
        let (status, line, errors) = pronk(folder.path(), &args);
        assert_eq!(status, 0, "{line}{errors}");
        let sweep = json(&line);
        let mut n_ran_out = 0;
        for trial in sweep["trials"].as_array().unwrap() {
            let (run, value) = (&trial["runs"][0], trial["value"].as_f64());
            let env_steps = run["env_steps"].as_u64().unwrap();
            // An iteration has 160 env-steps, so one does not come to a rung, and three come to the first.
            let n_iterations = trial["parameters"]["stop.iterations"].as_u64().unwrap();
            let rung = (n_iterations == 3).then_some(0);
            assert_eq!((trial["rung"].as_u64(), value.is_some()), (rung, rung.is_some()), "{trial}");
            assert!(env_steps < 600, "{trial}");
            n_ran_out += usize::from(run["state"] == "ran out");
        }
        assert!(n_ran_out > 0, "{line}");
    }
    for (trial, info) in of_trials(&folder.path().join("out"), "run.json") {
        let info: Value = serde_json::from_str(&info).unwrap();
        let starts = info["starts"].as_array().unwrap().len();
        assert!(starts <= 2, "{trial}: {info}");
    }
}

#[test]
fn a_statistic_that_the_algorithm_does_not_have_ends_the_sweep_at_the_first_result() {
    let stat = |name: &str| format!("info.learner.default_policy.learner_stats.{name}");
    // Runs that would go on for days.
    let sweep = |name: &str| {
        let metric = stat(name);
        format!("metric = \"{metric}\"\n[parameters]\nstop.env_steps = [1_000_000_000_000]\nlearner.lr = [0.1, 0.2]")
    };
    let folder = folder(&sweep("entrophy"));
    let (status, text, errors) = pronk(folder.path(), &["sweep", "sweep.toml", "--jobs", "1"]);
    assert_eq!(status, 2, "{text}{errors}");
    let nearest = stat("entropy");
    assert!(errors.contains("sweep.toml:2:10:") && errors.contains(&format!("did you mean `{nearest}`?")), "{errors}");
}

const RANDOM: &str = r#"
search = "random"
trials = 20
seed = 7
[parameters]
"learner.lr" = { log_uniform = [1e-5, 1e-2] }
"learner.num_sgd_iter" = { int_uniform = [1, 3] }
algorithm = ["impala", "ppo"]
"#;

#[test]
fn random_points_are_the_same_twice_and_depend_on_seed_and_number() {
    let folder = folder(RANDOM);
    let list = || {
        let (status, line, errors) = pronk(folder.path(), &["sweep", "sweep.toml", "--dry-run", "--json"]);
        assert_eq!(status, 0, "{errors}");
        json(&line)["trials"].as_array().unwrap().clone()
    };
    let points = list();
    assert_eq!(points, list());
    let lrs: Vec<f64> = points.iter().map(|point| point["parameters"]["learner.lr"].as_f64().unwrap()).collect();
    assert!(lrs.iter().all(|lr| (1e-5..=1e-2).contains(lr)), "{lrs:?}");
    assert!(lrs.iter().any(|&lr| lr < 1e-4) && lrs.iter().any(|&lr| lr > 1e-3), "{lrs:?}");
    write_sweep(folder.path(), &RANDOM.replace("trials = 20", "trials = 30"));
    assert_eq!(points, list()[..20], "more trials are more points, and no other ones");
    write_sweep(folder.path(), &RANDOM.replace("seed = 7", "seed = 8"));
    assert!(points.iter().zip(list()).all(|(point, other)| point["parameters"] != other["parameters"]));
    assert!(!folder.path().join("sweeps").exists(), "a list makes no folder");
}

#[test]
fn asha_trains_the_best_further() {
    let folder = folder(
        "search = \"asha\"\ntrials = 8\nasha = { min_env_steps = \"1k\", max_env_steps = 4000, reduction = 2 }\n\
         [parameters]\nlearner.lr = { log_uniform = [1e-5, 1e-1] }",
    );
    let out = folder.path().join("out");
    let (status, line, errors) = pronk(folder.path(), &["sweep", "sweep.toml", "--out", "out", "--json"]);
    assert_eq!(status, 0, "{errors}");
    let trials = json(&line)["trials"].as_array().unwrap().clone();
    let (mut rungs, mut at_first) = ([0; 3], Vec::new());
    for number in 1..=8 {
        let trial = out.join(format!("trial-{number:04}-s0"));
        let rung = read_json(&trial.join("trial.json"))["rung"].as_u64().unwrap() as usize;
        let results = results(&trial);
        let (env_steps, value) = *results.last().unwrap();
        assert!((1000 << rung..2000 << rung).contains(&env_steps), "{trial:?} at rung {rung}: {env_steps}");
        let shown = trials.iter().find(|shown| shown["trial"] == number).unwrap();
        // Of the result that ended the rung, which is the last one.
        assert_eq!((shown["rung"].as_u64(), shown["value"].as_f64()), (Some(rung as u64), value), "{shown}");
        let is_resumed = fs::read_to_string(trial.join("run.json")).unwrap().contains("--resume");
        assert_eq!(is_resumed, rung > 0, "{trial:?} goes on from its checkpoint");
        at_first.push((results.iter().find(|(env_steps, _)| *env_steps >= 1000).unwrap().1.unwrap(), rung));
        rungs[..=rung].iter_mut().for_each(|n| *n += 1);
    }
    let shown: Vec<_> = trials.iter().map(|trial| (trial["rung"].as_u64(), trial["value"].as_f64())).collect();
    assert!(shown.is_sorted_by(|a, b| a >= b), "the highest rung first, and the best of each: {shown:?}");
    assert!(rungs[0] == 8 && rungs[1] >= 4 && rungs[2] >= 2, "{rungs:?}");
    at_first.sort_by(|a, b| b.0.total_cmp(&a.0));
    assert!(at_first[..4].iter().all(|(_, rung)| *rung > 0), "the upper half goes on: {at_first:?}");

    let before = of_trials(&out, "run.json");
    let (status, table, _) = pronk(folder.path(), &["sweep", "sweep.toml", "--out", "out", "--quiet"]);
    assert!(status == 0 && table.lines().nth(1).unwrap().contains(" RUNG "), "{table}");
    assert_eq!(of_trials(&out, "run.json"), before);
}

#[test]
fn with_the_mode_min_the_lowest_value_is_the_best() {
    let folder =
        folder("metric = \"num_env_steps_sampled\"\nmode = \"min\"\n[parameters]\nstop.env_steps = [2000, 1000]");
    let (status, line, errors) = pronk(folder.path(), &["sweep", "sweep.toml", "--json"]);
    assert_eq!(status, 0, "{errors}");
    let trials = json(&line)["trials"].clone();
    assert!(trials[0]["value"].as_f64() < trials[1]["value"].as_f64(), "{line}");
    assert_eq!(trials[0]["parameters"]["stop.env_steps"], 1000);
}

#[test]
fn a_run_that_reaches_its_target_is_promoted_without_another_process() {
    let folder = folder(
        "search = \"asha\"\ntrials = 2\nasha = { min_env_steps = 4000, max_env_steps = 16000, reduction = 2 }\n\
         [parameters]\nstop.episode_return_mean = [5]",
    );
    let (status, line, errors) =
        pronk(folder.path(), &["sweep", "sweep.toml", "--out", "out", "--jobs", "1", "--json"]);
    assert_eq!(status, 0, "{errors}");
    for trial in json(&line)["trials"].as_array().unwrap() {
        assert!(trial["runs"][0]["state"] == "ended" && trial["value"].as_f64() > Some(5.0), "{line}");
        let info = read_json(&folder.path().join(trial["runs"][0]["folder"].as_str().unwrap()).join("run.json"));
        assert_eq!(info["outcome"]["reason"], "return_reached");
        assert!(info["command"].as_array().unwrap().iter().all(|arg| arg != "--resume"), "{info}");
    }
}

#[test]
fn a_run_that_fails_does_not_end_the_sweep_and_is_named() {
    // There is no such device.
    let folder = folder("[parameters]\nlearner.devices = [[\"cuda:0\"], [\"cpu\"]]");
    let (status, table, errors) = pronk(folder.path(), &["sweep", "sweep.toml", "--out", "out"]);
    assert_eq!(status, 1, "{errors}");
    assert!(errors.contains("trial-0001-s0 (learner.devices=[\"cuda:0\"]): failed: "), "{errors}");
    assert!(table.contains("out/trial-0001-s0: ") && table.contains("cuda"), "{table}");
    let best = table.lines().nth(2).unwrap();
    assert!(best.contains("[\"cpu\"]") && best.trim_end().ends_with("ended"), "{table}");

    // It is tried again, as its process did not come to say how the run ended; a metric that is nowhere is a
    // failure, such as that of a thread that the run does not have.
    let (_, line, _) = pronk(folder.path(), &["sweep", "sweep.toml", "--out", "out", "--json"]);
    assert_eq!(json(&line)["failed"], 1);
    let metric = "ledger.time.rollout-99.wall_secs";
    write_sweep(folder.path(), &format!("metric = \"{metric}\"\n[parameters]\nlearner.lr = [0.1]"));
    let (status, table, _) = pronk(folder.path(), &["sweep", "sweep.toml", "--quiet"]);
    assert!(status == 1 && table.contains(&format!("none of its results has `{metric}`")), "{table}");
}

#[test]
fn what_a_sweep_cannot_be_is_refused_before_the_first_process() {
    let folder = folder("");
    let folder = folder.path();
    fs::create_dir(folder.join("other")).unwrap();
    fs::write(folder.join("other/notes.txt"), "").unwrap();
    fs::write(folder.join("endless.toml"), "env = \"CartPole-v1\"\nstop.episode_return_mean = 475").unwrap();
    let lr = "[parameters]\n\"learner.lr\" = [0.1]";
    let asha = "search = \"asha\"\ntrials = 4\n[asha]\nmin_env_steps = 100\nmax_env_steps = ";
    let cases: &[(&str, &[&str])] = &[
        ("[parameters]\n\"learner.lrr\" = [1]", &["sweep.toml:3:1: unknown key `learner.lrr`", "`learner.lr`?"]),
        ("[parameters]\nlearner.lr = [0.1, \"fast\"]", &["sweep.toml:3:9: invalid value for `learner.lr`: \"fast\""]),
        ("[parameters]\n\"learner.lr\" = []", &["sweep.toml:3:1: `learner.lr` has no values"]),
        ("[parameters]\n\"learner.lr\" = 0.1", &["sweep.toml:3:1: `learner.lr` needs a list of values, or {"]),
        (
            "[parameters]\n\"learner.lr\" = { uniform = [0.1, 0.2] }",
            &["sweep.toml:3:1: `learner.lr` is a range", "random"],
        ),
        (
            "[parameters]\n\"learner.lr\" = { loguniform = [0.1, 0.2] }",
            &["sweep.toml:3:1:", "`loguniform`", "log_uniform"],
        ),
        ("[parameters]\n\"learner.lr\" = { uniform = [0.2, 0.1] }", &["sweep.toml:3:1:", "LOW < HIGH"]),
        ("[parameters]\n\"learner.lr\" = { log_uniform = [0, 0.1] }", &["sweep.toml:3:1:", "above 0"]),
        ("[parameters]\n\"learner.lr\" = { int_uniform = [1, 2.5] }", &["sweep.toml:3:1:", "two whole numbers"]),
        ("[parameters]\n\"learner.lr\" = { choice = 1 }", &["sweep.toml:3:1:", "needs a list of values"]),
        ("[parameters]\n\"seed\" = [1]", &["sweep.toml:3:1: `seed` cannot be varied"]),
        ("[parameters]\nlr = [1]\n\"learner.lr\" = [2]", &["sweep.toml:3:1: `lr` has no effect"]),
        ("[parameters]\nalgorithm.ppo.clip_param = [0.1]\nalgorithm = [\"impala\"]", &["sweep.toml:4:1:"]),
        (
            "[parameters]\n\"algorithm.ppo.clip_param\" = [0.1]\nalgorithm = [\"impala\"]",
            &["sweep.toml:3:1: `algorithm.ppo.clip_param` has no effect"],
        ),
        (
            "[parameters]\n\"learner.lr_schedule\" = [[[0, 0.1], [9, 0]]]\n\"learner.lr\" = [0.1]",
            &["sweep.toml:4:1: `learner.lr` has no effect beside `learner.lr_schedule` (sweep.toml:3:1)"],
        ),
        ("[parameters]\nlog.prometheus = [\"127.0.0.1:0\"]", &["log.prometheus"]),
        ("[parameters]\nenv = [\"CartPole\"]", &["did you mean `CartPole-v1`?"]),
        ("[parameters]", &["sweep.toml:2:1:", "`parameters` is empty"]),
        ("", &["missing field `parameters`"]),
        (&format!("metrics = \"x\"\n{lr}"), &["sweep.toml:2:1: unknown field `metrics`"]),
        (&format!("mode = \"most\"\n{lr}"), &["sweep.toml:2:8:", "`max`"]),
        (&format!("seeds = []\n{lr}"), &["sweep.toml:2:9: `seeds` is empty"]),
        (&format!("seeds = [1, 1]\n{lr}"), &["sweep.toml:2:9: `seeds` has 1 twice"]),
        (&format!("trials = 3\n{lr}"), &["sweep.toml:2:10: a grid tries every combination"]),
        (&format!("search = \"random\"\n{lr}"), &["`trials` is missing"]),
        (&format!("search = \"random\"\ntrials = 0\n{lr}"), &["sweep.toml:3:10: `trials` is 0"]),
        (&format!("search = \"random\"\ntrials = 10001\n{lr}"), &["these are 10001 runs"]),
        (&format!("search = \"asha\"\ntrials = 4\n{lr}"), &["[asha] is missing"]),
        (
            &format!("asha = {{ min_env_steps = 1, max_env_steps = 2, reduction = 2 }}\n{lr}"),
            &["[asha] is only for search"],
        ),
        (&format!("{asha}10\nreduction = 2\n{lr}"), &["min_env_steps is more than max_env_steps"]),
        (&format!("{asha}1000\nreduction = 1\n{lr}"), &["reduction must be 2 or more"]),
        (&format!("{asha}\"many\"\nreduction = 2\n{lr}"), &["sweep.toml:6:17:", "number of env-steps, such as"]),
        (
            &format!("{asha}1000\nreduction = 2\n[parameters]\nstop.env_steps = [1]"),
            &["`stop.env_steps` cannot be varied"],
        ),
        (&format!("metric = \"evaluation.episode_reward_mean\"\n{lr}"), &["sweep.toml:2:10:", "evaluation.every"]),
        (
            &format!("metric = \"episode_retrun_mean\"\n{lr}"),
            &["sweep.toml:2:10: no result has `episode_retrun_mean`: did you mean `episode_return_mean`?"],
        ),
        (&format!("metric = \"bottleneck.limit\"\n{lr}"), &["sweep.toml:2:10:", "of the type text"]),
        (&format!("metric = \"policy_reward_mean.team\"\n{lr}"), &["sweep.toml:2:10:", "`CartPole-v1` has one"]),
        (
            &format!("metric = \"info.learner.team.learner_stats.entropy\"\n{lr}"),
            &["sweep.toml:2:10:", "the policy is called `default_policy`"],
        ),
        ("[parameters]\nlearner.lr = [0.1\n", &["sweep.toml:"]),
    ];
    let refused = |args: &[&str], expected: &[&str], what: &str| {
        let (status, text, errors) = pronk(folder, &[&["sweep"], args].concat());
        assert_eq!(status, 2, "{what}: {text}{errors}");
        expected.iter().for_each(|expected| assert!(errors.contains(expected), "{what}: {errors}"));
    };
    for (sweep, expected) in cases {
        write_sweep(folder, sweep);
        refused(&["sweep.toml", "--out", "out"], expected, sweep);
    }
    let ten: Vec<String> = (1..=10).map(|n| format!("0.{n}")).collect();
    let keys = ["lr", "grad_clip", "num_learner_threads", "num_sgd_iter", "epsilon"];
    let lists: Vec<String> = keys.iter().map(|key| format!("learner.{key} = [{}]", ten.join(", "))).collect();
    write_sweep(folder, &format!("[parameters]\n{}", lists.join("\n")));
    refused(&["sweep.toml"], &["these are 100000 runs, and a sweep has 10000 at most"], "a large grid");
    write_sweep(folder, lr);
    refused(&["sweep.toml", "--jobs", "0"], &["--jobs"], "no jobs");
    refused(&["nowhere.toml"], &["cannot read nowhere.toml"], "no file");
    refused(
        &["sweep.toml", "--out", "other"],
        &["other is not empty and is not the folder of a sweep", "notes.txt"],
        "other files",
    );
    for (config, expected) in [("none.toml", "cannot read none.toml"), ("endless.toml", "would never end")] {
        fs::write(folder.join("sweep.toml"), format!("config = \"{config}\"\n{lr}")).unwrap();
        refused(&["sweep.toml"], &[expected], config);
    }
    assert!(!folder.join("out").exists() && !folder.join("sweeps").exists(), "what is refused makes no folder");

    // A sweep that was killed while it began has written the beginnings of its files.
    fs::create_dir(folder.join("out")).unwrap();
    write_sweep(folder, lr);
    let sweep = fs::read(folder.join("sweep.toml")).unwrap();
    fs::write(folder.join("out/sweep.toml.new"), &sweep[..sweep.len() / 2]).unwrap();
    fs::write(folder.join("out/base.toml.new"), "").unwrap();
    assert_eq!(pronk(folder, &["sweep", "sweep.toml", "--out", "out", "--quiet"]).0, 0);
    write_sweep(folder, &format!("# another comment is no other sweep\n{lr}"));
    assert_eq!(pronk(folder, &["sweep", "sweep.toml", "--out", "out", "--quiet"]).0, 0);
    write_sweep(folder, &format!("seeds = [7]\n{lr}"));
    refused(&["sweep.toml", "--out", "out"], &["out holds a sweep of another sweep file"], "another sweep");
    write_sweep(folder, lr);
    fs::write(folder.join("config.toml"), CONFIG.replace("2_000", "3_000")).unwrap();
    refused(&["sweep.toml", "--out", "out"], &["out holds a sweep of another config", "out/base.toml"], "its config");
}
