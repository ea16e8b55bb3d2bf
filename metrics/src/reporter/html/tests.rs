use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

/// The page of a run with these results, and the data in it.
fn page_of(settings: Value, results: impl IntoIterator<Item = ResultDict>) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/report.html");
    let mut report = HtmlReport::create(&path).unwrap().with_settings(settings);
    for result in results {
        report.report(&result).unwrap();
    }
    assert!(!path.exists());
    report.finish().unwrap();
    let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "no file but the page");
    let page = fs::read_to_string(&path).unwrap();
    assert_eq!(page.matches("</script>").count(), 3, "the data, uPlot and the script that draws");
    (page.clone(), data_in(&page))
}

fn data_in(page: &str) -> Value {
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    serde_json::from_str(data).unwrap()
}

fn data_of(settings: Value, results: impl IntoIterator<Item = ResultDict>) -> Value {
    page_of(settings, results).1
}

/// A result like those of a trainer after `iteration` iterations of 1000 env-steps.
fn result(iteration: u64) -> ResultDict {
    let steps = 1000 * iteration;
    let both = |n: u64| json!({"env": n, "agent": 2 * n});
    let progress = iteration as f64;
    let mut result = ResultDict::new();
    result.set("training_iteration", iteration);
    result.set("time_total_s", 0.5 * progress);
    result.set("num_env_steps_sampled", steps);
    result.set("episode_reward_min", 0.5 * progress.sqrt());
    result.set("episode_reward_max", 2.0 * progress.sqrt());
    result.set("episode_return_mean", progress.sqrt());
    result.set("policy_lag", json!({"min": 1, "mean": 1.5 + progress.sin(), "max": 4}));
    result.set("throughput.env_steps_per_s", 2000.0 + 100.0 * progress.cos());
    result.set("throughput.env_steps_per_s_since_start", 2000.0);
    let stats: serde_json::Map<_, _> =
        (0..13).map(|i| (format!("stat_{i}"), json!((progress + f64::from(i)).sin()))).collect();
    result.set("info.learner.default_policy.learner_stats", stats);
    result.set(
        "ledger.steps",
        json!({
            "sampled": both(steps),
            "trained_once": both(steps - 100),
            "trained_passes": both(2 * steps),
            "in_flight": both(100),
            "dropped": {},
            "lost": {},
        }),
    );
    result.set("ledger.time.learner", json!({"wall_secs": 3.0, "states": {"starved": 1.0, "learning": 2.0}}));
    result
}

#[test]
fn a_run_is_told_from_its_head_to_its_settings() {
    let settings = json!({"env": "CartPole-v1", "algorithm": {"impala": {"lr": 0.0006}}});
    let mut last = result(40);
    last.set("bottleneck.sentence", "The learner waits for data 33 % of its time.");
    last.set("policy_lag.histogram", json!({"edges": [0, 1, 2, 4], "counts": [10, 30, 5]}));
    let data = data_of(settings, (1..40).map(result).chain([last]));
    for (field, value) in [
        ("name", json!("CartPole-v1 · impala")),
        ("results", json!(40)),
        ("env_steps", json!("40000")),
        ("episode_return", json!(40_f64.sqrt())),
        ("wall_secs", json!(20.0)),
        ("env_steps_per_s", json!(2000.0)),
        ("sentence", json!("The learner waits for data 33 % of its time.")),
        ("lag_histogram", json!({"edges": [0, 1, 2, 4], "counts": [10, 30, 5]})),
        ("open_threads", json!([])),
        ("trouble", json!({"counts": [], "lists": []})),
        ("settings", json!({"rows": [["env", "CartPole-v1"], ["algorithm.impala.lr", "0.0006"]], "left_out": 0})),
    ] {
        assert_eq!(data[field], value, "{field}");
    }
    let returns = &data["returns"];
    assert_eq!((&returns["x"][39], &returns["mean"][39]), (&json!(40_000.0), &json!(6.324555)));
    assert_eq!((&returns["min"][39], &returns["max"][39]), (&json!(3.162278), &json!(12.64911)));
    assert!(data["rate"].get("min").is_none(), "one figure for each result has no range");
    assert_eq!(data["learner"]["default_policy"][12]["name"], "stat_12");
    assert_eq!(
        data["threads"],
        json!([{"name": "learner", "threads": 1, "wall_secs": 3.0, "states": {"starved": 1.0, "learning": 2.0}}])
    );
    let trained = &data["steps"]["rows"][0];
    assert_eq!(trained["count"], json!({"env": "39900", "agent": "79800"}));
    assert_eq!(data["steps"]["unexplained"], json!({"env": "0", "agent": "0"}));
}

#[test]
fn same_results_give_the_same_page() {
    let settings = || json!({"env": "x", "b": 1, "a": 2});
    assert_eq!(page_of(settings(), (1..100).map(result)), page_of(settings(), (1..100).map(result)));
}

#[test]
fn a_page_loads_nothing() {
    let (page, _) = page_of(json!({"env": "x"}), (1..20).map(result));
    for outside in ["<link", "<img", "@import", "src=", "href=", "url(", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"));
}

#[test]
fn a_run_without_figures_has_a_page() {
    let empty = json!({"x": [], "mean": []});
    for (n, results) in [(0, vec![]), (1, vec![ResultDict::new()])] {
        let data = data_of(Value::Null, results);
        assert_eq!((&data["results"], &data["name"], &data["returns"]), (&json!(n), &json!("A run"), &empty));
        for field in ["threads", "open_threads", "steps", "sentence", "env_steps", "lag_histogram"] {
            assert!(data[field].is_null(), "{field}");
        }
    }
}

#[test]
fn figures_that_are_not_numbers_are_counted_and_not_drawn() {
    let mut odd = result(3);
    odd.set("episode_return_mean", f64::NAN);
    odd.set("episode_reward_min", f64::NEG_INFINITY);
    odd.set("policy_lag", json!({"min": null, "mean": "?", "max": [], "histogram": 3}));
    odd.set("throughput", Value::Null);
    odd.set("time_total_s", f64::INFINITY);
    odd.set("info.learner.default_policy.learner_stats.stat_0", f64::NAN);
    odd.set("info.learner.default_policy.learner_stats.never", f64::NAN);
    odd.set("ledger.time.learner.states", json!({"starved": null, "learning": -1}));
    odd.set("ledger.steps.in_flight", "some");
    let data = data_of(Value::Null, [result(1), result(2), odd]);
    let stats = data["learner"]["default_policy"].as_array().unwrap();
    let of = |name: &str| stats.iter().find(|stat| stat["name"] == name).unwrap();
    assert_eq!((&of("stat_0")["last"], &of("stat_0")["not_finite"]), (&Value::Null, &json!(1)));
    assert_eq!(of("never")["curve"], json!({"x": [], "mean": []}));
    assert_eq!(data["open_threads"], json!(["learner"]));
    assert!(data["steps"]["unexplained"].is_null());
    assert_eq!(data["episode_return"], json!(2_f64.sqrt()), "the newest return that is a number");
}

#[test]
fn numbers_of_any_size_have_their_place() {
    let extremes = [0.0, -0.0, 5e-324, -1e-300, 1e-12, 1e300, f64::MAX, f64::MIN];
    let results = extremes.iter().enumerate().map(|(i, value)| {
        let mut result = result(1);
        result.set("num_env_steps_sampled", (1_u64 << 53) + i as u64);
        result.set("timesteps_total", u64::MAX);
        result.set("time_total_s", value.abs());
        result.set("episode_return_mean", *value);
        result.set("throughput.env_steps_per_s", *value);
        result.set("throughput.env_steps_per_s_since_start", *value);
        result
    });
    assert_eq!(data_of(Value::Null, results)["env_steps"], "9007199254740999");
    for value in extremes {
        let mut alone = result(1);
        alone.set("episode_return_mean", value);
        alone.set("num_env_steps_sampled", u64::MAX);
        assert_eq!(data_of(Value::Null, [alone])["env_steps"], u64::MAX.to_string());
    }
}

#[test]
fn hostile_names_cannot_leave_the_data() {
    const EVIL: &str = "</title></style></script><script>alert('x')</script><!--\"'&\u{0}\u{1b}\u{2028}";
    let mut result = result(5);
    let object =
        |value: Value| -> Value { [(EVIL.to_owned(), value)].into_iter().collect::<serde_json::Map<_, _>>().into() };
    let steps = json!({"env": 0, "agent": 0});
    result.set("info.learner", object(json!({"learner_stats": object(json!(1))})));
    result.set("policy_reward_mean", object(json!(1)));
    result.set("ledger.time", object(json!({"wall_secs": 1, "states": object(json!(1))})));
    result.set("ledger.steps.dropped", object(steps.clone()));
    result.set("ledger.steps.lost", object(steps));
    result.set("bottleneck.sentence", EVIL);
    for path in
        ["workers.newest_failures", "workers.gave_up", "workers.abandoned", "reporters_failed", "checkpoints_failed"]
    {
        result.set(path, json!([EVIL]));
    }
    result.set("learner_health", json!({"batches_quarantined": 1, "last_quarantine": EVIL, "starved": EVIL}));
    let settings = json!({"env": EVIL, "algorithm": EVIL, "x": object(json!([EVIL]))});
    let (page, data) = page_of(settings, [result]);
    assert!(!page.contains("<script>alert") && !page.contains("<!--") && !page.contains('\0'));
    assert_eq!((page.matches("</style>").count(), page.matches("</title>").count()), (1, 1));
    assert_eq!(data["sentence"], EVIL, "and arrive whole");
    assert!(data["learner"].get(EVIL).is_some());
}

#[test]
fn a_page_stays_small_however_much_there_is_to_tell() {
    let mut report = HtmlReport::create(tempfile::tempdir().unwrap().path().join("x.html")).unwrap();
    for iteration in 1..=100_000_u64 {
        let noise = (iteration.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64;
        let mut result = ResultDict::new();
        result.set("num_env_steps_sampled", 977 * iteration);
        result.set("time_total_s", 0.1 * iteration as f64);
        result.set("throughput.env_steps_per_s", noise);
        result.set("episode_return_mean", noise);
        result.set("episode_reward_max", 2.0 * noise);
        result.set("policy_lag", json!({"min": 0, "mean": noise, "max": 3.0 * noise}));
        if iteration % 50 == 0 {
            for stat in 0..100 {
                result.set(&format!("info.learner.policy-{}.learner_stats.stat-{stat}", iteration % 7), noise);
            }
            result.set("workers.newest_failures", json!([format!("failure {iteration} {}", "x".repeat(5000))]));
        }
        report.history.take(&result);
    }
    let mut last = ResultDict::new();
    let thread = json!({"wall_secs": 10, "threads": 10, "states": {"idle": 5, "busy": 5}});
    let threads: serde_json::Map<_, _> = (0..300).map(|i| (format!("rollout-{i}"), thread.clone())).collect();
    last.set("ledger.time", threads);
    report.history.take(&last);
    let page = page::page(&report.history, &json!({"long": "y".repeat(1 << 20)}));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let data = data_in(&page);
    let points = |curve: &Value| curve["x"].as_array().unwrap().len();
    let small = data["learner"].as_object().unwrap().values().flat_map(|policy| policy.as_array().unwrap());
    let n_points: usize = small.map(|curve| points(&curve["curve"])).sum();
    assert!(n_points <= 48 * 256 && points(&data["returns"]) <= 512);
    let all = &data["threads"][0];
    assert_eq!((&all["name"], &all["threads"], &all["wall_secs"]), (&json!("rollout-*"), &json!(3000), &json!(3000.0)));
}

#[test]
fn a_page_that_is_there_stays_until_the_new_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    fs::write(&path, "old").unwrap();
    let mut report = HtmlReport::create(&path).unwrap();
    report.report(&result(1)).unwrap();
    // Something in the place of the half-written page keeps it from being written.
    fs::create_dir(folder.path().join("report.html.new")).unwrap();
    assert_error(&report.finish().unwrap_err(), &path);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    fs::remove_dir(folder.path().join("report.html.new")).unwrap();
    report.finish().unwrap();
    assert!(fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
}

#[test]
fn errors_name_the_reporter_and_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("file");
    fs::write(&in_the_way, "").unwrap();
    assert_error(&HtmlReport::create(in_the_way.join("report.html")).unwrap_err(), &in_the_way);
    assert_error(&HtmlReport::create(folder.path()).unwrap_err(), folder.path());
    assert!(HtmlReport::create("").is_err());

    let gone = folder.path().join("gone");
    let mut report = HtmlReport::create(gone.join("report.html")).unwrap();
    fs::remove_dir(&gone).unwrap();
    fs::write(&gone, "").unwrap();
    assert_error(&report.finish().unwrap_err(), &gone);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error_and_stays_a_device() {
    let full = Path::new("/dev/full");
    if fs::metadata(full).is_err() {
        return;
    }
    // By a link, so that a mistake replaces the link and not the device.
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("report.html");
    std::os::unix::fs::symlink(full, &link).unwrap();
    let mut report = HtmlReport::create(&link).unwrap();
    report.report(&result(1)).unwrap();
    assert_error(&report.finish().unwrap_err(), &link);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

fn assert_error(error: &ReportError, path: &Path) {
    let text = error.to_string();
    assert!(error.reporter == "html_report" && text.contains(&*path.to_string_lossy()), "{text}");
}
