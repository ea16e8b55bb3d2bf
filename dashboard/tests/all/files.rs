//! Files of the page, and videos.

use std::fs;

use pronk_dashboard::Dashboard;
use serde_json::json;

use super::http::{get, json, request};
use super::{id, list_of, make_run};

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

#[test]
fn nothing_besides_the_listed_videos_can_be_read() {
    let runs = tempfile::tempdir().unwrap();
    let run = make_run(&runs.path().join("a"), 1, 3);
    fs::create_dir_all(run.join("videos/folder.png")).unwrap();
    fs::write(run.join("videos/notes.txt"), "classified").unwrap();
    fs::write(run.join("secret.png"), "classified").unwrap();
    fs::write(run.join("videos/listed.png"), "a video").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(run.join("secret.png"), run.join("videos/link.png")).unwrap();
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
    #[cfg(unix)]
    {
        fs::remove_file(run.join("videos/listed.png")).unwrap();
        std::os::unix::fs::symlink(run.join("secret.png"), run.join("videos/listed.png")).unwrap();
        assert_eq!(get(addr, &path("listed.png")).status, 404);
        // A folder that is a link has videos of others.
        fs::rename(run.join("videos"), run.join("elsewhere")).unwrap();
        fs::write(run.join("elsewhere/other.png"), "classified").unwrap();
        fs::remove_file(run.join("elsewhere/listed.png")).unwrap();
        fs::write(run.join("elsewhere/listed.png"), "classified").unwrap();
        std::os::unix::fs::symlink(run.join("elsewhere"), run.join("videos")).unwrap();
        assert_eq!(get(addr, &path("listed.png")).status, 404);
        assert_eq!(get(addr, &path("other.png")).status, 404);
    }
    for path in ["/assets/../Cargo.toml", "/assets/..%2f..%2fCargo.toml", "/../etc/passwd", "//etc/passwd"] {
        assert_eq!(get(addr, path).status, 404, "{path}");
    }
}
