//! The subset of HTTP/1.1 that a scrape needs: parsing the request head, and the response.

/// The longest request head that is read.
const HEAD_LIMIT_BYTES: usize = 8 * 1024;

const METRICS_PATH: &str = "/metrics";
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// The response to what a client has sent so far; `None` while the head of its request is incomplete.
pub(super) fn response(request: &[u8], metrics: &str) -> Option<Vec<u8>> {
    match head_end(request) {
        Some(end) if end <= HEAD_LIMIT_BYTES => Some(answer(&request[..end], metrics)),
        None if request.len() <= HEAD_LIMIT_BYTES => None,
        _ => Some(plain("431 Request Header Fields Too Large", "the head of this request is longer than 8 KiB\n")),
    }
}

/// The end of the head at the start of `bytes`, its empty line included; `None` while incomplete.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let ends = |end: &[u8]| bytes.windows(end.len()).position(|window| window == end).map(|at| at + end.len());
    // RFC 9112 §2.2 lets a line end without the carriage return.
    ends(b"\r\n\r\n").into_iter().chain(ends(b"\n\n")).min()
}

/// The response to the request with this head.
fn answer(head: &[u8], metrics: &str) -> Vec<u8> {
    let Some(request) = Request::parse(head) else {
        return plain("400 Bad Request", "this is not a request of HTTP/1.0 or HTTP/1.1\n");
    };
    let with_body = match request.method {
        "GET" => true,
        "HEAD" => false,
        _ if request.path == METRICS_PATH => {
            let text = "the metrics can be read only: use GET or HEAD\n";
            return write("405 Method Not Allowed", TEXT_TYPE, "Allow: GET, HEAD\r\n", text, true);
        }
        _ => true,
    };
    if request.path != METRICS_PATH {
        return write("404 Not Found", TEXT_TYPE, "", "nothing is here: the metrics are at /metrics\n", with_body);
    }
    write("200 OK", METRICS_TYPE, "", metrics, with_body)
}

fn plain(status: &str, text: &str) -> Vec<u8> {
    write(status, TEXT_TYPE, "", text, true)
}

fn write(status: &str, content_type: &str, more_fields: &str, body: &str, with_body: bool) -> Vec<u8> {
    let length = body.len();
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{more_fields}\
         Connection: close\r\n\r\n"
    );
    if with_body {
        response.push_str(body);
    }
    response.into_bytes()
}

struct Request<'a> {
    method: &'a str,
    path: &'a str,
}

impl<'a> Request<'a> {
    /// `None` if malformed.
    fn parse(head: &'a [u8]) -> Option<Request<'a>> {
        let mut lines = std::str::from_utf8(head).ok()?.lines();
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !is_token(method) || target.chars().any(char::is_control) {
            return None;
        }
        let mut n_hosts = 0;
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, _) = line.split_once(':').filter(|(name, _)| is_token(name))?;
            n_hosts += usize::from(name.eq_ignore_ascii_case("host"));
        }
        match (version, n_hosts) {
            ("HTTP/1.1", 1) | ("HTTP/1.0", 0 | 1) => Some(Request { method, path: path_of(target)? }),
            _ => None,
        }
    }
}

/// The path of a target: `/path?query`, or the same after `http://host`.
fn path_of(target: &str) -> Option<&str> {
    let before_query = target.split('?').next()?;
    let path = match before_query.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => before_query,
    };
    path.starts_with('/').then_some(path)
}

fn is_token(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !word.is_empty() && word.bytes().all(allowed)
}
