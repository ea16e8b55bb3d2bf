//! What is at which path.

use std::fs::File;
use std::io::{self, Read as _, Take};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};
use xxhash_rust::xxh3::xxh3_64;

use crate::access::Access;
use crate::answers::{self, Answers, Missing};
use crate::assets::{ASSETS, INDEX};
use crate::board::{Board, Details, Run};
use crate::events::events;
use crate::reader::Wake;
use crate::request::{Refusal, guard, ids, is_not_modified};
use crate::videos;

/// How long a question waits for a run to be read.
const PATIENCE: Duration = Duration::from_secs(20);

/// Browsers that listen at the same time. Other requests must still find a connection.
const MAX_LISTENERS: usize = 128;

/// Videos that are sent at the same time.
const MAX_VIDEOS: usize = 8;

/// How much of a video is in memory.
const CHUNK_BYTES: usize = 256 << 10;

/// What a path names, if it is text.
type InPath<T> = Result<Path<T>, PathRejection>;

#[derive(Clone)]
struct App(Arc<Parts>);

struct Parts {
    board: Arc<Board>,
    wake: Option<Wake>,
    answers: Answers,
    listeners: Arc<Semaphore>,
    videos: Arc<Semaphore>,
}

/// Runs that were asked for together.
struct Several {
    runs: Vec<(Run, Details)>,
    /// Those that are not there, or could not be read in time.
    missing: Vec<Missing>,
}

pub(crate) fn router(board: Arc<Board>, access: Arc<Access>, wake: Option<Wake>) -> Router {
    let parts = Parts {
        board,
        wake,
        answers: Answers::default(),
        listeners: Arc::new(Semaphore::new(MAX_LISTENERS)),
        videos: Arc::new(Semaphore::new(MAX_VIDEOS)),
    };
    Router::new()
        .route("/", get(page))
        .route("/assets/{name}", get(asset))
        .route("/api/runs", get(list))
        .route("/api/runs/{id}", get(run))
        .route("/api/runs/{id}/videos/{name}", get(video))
        .route("/api/curves", get(curves))
        .route("/api/differences", get(differences))
        .route("/api/sweeps/{id}", get(sweep))
        .route("/api/events", get(listen))
        .fallback(nothing)
        .layer(from_fn_with_state(access, guard))
        .with_state(App(Arc::new(parts)))
}

async fn page(headers: HeaderMap) -> Response {
    file(&headers, "text/html; charset=utf-8", INDEX)
}

async fn asset(name: InPath<String>, headers: HeaderMap) -> Result<Response, Refusal> {
    let Path(name) = name?;
    let asset = ASSETS.iter().find(|asset| asset.name == name).ok_or_else(|| Refusal::not_found("such file"))?;
    Ok(file(&headers, asset.content_type, asset.text))
}

async fn list(State(app): State<App>) -> Response {
    let list = app.0.board.list();
    json(app.0.answers.get("runs", list.version, || answers::list(list)))
}

async fn run(State(app): State<App>, id: InPath<String>) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let (run, details) = app.details(&id, Instant::now() + PATIENCE).await?;
    let answer = app.0.answers.get(&format!("runs/{id}"), run.version, || answers::run(&run, &details));
    Ok(json(answer))
}

async fn curves(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let Several { runs, missing } = app.several(ids(&uri)?).await?;
    Ok(json(answers::curves(&runs, &missing).to_string()))
}

async fn differences(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let Several { runs, missing } = app.several(ids(&uri)?).await?;
    Ok(json(answers::differences(&runs, &missing).to_string()))
}

async fn sweep(State(app): State<App>, id: InPath<String>) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let sweep = app.0.board.sweep(&id).ok_or_else(|| Refusal::not_found("such sweep"))?;
    Ok(json(sweep.answer.to_string()))
}

async fn listen(State(app): State<App>) -> Result<Response, Refusal> {
    let place = Arc::clone(&app.0.listeners).try_acquire_owned().map_err(|_| {
        let reason = format!("{MAX_LISTENERS} pages are open already: close one");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    })?;
    Ok(events(Arc::clone(&app.0.board), place))
}

async fn nothing() -> Refusal {
    Refusal::not_found("such page")
}

async fn video(
    State(app): State<App>,
    names: InPath<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path((id, name)) = names?;
    let deadline = Instant::now() + PATIENCE;
    let (run, details) = app.details(&id, deadline).await?;
    let none = || Refusal::not_found("such video");
    // Only names that were found in the folder of videos: none has a `/` or is `..`.
    let folder = run.folder.filter(|_| details.videos.iter().any(|video| video.name == name)).ok_or_else(none)?;
    let busy = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "other videos are being sent: ask again");
    let place = timeout_at(deadline, Arc::clone(&app.0.videos).acquire_owned()).await.map_err(busy)?;
    let place = place.map_err(|_| none())?;
    let open = spawn_blocking(move || {
        let file = videos::open(&folder, &name)?;
        let metadata = file.metadata()?;
        io::Result::Ok((file.take(metadata.len()), metadata.len(), metadata.modified()?))
    });
    let slow = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the disk does not answer: ask again");
    let opened = timeout_at(deadline, open).await.map_err(|_| slow())?.map_err(|_| slow())?;
    // It may just have been replaced by a newer one.
    let (file, bytes, changed) = opened.map_err(|_| none())?;
    let changed = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let tag = format!("\"{bytes:x}-{changed:x}\"");
    let kept = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "private, no-cache".to_owned())];
    if is_not_modified(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    let about = [(header::CONTENT_TYPE, "image/png".to_owned()), (header::CONTENT_LENGTH, bytes.to_string())];
    Ok((kept, about, Body::from_stream(chunks(file, place))).into_response())
}

/// A file, read as fast as it is sent: so much as it had when it was opened, which its head has said.
fn chunks(
    file: Take<File>,
    place: OwnedSemaphorePermit,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static {
    unfold(Some((file, place)), |reading| async {
        let (mut file, place) = reading?;
        let read = spawn_blocking(move || {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk).map(|_| (file, chunk))
        });
        match timeout(PATIENCE, read).await {
            Ok(Ok(Ok((_, chunk)))) if chunk.is_empty() => None,
            Ok(Ok(Ok((file, chunk)))) => Some((Ok(chunk.into()), Some((file, place)))),
            Ok(Ok(Err(error))) => Some((Err(error), None)),
            Ok(Err(_)) | Err(_) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
        }
    })
}

impl App {
    /// All of a run. Waits until it has been read.
    async fn details(&self, id: &str, deadline: Instant) -> Result<(Run, Details), Refusal> {
        let board = &self.0.board;
        let mut newest = board.subscribe();
        loop {
            newest.mark_unchanged();
            // Before the run is looked for, which may come in between.
            let is_complete = board.is_complete();
            match board.ask(id) {
                Some(Run { details: Some(details), version, summary, folder }) => {
                    return Ok((Run { details: None, version, summary, folder }, details));
                }
                Some(_) => self.0.wake.iter().for_each(Wake::wake),
                None if is_complete => return Err(Refusal::not_found("such run")),
                None => {}
            }
            if timeout_at(deadline, newest.changed()).await.is_err() {
                let reason = "the run is still being read: ask again";
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason));
            }
        }
    }

    /// All of several runs. Refused if there is none of them.
    async fn several(&self, ids: Vec<String>) -> Result<Several, Refusal> {
        let deadline = Instant::now() + PATIENCE;
        for id in &ids {
            self.0.board.ask(id);
        }
        let mut several = Several { runs: Vec::new(), missing: Vec::new() };
        let mut refusal = None;
        for id in ids {
            match self.details(&id, deadline).await {
                Ok(run) => several.runs.push(run),
                Err(why) => {
                    several.missing.push(Missing { id, reason: why.reason().to_owned() });
                    refusal = Some(why);
                }
            }
        }
        match refusal {
            Some(refusal) if several.runs.is_empty() => Err(refusal),
            _ => Ok(several),
        }
    }
}

fn json(text: impl Into<Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// A file of the page, unless the browser has it.
fn file(headers: &HeaderMap, content_type: &'static str, text: &'static str) -> Response {
    let tag = format!("\"{:016x}\"", xxh3_64(text.as_bytes()));
    let kept = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    match is_not_modified(headers, &tag) {
        true => (StatusCode::NOT_MODIFIED, kept).into_response(),
        false => (kept, [(header::CONTENT_TYPE, content_type)], text).into_response(),
    }
}
