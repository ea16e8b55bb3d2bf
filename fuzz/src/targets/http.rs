//! Requests to the live page.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use pronk_dashboard::Dashboard;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::Target;
use crate::folder::scratch;

pub(crate) const TARGET: Target = Target {
    name: "http",
    promise: "A byte, of which the lowest bit says whether the page asks for a token, and then what a browser sends; \
              `{id}` is the run, and `{port}` that of the page. It is answered, the run is not shown without the \
              token or under the name of another machine, and nothing is read but the page and the run.",
    run,
};

/// What requests must not be answered with, and what of the run only those who may.
const SECRET: &str = "what-lies-elsewhere";
const OF_THE_RUN: &str = "Secret-Environment-v0";

const TOKEN: &str = "correct-horse-battery";

/// No answer takes as long.
const PATIENCE: Duration = Duration::from_secs(8);

/// The page of a run, without its threads.
struct Page {
    router: Router,
    port: String,
    id: String,
    /// Kept while the page is.
    _folder: TempDir,
}

static PAGES: LazyLock<[Page; 2]> = LazyLock::new(|| [page(None), page(Some(TOKEN))]);

fn run(bytes: &[u8]) -> bool {
    let Some((first, request)) = bytes.split_first() else { return false };
    let has_token = first % 2 == 1;
    let page = &PAGES[usize::from(has_token)];
    let request = replaced(&replaced(request, b"{id}", &page.id), b"{port}", &page.port);
    let answer = String::from_utf8_lossy(&answer(page.router.clone(), &request)).into_owned();
    let asked = String::from_utf8_lossy(&request);
    assert!(!answer.contains(SECRET), "what lies beside the run is read:\n{asked}\n\n{answer}");
    assert!(!answer.contains("HTTP/1.1 500"), "{asked}\n\n{answer}");
    let may_read = |head: &str| match has_token {
        true => has_cookie(head, &page.port),
        false => is_to_this_machine(head),
    };
    let is_shown = answer.contains(OF_THE_RUN);
    let may_read = asked.replace("\r\n", "\n").split("\n\n").any(may_read);
    assert!(may_read || !is_shown, "the run is shown to others:\n{asked}\n\n{answer}");
    let (found, policies) =
        (answer.matches("HTTP/1.1 200"), answer.matches("content-security-policy: default-src 'none'"));
    assert!(found.count() <= policies.count(), "{asked}\n\n{answer}");
    is_shown
}

/// The values of a header in the head of a request.
fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.filter(|(its_name, _)| its_name.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
}

/// Whether the head of a request has the cookie of the token.
fn has_cookie(head: &str, port: &str) -> bool {
    let cookie = format!("pronk-{port}={TOKEN}");
    values(head, "cookie").iter().any(|cookies| cookies.split(';').any(|its| its.trim() == cookie))
}

/// Whether the only host in the head of a request is a name of this machine.
fn is_to_this_machine(head: &str) -> bool {
    let [host] = values(head, "host")[..] else { return false };
    let name = host.trim_end_matches(|digit: char| digit.is_ascii_digit()).strip_suffix(':').unwrap_or(host);
    let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(name) => name.parse().map(IpAddr::V6),
        None => name.parse().map(IpAddr::V4),
    };
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// What the page sends to a browser that sends this and then closes.
fn answer(router: Router, request: &[u8]) -> Vec<u8> {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let (mut browser, server) = tokio::io::duplex(1 << 20);
    let mut http = http1::Builder::new();
    // As the page's own server, but without deadlines, and what a browser sent before it closed is answered.
    http.max_buf_size(16 << 10).half_close(true);
    let answered = async {
        let serving = http.serve_connection(TokioIo::new(server), TowerToHyperService::new(router));
        let served = tokio::spawn(serving);
        let _ = browser.write_all(request).await;
        let _ = browser.shutdown().await;
        let mut answer = Vec::new();
        while let Ok(1..) = browser.read_buf(&mut answer).await {
            // Events never end.
            if answer.windows(EVENT.len()).any(|window| window == EVENT) {
                break;
            }
        }
        drop(browser);
        served.abort();
        assert!(served.await.err().is_none_or(|error| !error.is_panic()), "answering panics");
        answer
    };
    let answered = runtime.block_on(async { timeout(PATIENCE, answered).await });
    answered.unwrap_or_else(|_| panic!("no answer to {}", request.escape_ascii()))
}

const EVENT: &[u8] = b"event: versions";

/// Serves a run, and keeps what answers.
fn page(token: Option<&str>) -> Page {
    let folder = scratch();
    let run = folder.path().join("run");
    write(&folder.path().join("elsewhere.png"), SECRET);
    write(&run.join("elsewhere.txt"), SECRET);
    write(&run.join("run.json"), &json!({"began": 1_700_000_000, "seed": 1}).to_string());
    write(&run.join("videos/evaluation-100.png"), "a video");
    let _ = std::os::unix::fs::symlink("../../elsewhere.png", run.join("videos/evaluation-200.png"));
    let dashboard = Dashboard::bind("127.0.0.1:0").and_then(|dashboard| dashboard.with_folder(&run));
    let dashboard = dashboard.unwrap_or_else(|error| panic!("no page: {error}"));
    let dashboard = dashboard.with_settings(json!({"env": OF_THE_RUN, "lr": 0.001}));
    let (router, port) = (dashboard.router(), dashboard.addr().port().to_string());
    let list = || String::from_utf8_lossy(&answer(router.clone(), &get("/api/runs"))).into_owned();
    let id = list().split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned();
    let deadline = Instant::now() + PATIENCE;
    // Its folder is read by another thread.
    while !answer(router.clone(), &get(&format!("/api/runs/{id}"))).windows(14).any(|part| part == b"evaluation-100") {
        assert!(Instant::now() < deadline && list().contains(OF_THE_RUN), "the run `{id}` is not read: {}", list());
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let dashboard = token.map_or(Ok(None), |token| dashboard.with_token(token).map(Some));
    drop(dashboard.unwrap_or_else(|error| panic!("no token: {error}")));
    Page { router, port, id, _folder: folder }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes()
}

fn write(path: &Path, text: &str) {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.unwrap_or_else(|error| panic!("{} is not written: {error}", path.display()));
}

/// The bytes with `name` replaced, wherever it is.
fn replaced(bytes: &[u8], name: &[u8], by: &str) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(name.len()).position(|window| window == name) {
        all.extend_from_slice(&rest[..at]);
        all.extend_from_slice(by.as_bytes());
        rest = &rest[at + name.len()..];
    }
    [all, rest.to_owned()].concat()
}
