//! Files of the page, and videos.

use std::fs;
use std::os::unix::fs::symlink;

use pronk_dashboard::Dashboard;
use serde_json::json;

use super::http::{get, json, request};
use super::{id, list_of, make_run, named, wait_for};

#[test]
fn the_page_and_its_files_are_kept_by_the_browser_until_they_change() {
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap();
    let addr = dashboard.addr();
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/assets/charts.js", "text/javascript; charset=utf-8"),
        ("/assets/charts.css", "text/css; charset=utf-8"),
        ("/assets/uplot.js", "text/javascript; charset=utf-8"),
        ("/assets/uplot.css", "text/css; charset=utf-8"),
    ] {
        let answer = get(addr, path);
        assert_eq!((answer.status, &*answer.headers["content-type"]), (200, kind), "{path}");
        assert!(!answer.body.is_empty());
        let again = request(addr, "GET", path, &[("If-None-Match", &answer.headers["etag"])]);
        assert!(again.status == 304 && again.body.is_empty(), "{path}");
        assert_eq!(request(addr, "GET", path, &[("If-None-Match", "\"other\"")]).status, 200);
    }
}

#[test]
fn videos_are_sent_whole_and_once() {
    let runs = tempfile::tempdir().unwrap();
    let run = make_run(&runs.path().join("a"), 1, 3);
    fs::create_dir(run.join("videos")).unwrap();
    // More than one chunk.
    let video: Vec<u8> = (0..700_000_u32).map(|i| (i % 251) as u8).collect();
    fs::write(run.join("videos/evaluation-000000002000.png"), &video).unwrap();
    fs::write(run.join("videos/notes.txt"), "no video").unwrap();
    let watch = Dashboard::watch("127.0.0.1:0", [runs.path()]).unwrap();
    let addr = watch.addr();
    let id = id(&list_of(addr, 1), "a");
    let videos = json!([{"name": "evaluation-000000002000.png", "at_env_steps": "2000", "bytes": 700_000}]);
    assert_eq!(json(addr, &format!("/api/runs/{id}"))["videos"], videos);
    let path = format!("/api/runs/{id}/videos/evaluation-000000002000.png");
    let answer = get(addr, &path);
    assert_eq!((answer.status, &*answer.headers["content-type"]), (200, "image/png"));
    assert!(answer.body == video);
    let again = request(addr, "GET", &path, &[("If-None-Match", &answer.headers["etag"])]);
    assert!(again.status == 304 && again.body.is_empty());
}

/// Another user may have put the links there, which lead to what only the user who watches may read.
#[test]
fn no_answer_has_anything_of_a_file_that_a_link_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let secrets = root.join("secrets");
    let put = |file: &str, text: &str| {
        fs::create_dir_all(secrets.join("videos")).unwrap();
        fs::write(secrets.join(file), text).unwrap();
    };
    // Each is valid in its place.
    put("run.json", &json!({"classified": true, "outcome": {"failure": "classified"}}).to_string());
    put("config.toml", "env = \"classified\"");
    put("results.jsonl", &(json!({"training_iteration": 1, "run_failed": "classified"}).to_string() + "\n"));
    put("sweep.toml", "metric = \"classified\"");
    put("trial.json", &json!({"parameters": {"classified": 1}}).to_string());
    put("videos/evaluation-7.png", "classified");
    let files = ["run.json", "config.toml", "results.jsonl", "videos"];
    for file in files {
        let run = make_run(&root.join("runs").join(format!("of-{file}")), 1, 3);
        let _ = fs::remove_file(run.join(file));
        symlink(secrets.join(file), run.join(file)).unwrap();
    }
    let sweep = root.join("runs/sweep");
    let trial = make_run(&sweep.join("trial"), 1, 3);
    fs::write(sweep.join("base.toml"), "").unwrap();
    symlink(secrets.join("sweep.toml"), sweep.join("sweep.toml")).unwrap();
    symlink(secrets.join("trial.json"), trial.join("trial.json")).unwrap();
    // Folders of a run, and one with such below it.
    symlink(&secrets, root.join("runs/secret-run")).unwrap();
    symlink(&root, root.join("runs/inside")).unwrap();

    let watch = Dashboard::watch("127.0.0.1:0", [root.join("runs")]).unwrap();
    let addr = watch.addr();
    let list = wait_for("the list", || Some(json(addr, "/api/runs")).filter(|list| list["is_complete"] == true));
    let mut answers = vec![list.to_string()];
    let ids: Vec<String> =
        list["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
    for id in &ids {
        answers.push(json(addr, &format!("/api/runs/{id}")).to_string());
        assert_eq!(get(addr, &format!("/api/runs/{id}/videos/evaluation-7.png")).status, 404);
    }
    for what in ["curves", "differences"] {
        answers.push(json(addr, &format!("/api/{what}?runs={}", ids.join(","))).to_string());
    }
    answers.push(json(addr, &format!("/api/sweeps/{}", list["sweeps"][0]["id"].as_str().unwrap())).to_string());
    // The run of this process, by the folder of each.
    for file in &files[..3] {
        let run = root.join("runs").join(format!("of-{file}"));
        fs::create_dir(run.join("videos")).unwrap();
        fs::write(run.join("videos/a.png"), "png").unwrap();
        let dashboard = Dashboard::bind("127.0.0.1:0").unwrap().with_folder(&run).unwrap();
        let path = format!("/api/runs/{}", id(&list, &format!("of-{file}")));
        let read = || Some(json(dashboard.addr(), &path)).filter(|run| run["videos"] != json!([]));
        answers.push(wait_for("the videos", read).to_string());
    }
    for answer in answers {
        assert!(!answer.contains("classified"), "{answer}");
    }
    for file in &files[..3] {
        let expected = format!("{file} cannot be read: it is a link, and links in watched folders are not followed");
        assert_eq!(named(&list, &format!("of-{file}"))["error"], expected);
    }
    let problems: Vec<_> = list["problems"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for link in ["runs/secret-run", "runs/inside", "runs/sweep/sweep.toml"] {
        let expected = format!("{} is a link out of the folders that are watched", root.join(link).display());
        assert!(problems.iter().any(|problem| problem.starts_with(&expected)), "{problems:?}");
    }
}

#[test]
fn nothing_besides_the_listed_videos_can_be_read() {
    let runs = tempfile::tempdir().unwrap();
    let run = make_run(&runs.path().join("a"), 1, 3);
    fs::create_dir_all(run.join("videos/folder.png")).unwrap();
    fs::write(run.join("videos/notes.txt"), "classified").unwrap();
    fs::write(run.join("secret.png"), "classified").unwrap();
    fs::write(run.join("videos/listed.png"), "a video").unwrap();
    symlink(run.join("secret.png"), run.join("videos/link.png")).unwrap();
    let watch = Dashboard::watch("127.0.0.1:0", [runs.path()]).unwrap();
    let addr = watch.addr();
    let id = id(&list_of(addr, 1), "a");
    let listed = json(addr, &format!("/api/runs/{id}"))["videos"].clone();
    assert_eq!(listed, json!([{"name": "listed.png", "at_env_steps": null, "bytes": 7}]));
    let path = |name: &str| format!("/api/runs/{id}/videos/{name}");
    assert_eq!(get(addr, &path("listed.png")).text(), "a video");
    for name in [
        "notes.txt",
        "../secret.png",
        "..%2fsecret.png",
        "..%2Fconfig.toml",
        "%2e%2e/secret.png",
        "link.png",
        "folder.png",
        "..",
        ".",
        "%00",
        "..%5csecret.png",
        "%2fetc%2fpasswd",
    ] {
        let answer = get(addr, &path(name));
        assert_eq!(answer.status, 404, "{name}: {}", answer.text());
        assert!(!answer.text().contains("classified"), "{name}");
    }
    // It was listed, and is a link by now.
    fs::remove_file(run.join("videos/listed.png")).unwrap();
    symlink(run.join("secret.png"), run.join("videos/listed.png")).unwrap();
    assert_eq!(get(addr, &path("listed.png")).status, 404);
    // A folder that is a link has videos of others.
    fs::rename(run.join("videos"), run.join("elsewhere")).unwrap();
    fs::write(run.join("elsewhere/other.png"), "classified").unwrap();
    fs::remove_file(run.join("elsewhere/listed.png")).unwrap();
    fs::write(run.join("elsewhere/listed.png"), "classified").unwrap();
    symlink(run.join("elsewhere"), run.join("videos")).unwrap();
    assert_eq!(get(addr, &path("listed.png")).status, 404);
    assert_eq!(get(addr, &path("other.png")).status, 404);
    for path in ["/assets/../Cargo.toml", "/assets/..%2f..%2fCargo.toml", "/../etc/passwd", "//etc/passwd"] {
        assert_eq!(get(addr, path).status, 404, "{path}");
    }
}
