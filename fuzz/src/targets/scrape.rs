//! Requests to the endpoint that Prometheus scrapes.

use pronk::Prometheus;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "scrape",
    promise: "A response is whole, comes once the head of the request is complete or too long and does not change \
              with what follows it, and has metrics only if they were asked for.",
    run,
};

const METRICS: &str = "pronk_up 1\n# EOF\n";

/// The longest head that is read.
const LONGEST: usize = 8 << 10;

fn run(bytes: &[u8]) -> bool {
    let Some(response) = Prometheus::response(bytes, METRICS) else {
        assert!(bytes.len() <= LONGEST, "no response to {} bytes", bytes.len());
        return false;
    };
    let (head, body) = whole(&response);
    let asked = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let asked = String::from_utf8_lossy(asked);
    if head.starts_with("HTTP/1.1 200 ") {
        let path = asked.split(' ').nth(1).and_then(|target| target.split('?').next()).unwrap_or_default();
        assert!(
            path.ends_with("/metrics") && ["GET ", "HEAD "].iter().any(|method| asked.starts_with(method)),
            "{asked}"
        );
        assert_eq!(body, if asked.starts_with("GET") { METRICS } else { "" });
    }
    assert!(body != METRICS || head.starts_with("HTTP/1.1 200 "), "{head}");
    let before = Prometheus::response(&bytes[..bytes.len() - 1], METRICS);
    assert!(before.is_none_or(|before| before == response), "another byte changes the response to {asked}");
    body == METRICS
}

/// The head and the body of a response.
fn whole(response: &[u8]) -> (&str, &str) {
    let text = str::from_utf8(response).unwrap_or_else(|error| panic!("a response that is no text: {error}"));
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("a response without an end: {text}"));
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    assert!(body.is_empty() || length == Some(body.len()), "{text}");
    (head, body)
}
