//! Which requests are answered, and with which headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use crate::access::{Access, Verdict};
use crate::assets::LOGIN;

/// The maximal number of runs of one question.
pub(crate) const MAX_IDS: usize = 64;

/// The maximal length of a path with its query: [`MAX_IDS`] ids, and some more.
const MAX_URI_BYTES: usize = 4096;

const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Why a question gets no answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }

    /// A sentence without a full stop.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {what}"))
    }
}

/// A path that is no text.
impl From<PathRejection> for Refusal {
    fn from(_: PathRejection) -> Self {
        Self::not_found("such page")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": self.reason}).to_string();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

/// Answers what may be asked, and adds the headers that every answer has.
pub(crate) async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = match admit(&access, &request) {
        Ok(()) => next.run(request).await,
        Err(response) => response,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Figures change.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets a request through, or says what is answered instead.
#[allow(clippy::result_large_err)] // there is one for each request
fn admit(access: &Access, request: &Request) -> Result<(), Response> {
    if request.uri().to_string().len() > MAX_URI_BYTES {
        let reason = format!("the address has more than {MAX_URI_BYTES} bytes: ask for fewer runs");
        return Err(Refusal::new(StatusCode::URI_TOO_LONG, reason).into_response());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "runs can only be looked at: use GET");
        return Err(([(header::ALLOW, "GET, HEAD")], refusal).into_response());
    }
    let is_page = request.uri().path() == "/";
    let query = query(request.uri()).unwrap_or_default();
    let token = query.get("token").filter(|_| is_page);
    if let Some(cookie) = token.and_then(|token| access.cookie(token)) {
        let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
        return Err((StatusCode::SEE_OTHER, headers).into_response());
    }
    match access.verdict(request.headers()) {
        Verdict::Allowed => Ok(()),
        Verdict::NoToken if is_page => Err((StatusCode::UNAUTHORIZED, Html(LOGIN)).into_response()),
        Verdict::NoToken => {
            let reason = "the token is missing or wrong: open the address that the program printed";
            Err(Refusal::new(StatusCode::UNAUTHORIZED, reason).into_response())
        }
        Verdict::WrongHost => {
            // Not `url()`, which has the token if one was set after the verdict.
            let addr = access.addr();
            let reason = format!(
                "this page is served under the names of this machine alone: open http://{addr}/, or start it with a token"
            );
            Err(Refusal::new(StatusCode::FORBIDDEN, reason).into_response())
        }
    }
}

/// The parameters of an address.
pub(crate) fn query(uri: &Uri) -> Result<BTreeMap<String, String>, Refusal> {
    let wrong = |_| Refusal::new(StatusCode::BAD_REQUEST, "what follows the ? is no list of NAME=VALUE");
    Query::try_from_uri(uri).map(|Query(query)| query).map_err(wrong)
}

/// The ids in `?runs=ID,ID,…`, each once.
pub(crate) fn ids(uri: &Uri) -> Result<Vec<String>, Refusal> {
    let query = query(uri)?;
    let mut ids: Vec<String> = Vec::new();
    for id in query.get("runs").into_iter().flat_map(|ids| ids.split(',')).filter(|id| !id.is_empty()) {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    match ids.len() {
        0 => Err(Refusal::new(StatusCode::BAD_REQUEST, "say which runs: ?runs=ID,ID")),
        n if n > MAX_IDS => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, format!("these are {n} runs: ask for {MAX_IDS} at most")))
        }
        _ => Ok(ids),
    }
}

/// Whether the browser has what the tag is of, by its `If-None-Match`.
pub(crate) fn is_not_modified(headers: &HeaderMap, tag: &str) -> bool {
    let kept = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|tags| tags.to_str().ok());
    kept.flat_map(|tags| tags.split(',')).any(|kept| kept.trim().trim_start_matches("W/") == tag)
}
