//! A browser: requests over a socket, and streams of events.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The answer to `METHOD PATH`.
pub(crate) fn request(addr: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut stream = connect(addr);
    send(&mut stream, addr, method, path, headers);
    let mut bytes = Vec::new();
    // The other end may close a connection with a request that it has not read to its end.
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

pub(crate) fn get(addr: SocketAddr, path: &str) -> Answer {
    request(addr, "GET", path, &[])
}

/// The JSON at a path, which must be there.
pub(crate) fn json(addr: SocketAddr, path: &str) -> Value {
    let answer = get(addr, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert_eq!(answer.headers["content-type"], "application/json");
    answer.json()
}

pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `METHOD PATH` with these headers, and those of a single request to `addr` that are not among them.
pub(crate) fn send(stream: &mut TcpStream, addr: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in [("Host", addr.to_string().as_str()), ("Connection", "close")] {
        if !headers.iter().any(|(given, _)| *given == name) {
            head += &format!("{name}: {value}\r\n");
        }
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes()).unwrap();
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(bytes)));
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let is_chunked = headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked");
    let body = if is_chunked { unchunked(rest) } else { rest.to_vec() };
    Answer { status, headers, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        body.extend(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[(end + 4 + length).min(bytes.len())..];
    }
    body
}

/// A stream of events.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn open(addr: SocketAddr) -> Self {
        let mut stream = connect(addr);
        send(&mut stream, addr, "GET", "/api/events", &[]);
        Self(BufReader::new(stream))
    }

    /// The next event; `None` once the stream has ended.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The next event that `is_it`.
    pub(crate) fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let event = self.next().expect("the stream has ended");
            if is_it(&event) {
                return event;
            }
        }
    }
}
