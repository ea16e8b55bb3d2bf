use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

mod well_formed;

use well_formed::check;

/// The page of a run with these results.
fn page_of(settings: Value, results: impl IntoIterator<Item = ResultDict>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/report.html");
    let mut report = HtmlReport::create(&path).unwrap().with_settings(settings);
    for result in results {
        report.report(&result).unwrap();
    }
    assert!(!path.exists());
    report.finish().unwrap();
    let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "nothing but the page is left behind");
    let page = fs::read_to_string(&path).unwrap();
    check(&page);
    for odd in ["NaN", "inf<", "inf%", "inf\"", "-0%"] {
        assert!(!page.contains(odd), "{odd}");
    }
    page
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
    let page = page_of(settings, (1..40).map(result).chain([last]));
    for text in [
        "<h1>CartPole-v1 · impala</h1>",
        "<dd>6.325</dd>",
        "<dd>40,000</dd>",
        "<dd>20.0 s</dd>",
        "<dd>2,000</dd>",
        "Both ledgers close",
        "The learner waits for data 33 % of its time.",
        "<desc>From 1 at 1,000 env-steps to 6.325 at 40,000 env-steps; never below 0.5 nor above 12.65.</desc>",
        "Histogram of the policy lag",
        "<b>stat_12</b>",
        "learning 66.7 % · starved 33.3 %",
        "<td>39,900</td><td>99.8 %</td><td>79,800</td>",
        "nothing that went wrong",
        "algorithm.impala.lr</th><td>0.0006</td>",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let places =
        ["<h1>", "learner waits", ">Learning<", ">Policy lag<", ">Throughput<", ">Learner<", ">Where the time"];
    let places: Vec<_> = places.iter().map(|heading| page.find(heading)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{places:?}");
}

#[test]
fn same_results_give_the_same_page() {
    let settings = || json!({"env": "x", "b": 1, "a": 2});
    assert_eq!(page_of(settings(), (1..100).map(result)), page_of(settings(), (1..100).map(result)));
}

#[test]
fn a_page_asks_for_nothing_from_anywhere() {
    let page = page_of(json!({"env": "x"}), (1..20).map(result));
    for outside in ["<script", "<link", "<img", "@import", "http://", "https://", "src=", "href="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.matches("url(").count() == page.matches("url(#t").count());
}

#[test]
fn runs_that_have_nothing_to_show_say_so() {
    let headings =
        ["Learning", "Policy lag", "Throughput", "Learner", "Where the time went", "What became of the steps"];
    let none = page_of(Value::Null, []);
    assert!(none.contains("The run ended before its first result."));
    let bare = page_of(Value::Null, [ResultDict::new()]);
    for page in [none, bare] {
        for heading in headings {
            let section =
                page.split(&format!("<h2>{heading}</h2>")).nth(1).unwrap().split("</section>").next().unwrap();
            assert!(section.contains("class=\"none\"") && !section.contains("<svg"), "{heading}: {section}");
        }
        assert!(page.contains("No episode has ended.") && page.contains("There is no step ledger"));
    }
}

#[test]
fn one_result_is_one_dot() {
    let page = page_of(Value::Null, [result(1)]);
    assert!(page.contains("<desc>1 at 1,000 env-steps.</desc>") && page.contains("<circle class=\"dot\""));
}

#[test]
fn figures_that_are_no_numbers_are_told_and_not_drawn() {
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
    let page = page_of(Value::Null, [result(1), result(2), odd]);
    assert!(page.contains("<b>stat_0</b> <span>not finite</span>") && page.contains(">not finite in 1 result<"));
    assert!(page.contains("No result has a finite number."));
    assert!(page.contains("The step ledger lacks a figure; the time ledger does not close (1 thread)."));
    assert!(page.contains("<dd>1.414</dd>"), "the newest return that is a number");
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
    let page = page_of(Value::Null, results);
    assert!(page.contains("<dd>9,007,199,254,740,999</dd>"));
    for value in extremes {
        let mut alone = result(1);
        alone.set("episode_return_mean", value);
        alone.set("num_env_steps_sampled", u64::MAX);
        page_of(Value::Null, [alone]);
    }
}

#[test]
fn hostile_names_stay_text() {
    const EVIL: &str = "</title></style><script>alert('x')</script>\"'&\u{0}\u{1b}";
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
    let page = page_of(settings, [result]);
    assert!(!page.contains("<script") && !page.contains('\0') && !page.contains('\u{1b}'));
    assert_eq!((page.matches("</style>").count(), page.matches("</head>").count()), (1, 1));
    assert!(page.matches("&lt;script&gt;").count() >= 19, "{}", page.matches("&lt;script&gt;").count());
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
        report.memory.take(&result);
    }
    let mut last = ResultDict::new();
    let thread = json!({"wall_secs": 10, "threads": 10, "states": {"idle": 5, "busy": 5}});
    let threads: serde_json::Map<_, _> = (0..300).map(|i| (format!("rollout-{i}"), thread.clone())).collect();
    last.set("ledger.time", threads);
    report.memory.take(&last);
    let n_points: usize = report.memory.stats.values().map(|curve| curve.series.len()).sum();
    assert!(n_points <= memory::MAX_SMALL_CHARTS * 256 && report.memory.returns.len() <= 512);
    let page = page::page(&report.memory, &json!({"long": "y".repeat(1 << 20)}));
    check(&page);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains("<b>rollout-*</b> <span>3,000 threads, together 50 min 0 s</span>"));
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
