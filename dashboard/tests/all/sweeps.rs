//! Sweeps.

use std::fs;

use pronk_dashboard::Dashboard;
use serde_json::{Value, json};

use super::http::{get, json};
use super::{list_of, make_run, named, wait_for};

#[test]
fn a_sweep_is_shown_with_its_trials() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = folder.path().join("sweeps/mine");
    fs::create_dir_all(&sweep).unwrap();
    let text = "config = \"c.toml\"\nmetric = \"evaluation.best.episode_reward_mean\"\nmode = \"min\"\nseeds = [1, 2]\n\
                [parameters]\nlearner.lr = { log_uniform = [1e-4, 1e-2] }\nalgorithm = [\"ppo\", \"appo\"]\n";
    fs::write(sweep.join("sweep.toml"), text).unwrap();
    fs::write(sweep.join("base.toml"), "").unwrap();
    for (number, seed) in [(1, 1), (1, 2), (2, u64::MAX)] {
        let trial = sweep.join(format!("trial-{number:04}-s{seed}"));
        if number == 1 {
            make_run(&trial, seed, 4);
        } else {
            fs::create_dir(&trial).unwrap();
        }
        let parameters = json!({"learner.lr": 0.001, "algorithm": "ppo"});
        let described = json!({"parameters": parameters, "seed": seed, "trial": number, "rung": 2});
        fs::write(trial.join("trial.json"), described.to_string()).unwrap();
    }
    let watch = Dashboard::watch("127.0.0.1:0", [folder.path()]).unwrap();
    let addr = watch.addr();
    let list = wait_for("the sweep", || {
        let list = list_of(addr, 2);
        (list["sweeps"][0]["trials"] == 3 && named(&list, "trial-0001-s2")["state"] == "finished").then_some(list)
    });
    let entry = &list["sweeps"][0];
    assert_eq!((&entry["name"], &entry["state"]), (&json!("mine"), &json!("waiting")));
    let of_sweep = |run: &Value| run["sweep"] == entry["id"];
    assert!(list["runs"].as_array().unwrap().iter().all(of_sweep), "{list}");
    let sweep = json(addr, &format!("/api/sweeps/{}", entry["id"].as_str().unwrap()));
    assert_eq!((&sweep["mode"], &sweep["metric"]), (&json!("min"), &json!("evaluation.best.episode_reward_mean")));
    let mut parameters = sweep["parameters"].as_array().unwrap().clone();
    parameters.sort_by_key(|parameter| parameter["key"].to_string());
    let expected = [
        json!({"key": "algorithm", "log": false, "choices": ["ppo", "appo"]}),
        json!({"key": "learner.lr", "log": true, "choices": null}),
    ];
    assert_eq!(parameters, expected);
    let rows = sweep["rows"].as_array().unwrap();
    let run = &rows[0]["run"];
    let first = json!({
        "trial": 1, "seed": "1", "parameters": {"learner.lr": 0.001, "algorithm": "ppo"}, "rung": 2, "value": 7.5,
        "env_steps": "4000", "state": "finished", "run": run,
    });
    assert_eq!(rows[0], first);
    assert_eq!(get(addr, &format!("/api/runs/{}", run.as_str().unwrap())).status, 200);
    let last = json!({
        "trial": 2, "seed": "18446744073709551615", "parameters": {"learner.lr": 0.001, "algorithm": "ppo"}, "rung": 1,
        "value": null, "env_steps": null, "state": "waiting", "run": null,
    });
    assert_eq!(rows[2], last);
}
