//! Who may read, and what.

use std::io::{Read, Write};

use pronk_dashboard::{Dashboard, DashboardError};

use super::http::{connect, get, request};

const TOKEN: &str = "correct-horse";

#[test]
fn an_address_that_is_not_loopback_asks_for_its_token() {
    let dashboard = Dashboard::bind("0.0.0.0:0").unwrap();
    let url = dashboard.url();
    let (base, token) = url.split_once("/?token=").unwrap();
    assert_eq!(token.len(), 32);
    // An address that can be opened, which 0.0.0.0 is not everywhere.
    let addr: std::net::SocketAddr = base.strip_prefix("http://").unwrap().parse().unwrap();
    assert!(addr.port() == dashboard.addr().port() && !addr.ip().is_unspecified(), "{url}");
    let page = get(addr, "/");
    assert!(page.status == 401 && page.text().contains("<form") && page.text().contains("name=\"token\""), "{page:?}");
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    for path in [
        "/api/runs",
        "/api/runs/live",
        "/api/events",
        "/assets/charts.js",
        "/nothing",
        "/?token=wrong-token",
        "/?token=%ff",
        "/?&=%",
    ] {
        assert_eq!(get(addr, path).status, 401, "{path}");
    }
    assert!(get(addr, "/api/runs").json()["error"].as_str().unwrap().contains("token"));

    let login = get(addr, &format!("/?token={token}"));
    assert_eq!((login.status, &*login.headers["location"]), (303, "/"));
    let cookie = &login.headers["set-cookie"];
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    for path in ["/", "/api/runs", "/api/runs/live", "/assets/charts.js"] {
        assert_eq!(request(addr, "GET", path, &[("Cookie", pair)]).status, 200, "{path}");
    }
    // A proxy may serve it under another name.
    let headers = [("Cookie", pair), ("Host", "runs.example.org")];
    assert_eq!(request(addr, "GET", "/api/runs", &headers).status, 200);
    let wrong = format!("{}x", pair);
    assert_eq!(request(addr, "GET", "/api/runs", &[("Cookie", &wrong)]).status, 401);
}

#[test]
fn a_token_of_ones_own_is_asked_for_on_this_machine_too() {
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap().with_token(TOKEN).unwrap();
    let addr = dashboard.addr();
    assert_eq!(dashboard.url(), format!("http://{addr}/?token={TOKEN}"));
    assert_eq!(get(addr, "/api/runs").status, 401);
    assert_eq!(get(addr, &format!("/?token={TOKEN}")).status, 303);
    let error = Dashboard::bind("127.0.0.1:0").unwrap().with_token("short").unwrap_err();
    assert!(matches!(error, DashboardError::Token), "{error}");
}

#[test]
fn a_page_of_another_site_cannot_read_by_a_name_of_its_own() {
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap();
    let addr = dashboard.addr();
    for path in ["/", "/api/runs", "/api/events", "/assets/charts.js"] {
        let answer = request(addr, "GET", path, &[("Host", "evil.example")]);
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.json()["error"].as_str().unwrap().contains("token"));
    }
    assert_eq!(request(addr, "GET", "/api/runs", &[("Host", "localhost:4000")]).status, 200);
}

#[test]
fn every_answer_has_the_headers_that_protect_it() {
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap();
    for path in ["/", "/assets/charts.js", "/api/runs", "/api/runs/none", "/none", "/api/curves"] {
        let headers = get(dashboard.addr(), path).headers;
        let policy = &headers["content-security-policy"];
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert!(headers.contains_key("cache-control") && !headers.contains_key("access-control-allow-origin"));
    }
}

#[test]
fn whatever_is_sent_the_next_request_is_answered() {
    let dashboard = Dashboard::bind("127.0.0.1:0").unwrap();
    let addr = dashboard.addr();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = request(addr, method, "/api/runs", &[]);
        assert_eq!((answer.status, &*answer.headers["allow"]), (405, "GET, HEAD"), "{method}");
    }
    let head = request(addr, "HEAD", "/api/runs", &[]);
    assert!(head.status == 200 && head.body.is_empty());
    let many: Vec<String> = (0..65).map(|i| i.to_string()).collect();
    let long = "x".repeat(5000);
    for (path, status) in [
        ("/api/curves", 400),
        ("/api/curves?runs=", 400),
        ("/api/curves?runs=%ff", 404),
        ("/api/curves?runs=none", 404),
        (&*format!("/api/differences?runs={}", many.join(",")), 400),
        (&*format!("/api/runs/{long}"), 414),
        ("/api/runs/none", 404),
        ("/api/sweeps/none", 404),
        ("/api/runs/live/videos/none.png", 404),
        ("/assets/none.js", 404),
        ("/assets/", 404),
        ("/api/runs/", 404),
        ("/none", 404),
        ("/api/runs/%ff", 404),
        ("/api/runs/live/videos/%ff.png", 404),
    ] {
        let answer = get(addr, path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.json()["error"].as_str().is_some_and(|error| error.len() > 10), "{path}");
    }
    for garbage in [
        "GET\r\n\r\n",
        "\0\0\0\0",
        "GET / HTTP/9.9\r\n\r\n",
        &("GET / HTTP/1.1\r\nX: ".to_owned() + &"x".repeat(1 << 20)),
    ] {
        let mut stream = connect(addr);
        // The other end may close before all is written.
        let _ = stream.write_all(garbage.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(get(addr, "/api/runs").status, 200);
}
