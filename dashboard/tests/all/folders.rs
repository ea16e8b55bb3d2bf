//! Folders of runs, while other processes write into them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use pronk::machine;
use pronk_dashboard::{Dashboard, Watch};
use serde_json::{Value, json};

use super::http::{Events, get, json};
use super::{id, iterations, list_of, make_run, named, result, results, trainer, wait_for};

fn watch(folder: &Path) -> Watch {
    Dashboard::watch("127.0.0.1:0", [folder]).unwrap()
}

fn append(folder: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(folder.join("results.jsonl")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn runs_are_listed_newest_first_with_what_they_have_reached() {
    let runs = tempfile::tempdir().unwrap();
    for (name, seed) in [("old", 1), ("new", 2), ("nested/deep/third", 3)] {
        make_run(&runs.path().join(name), seed, 9);
    }
    let watch = watch(runs.path());
    let list = list_of(watch.addr(), 3);
    let names: Vec<_> = list["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["third", "new", "old"]);
    let run = named(&list, "old");
    let expected = json!({
        "id": run["id"], "name": "old", "folder": runs.path().canonicalize().unwrap().join("old"), "env": "CartPole-v1",
        "algorithm": "impala", "seed": "1", "state": "finished", "began": 1_700_000_001_u64, "env_steps": "9000",
        "episode_return": 3.0, "best_evaluation": 7.5, "newest_evaluation": 7.0, "evaluations": 1, "wall_secs": 4.5,
        "env_steps_per_s": 2000.0, "results": 9, "group": run["group"], "sweep": null, "error": null,
    });
    assert_eq!(run, expected);
    assert_eq!(run["group"], named(&list, "new")["group"], "they differ in their seed alone");
    assert_eq!(list["watched"], json!([runs.path()]));
    assert_eq!((&list["problems"], &list["sweeps"]), (&json!([]), &json!([])));
    let again = self::watch(runs.path());
    assert_eq!(id(&list_of(again.addr(), 3), "old"), run["id"], "the same in every process");

    let whole = json(watch.addr(), &format!("/api/runs/{}", run["id"].as_str().unwrap()));
    assert_eq!((&whole["results"], &whole["env_steps"], &whole["summary"]), (&json!(9), &json!("9000"), &run));
    assert_eq!((&whole["info"]["seed"], &whole["sample"]), (&json!(1), &json!(null)));
    assert_eq!(whole["evaluation"]["mean"], json!([7.0]));
}

#[test]
fn results_are_read_as_they_come_and_half_a_line_is_waited_for() {
    let runs = tempfile::tempdir().unwrap();
    let run = make_run(&runs.path().join("a"), 1, 3);
    let watch = watch(runs.path());
    let addr = watch.addr();
    let path = format!("/api/runs/{}", id(&list_of(addr, 1), "a"));
    assert_eq!(json(addr, &path)["results"], 3);
    let mut events = Events::open(addr);
    let first = events.next().unwrap();
    let next = result(4);
    append(&run, &next[..20]);
    append(&run, &next[20..]);
    append(&run, &result(5)[..20]);
    let whole = wait_for("result 4", || Some(json(addr, &path)).filter(|whole| whole["results"] == 4));
    assert_eq!(whole["summary"]["env_steps"], "4000");
    let id = id(&list_of(addr, 1), "a");
    let event = events.until(|event| event["runs"][&id].as_u64() > first["runs"][&id].as_u64());
    assert!(event["list"].as_u64() > first["list"].as_u64());
    append(&run, &result(5)[20..]);
    append(&run, "broken\n{\"also\": \n\n");
    append(&run, &result(6));
    let whole = wait_for("result 6", || Some(json(addr, &path)).filter(|whole| whole["results"] == 6));
    let error = whole["summary"]["error"].as_str().unwrap();
    assert!(error.starts_with("2 lines of results.jsonl"), "{error}");
}

#[test]
fn a_run_that_goes_on_from_a_checkpoint_is_read_again() {
    let runs = tempfile::tempdir().unwrap();
    let run = make_run(&runs.path().join("a"), 1, 10);
    let watch = watch(runs.path());
    let addr = watch.addr();
    let path = format!("/api/runs/{}", id(&list_of(addr, 1), "a"));
    assert_eq!(json(addr, &path)["results"], 10);
    // Cut off and longer again before anyone looks, as a log that is continued.
    let other = results((1..=4).chain(5..=20)).replace("\"time_total_s\":5.0,", "\"time_total_s\":5.5,");
    fs::write(run.join("results.jsonl"), other).unwrap();
    let whole = wait_for("20 results", || Some(json(addr, &path)).filter(|whole| whole["results"] == 20));
    assert_eq!(whole["env_steps"], "20000");
    // Another file in its place.
    fs::write(run.join("new"), results(1..=7)).unwrap();
    fs::rename(run.join("new"), run.join("results.jsonl")).unwrap();
    let whole = wait_for("7 results", || Some(json(addr, &path)).filter(|whole| whole["results"] == 7));
    assert_eq!(whole["summary"]["results"], 7);
    fs::remove_file(run.join("results.jsonl")).unwrap();
    let whole = wait_for("no results", || Some(json(addr, &path)).filter(|whole| whole["results"] == 0));
    let summary = &whole["summary"];
    assert_eq!(
        (&summary["results"], &summary["env_steps"], &summary["error"]),
        (&json!(null), &json!(null), &json!(null))
    );
}

#[test]
fn new_runs_come_and_removed_ones_go() {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().join("runs");
    let watch = watch(&folder);
    let addr = watch.addr();
    let list = wait_for("the problem", || Some(json(addr, "/api/runs")).filter(|list| list["problems"] != json!([])));
    assert!(list["problems"][0].as_str().unwrap().contains("is not there yet"), "{list}");
    make_run(&folder.join("a"), 1, 3);
    assert_eq!(list["is_complete"], true);
    let list = list_of(addr, 1);
    let path = format!("/api/runs/{}", id(&list, "a"));
    assert_eq!(get(addr, &path).status, 200);
    wait_for("no problem", || Some(json(addr, "/api/runs")).filter(|list| list["problems"] == json!([])));
    fs::remove_dir_all(folder.join("a")).unwrap();
    list_of(addr, 0);
    assert_eq!(get(addr, &path).status, 404);
}

#[test]
fn a_run_whose_process_is_gone_was_killed_and_one_that_failed_says_why() {
    let runs = tempfile::tempdir().unwrap();
    let killed = make_run(&runs.path().join("killed"), 1, 3);
    let failed = make_run(&runs.path().join("failed"), 1, 3);
    let mut child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
    let began = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let began: u64 = began.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    let info = json!({"machine": machine(), "process": child.id(), "process_began": began, "outcome": null});
    fs::write(killed.join("run.json"), info.to_string()).unwrap();
    fs::write(failed.join("run.json"), json!({"outcome": {"failure": "worker 3 gave up"}}).to_string()).unwrap();
    fs::create_dir(runs.path().join("unknown")).unwrap();
    fs::write(runs.path().join("unknown/results.jsonl"), "").unwrap();
    let watch = watch(runs.path());
    let addr = watch.addr();
    let list = list_of(addr, 3);
    assert_eq!(named(&list, "killed")["state"], "running");
    let failed = named(&list, "failed");
    assert_eq!((&failed["state"], &failed["error"]), (&json!("failed"), &json!("worker 3 gave up")));
    let unknown = named(&list, "unknown");
    assert_eq!(
        (&unknown["state"], &unknown["env_steps"], &unknown["env"]),
        (&json!("unknown"), &json!(null), &json!(null))
    );
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("killed", || Some(json(addr, "/api/runs")).filter(|list| named(list, "killed")["state"] == "killed"));
}

#[test]
fn the_folder_of_a_real_run_is_shown_while_it_trains_and_after() {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().join("real");
    let watch = watch(runs.path());
    let addr = watch.addr();
    let mut trainer = trainer();
    trainer.log_to(&folder).unwrap();
    let info = trainer.take_run_info().unwrap();
    for _ in 0..5 {
        trainer.next().unwrap().unwrap();
    }
    let path = format!("/api/runs/{}", id(&list_of(addr, 1), "real"));
    let whole = wait_for("5 results", || Some(json(addr, &path)).filter(|whole| whole["results"] == 5));
    assert_eq!((&whole["summary"]["state"], &whole["info"]["seed"]), (&json!("running"), &json!(0)));
    let capacity = whole["pipeline"]["queue_capacity"].as_u64();
    assert!(capacity.is_some(), "{}", whole["pipeline"]);
    let run = trainer.run(iterations(8)).unwrap();
    info.end(&run, None).unwrap();
    let whole = wait_for("the end", || Some(json(addr, &path)).filter(|whole| whole["summary"]["state"] == "finished"));
    assert!(whole["summary"]["began"].as_u64() > Some(1_600_000_000));
    wait_for("all results", || Some(json(addr, &path)).filter(|whole| whole["results"].as_u64() >= Some(8)));
}

#[test]
fn runs_are_compared_by_their_curves_and_settings() {
    let runs = tempfile::tempdir().unwrap();
    for seed in 1..=3 {
        make_run(&runs.path().join(format!("s{seed}")), seed, 5);
    }
    let other = make_run(&runs.path().join("other"), 1, 5);
    let config = fs::read_to_string(other.join("config.toml")).unwrap().replace("0.001", "0.5") + "new = [1]\n";
    fs::write(other.join("config.toml"), config).unwrap();
    let watch = watch(runs.path());
    let addr = watch.addr();
    let list = list_of(addr, 4);
    let ids: Vec<String> = ["s2", "other", "s1"].map(|name| id(&list, name)).to_vec();
    let asked = format!("{},{},nowhere", ids.join(","), ids[0]);
    let curves = json(addr, &format!("/api/curves?runs={asked}"));
    let missing = json!([{"id": "nowhere", "reason": "there is no such run"}]);
    assert_eq!(curves["missing"], missing);
    let curves = curves["runs"].as_array().unwrap();
    assert_eq!(curves.iter().map(|run| run["id"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    assert_eq!(
        (&curves[0]["name"], &curves[0]["seed"], &curves[0]["state"]),
        (&json!("s2"), &json!("2"), &json!("finished"))
    );
    assert!(curves[0]["group"] == curves[2]["group"] && curves[0]["group"] != curves[1]["group"]);
    assert_eq!(curves[0]["returns"]["x"], json!([1000.0, 2000.0, 3000.0, 4000.0, 5000.0]));
    assert!(curves[0]["clock"]["mean"].is_array() && curves[0]["evaluation"]["mean"].is_array());
    let differences = json(addr, &format!("/api/differences?runs={asked}"));
    let expected = json!({"runs": ids, "keys": [
        {"key": "learner.lr", "values": [0.001, 0.5, 0.001]},
        {"key": "learner.new", "values": [null, [1], null]},
        {"key": "seed", "values": [2, 1, 1]},
    ], "missing": missing});
    assert_eq!(differences, expected);
}

#[test]
fn of_many_runs_all_can_be_opened_one_after_the_other() {
    let runs = tempfile::tempdir().unwrap();
    for i in 0..200 {
        make_run(&runs.path().join(format!("{i:03}")), i, 2);
    }
    let watch = watch(runs.path());
    let addr = watch.addr();
    let list = list_of(addr, 200);
    // More than are kept in memory, and the first ones again.
    for run in list["runs"].as_array().unwrap().iter().chain(list["runs"].as_array().unwrap().iter().take(20)) {
        let whole = json(addr, &format!("/api/runs/{}", run["id"].as_str().unwrap()));
        assert_eq!((&whole["results"], &whole["summary"]["name"]), (&json!(2), &run["name"]));
    }
}

#[test]
fn what_is_wrong_in_a_folder_is_said_and_nothing_else_is_affected() {
    let runs = tempfile::tempdir().unwrap();
    make_run(&runs.path().join("good"), 1, 3);
    let config = make_run(&runs.path().join("config"), 2, 3);
    fs::write(config.join("config.toml"), "env = ").unwrap();
    fs::write(config.join("run.json"), "{").unwrap();
    let folder = make_run(&runs.path().join("folder"), 3, 3);
    fs::remove_file(folder.join("results.jsonl")).unwrap();
    fs::create_dir(folder.join("results.jsonl")).unwrap();
    let large = make_run(&runs.path().join("large"), 4, 3);
    fs::write(large.join("run.json"), format!("{{}}{}", " ".repeat(2 << 20))).unwrap();
    let watch = watch(runs.path());
    let addr = watch.addr();
    let list = list_of(addr, 4);
    let error = |list: &Value, name| named(list, name)["error"].as_str().unwrap_or_default().to_owned();
    assert_eq!(error(&list, "good"), "");
    assert!(error(&list, "config").contains("config.toml cannot be read"), "{list}");
    assert!(error(&list, "folder").contains("results.jsonl cannot be read: it is not a regular file"), "{list}");
    assert!(error(&list, "large").contains("run.json cannot be read: it has more than"), "{list}");
    for run in list["runs"].as_array().unwrap() {
        assert_eq!(get(addr, &format!("/api/runs/{}", run["id"].as_str().unwrap())).status, 200, "{run}");
    }
}

/// To open one waits until a process writes into it, which none does.
#[test]
fn pipes_in_the_place_of_files_are_not_opened() {
    let runs = tempfile::tempdir().unwrap();
    let pipe = |path: &Path| {
        let _ = fs::remove_file(path);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    for name in ["results.jsonl", "run.json", "config.toml"] {
        pipe(&make_run(&runs.path().join(format!("of-{name}")), 1, 3).join(name));
    }
    let sweep = runs.path().join("sweep");
    let trial = make_run(&sweep.join("trial"), 1, 3);
    fs::write(sweep.join("base.toml"), "").unwrap();
    pipe(&sweep.join("sweep.toml"));
    pipe(&trial.join("trial.json"));
    let watch = watch(runs.path());
    let addr = watch.addr();
    let list = list_of(addr, 4);
    for name in ["results.jsonl", "run.json", "config.toml"] {
        let run = named(&list, &format!("of-{name}"));
        assert_eq!(run["error"], format!("{name} cannot be read: it is not a regular file"));
        json(addr, &format!("/api/runs/{}", run["id"].as_str().unwrap()));
    }
    // The run of this process has such a folder, too.
    let folder = runs.path().join("of-run.json");
    pipe(&folder.join("config.toml"));
    fs::create_dir(folder.join("videos")).unwrap();
    fs::write(folder.join("videos/a.png"), b"png").unwrap();
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap().with_folder(&folder).unwrap();
    let path = format!("/api/runs/{}", id(&list, "of-run.json"));
    wait_for("the videos", || Some(json(dashboard.addr(), &path)).filter(|run| run["videos"] != json!([])));
}
