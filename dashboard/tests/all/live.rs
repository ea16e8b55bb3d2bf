//! The run of this process.

use std::fs;
use std::thread;

use pronk::{Reporter, ResultDict, RunInfo};
use pronk_dashboard::{Dashboard, DashboardError};
use serde_json::json;

use super::http::{Events, connect, get, json, send};
use super::{iterations, result, trainer, wait_for};

#[test]
fn versions_grow_while_a_run_trains_and_the_answers_with_them() {
    let settings = json!({"env": "CartPole-v1", "seed": 7, "algorithm": {"impala": {}}, "learner": {"lr": 0.5}});
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap().with_settings(settings);
    let addr = dashboard.addr();
    assert_eq!(dashboard.url(), format!("http://{addr}/"));
    let mut trainer = trainer();
    trainer.add_reporter(dashboard);
    // A browser that has gone without a word, and one that asks and does not read.
    let dead = connect(addr);
    let mut slow = connect(addr);
    for _ in 0..100 {
        send(&mut slow, addr, "GET", "/api/runs/live", &[("Connection", "keep-alive")]);
    }
    let browser = thread::spawn(move || {
        let mut events = Events::open(addr);
        let first = events.next().unwrap();
        let (list, run) = (first["list"].as_u64().unwrap(), first["runs"]["live"].as_u64().unwrap());
        let later = events.until(|event| event["runs"]["live"].as_u64() > Some(run));
        assert!(later["list"].as_u64().unwrap() > list);
        let (summary, seen) = (json(addr, "/api/runs"), json(addr, "/api/runs/live"));
        let further = events.until(|event| event["runs"]["live"].as_u64() > later["runs"]["live"].as_u64());
        assert!(further["list"].as_u64() > later["list"].as_u64());
        let now = wait_for("more results", || {
            let now = json(addr, "/api/runs/live");
            (now["results"].as_u64() > seen["results"].as_u64()).then_some(now)
        });
        (summary, now, events)
    });
    // Until the browser has seen enough, however long that takes.
    while !browser.is_finished() {
        trainer.next().unwrap().unwrap();
    }
    let (list, run, mut events) = browser.join().unwrap();
    let summary = &list["runs"][0];
    assert_eq!((&summary["id"], &summary["state"], &summary["seed"]), (&json!("live"), &json!("running"), &json!("7")));
    assert_eq!((&summary["env"], &summary["algorithm"]), (&json!("CartPole-v1"), &json!("impala")));
    assert!(summary["env_steps"].is_string() && summary["began"].as_u64() > Some(1_600_000_000), "{summary}");
    assert_eq!((&run["summary"]["id"], &run["sample"], &run["videos"]), (&json!("live"), &json!(null), &json!([])));
    assert!(run["returns"]["x"].as_array().unwrap().len() > 1);
    assert!(run["settings"]["rows"].to_string().contains("learner.lr"), "{}", run["settings"]);
    drop(trainer);
    while events.next().is_some() {}
    drop((dead, slow));
}

#[test]
fn a_browser_that_reads_nothing_holds_up_no_result() {
    let mut dashboard = Dashboard::bind("127.0.0.1:0").unwrap();
    let addr = dashboard.addr();
    let listeners: Vec<_> = (0..20).map(|_| Events::open(addr)).collect();
    let mut result = ResultDict::new();
    // Far more than the sockets could hold if every result were sent.
    for iteration in 0..200_000 {
        result.set("training_iteration", iteration);
        result.set("num_env_steps_sampled", 10 * iteration);
        dashboard.report(&result).unwrap();
    }
    assert_eq!(json(addr, "/api/runs/live")["results"], 200_000);
    dashboard.finish().unwrap();
    for mut events in listeners {
        let mut n = 0;
        while events.next().is_some() {
            n += 1;
        }
        // One at first, and two a second.
        assert!((1..10_000).contains(&n), "{n}");
    }
}

#[test]
fn the_thread_is_in_the_time_ledger_and_ends_with_the_run() {
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap();
    let addr = dashboard.addr();
    let mut trainer = trainer();
    trainer.add_reporter(dashboard);
    let run = trainer.run(iterations(3)).unwrap();
    let time = run.result.dict.get("ledger.time.dashboard").unwrap();
    let states = &time["states"];
    let sum = states["waiting"].as_f64().unwrap() + states["serving"].as_f64().unwrap();
    assert!((sum - time["wall_secs"].as_f64().unwrap()).abs() < 1e-3, "{time}");
    assert!(std::net::TcpStream::connect(addr).is_err(), "nothing is served any more");
}

#[test]
fn after_its_end_a_result_is_refused() {
    let mut dashboard = Dashboard::bind("127.0.0.1:0").unwrap();
    dashboard.finish().unwrap();
    dashboard.finish().unwrap();
    let error = dashboard.report(&ResultDict::new()).unwrap_err().to_string();
    assert!(error.contains("dashboard") && error.contains("ended"), "{error}");
}

#[test]
fn a_folder_adds_what_it_has_besides_the_results() {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().join("mine");
    let missing = Dashboard::bind("127.0.0.1:0").unwrap().with_folder(&folder).unwrap_err();
    assert!(matches!(&missing, DashboardError::Folder { path, .. } if *path == folder), "{missing}");
    fs::create_dir(&folder).unwrap();
    let mut dashboard = Dashboard::bind("127.0.0.1:0").unwrap().with_folder(&folder).unwrap();
    let addr = dashboard.addr();
    dashboard.report(&ResultDict::from_json_line(&result(3)).unwrap()).unwrap();
    RunInfo::begin(&folder, "CartPole-v1", 7).unwrap();
    fs::write(folder.join("config.toml"), "env = \"CartPole-v1\"\nseed = 7\n").unwrap();
    fs::create_dir(folder.join("videos")).unwrap();
    fs::write(folder.join("videos/evaluation-000000001000.png"), b"png").unwrap();
    let watch = Dashboard::watch("127.0.0.1:0", [runs.path()]).unwrap();
    let list = super::list_of(watch.addr(), 1);
    let id = super::id(&list, "mine");
    let run = wait_for("the video", || {
        let run = json(addr, &format!("/api/runs/{id}"));
        (run["videos"] != json!([]) && run["summary"]["seed"] == "7" && !run["info"].is_null()).then_some(run)
    });
    let video = json!([{"name": "evaluation-000000001000.png", "at_env_steps": "1000", "bytes": 3}]);
    assert_eq!((&run["videos"], &run["results"], &run["info"]["seed"]), (&video, &json!(1), &json!(7)));
    assert_eq!(run["summary"]["name"], "mine");
    assert_eq!(get(addr, &format!("/api/runs/{id}/videos/evaluation-000000001000.png")).body, b"png");
    assert_eq!(get(addr, "/api/runs/live").status, 404);
}

#[test]
fn settings_of_the_program_come_before_those_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (config, video) = (folder.path().join("config.toml"), folder.path().join("videos/a.png"));
    fs::create_dir(folder.path().join("videos")).unwrap();
    let write = |env: &str| fs::write(&config, format!("env = \"{env}\"\n")).unwrap();
    let run = |dashboard: &Dashboard| {
        let id = json(dashboard.addr(), "/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
        json(dashboard.addr(), &format!("/api/runs/{id}"))
    };
    let env = |dashboard: &Dashboard| run(dashboard)["summary"]["env"].as_str().map(str::to_owned);
    // The folder is read again, after its file has changed.
    let read_again = |dashboard: &Dashboard, env: &str| {
        write(env);
        fs::write(&video, b"png").unwrap();
        wait_for("the video", || (run(dashboard)["videos"] != json!([])).then_some(()));
        fs::remove_file(&video).unwrap();
        wait_for("no video", || (run(dashboard)["videos"] == json!([])).then_some(()));
    };
    let mine = json!({"env": "Mine"});

    write("First");
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap().with_settings(mine.clone());
    let dashboard = dashboard.with_folder(folder.path()).unwrap();
    read_again(&dashboard, "Second");
    assert_eq!(env(&dashboard).as_deref(), Some("Mine"));

    write("First");
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap().with_folder(folder.path()).unwrap();
    wait_for("the settings of the folder", || (env(&dashboard)? == "First").then_some(()));
    read_again(&dashboard, "Second");
    assert_eq!(env(&dashboard).as_deref(), Some("Second"));
    let dashboard = dashboard.with_settings(mine);
    read_again(&dashboard, "Third");
    assert_eq!(env(&dashboard).as_deref(), Some("Mine"));
}

#[test]
fn addresses_that_cannot_be_are_errors_that_say_what_to_do() {
    let first = Dashboard::bind("127.0.0.1:0").unwrap();
    let taken = Dashboard::bind(&first.addr().to_string()).unwrap_err();
    assert!(matches!(taken, DashboardError::Taken { .. }) && taken.to_string().contains("port 0"), "{taken}");
    for address in ["", "nonsense", "127.0.0.1", "127.0.0.1:99999", "192.0.2.1:80"] {
        let refused = Dashboard::bind(address).unwrap_err();
        assert!(matches!(refused, DashboardError::Refused { .. }), "{address}: {refused}");
        assert!(refused.to_string().contains("127.0.0.1:8080"), "{refused}");
    }
}
