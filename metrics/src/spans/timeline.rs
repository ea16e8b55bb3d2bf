mod lane;
mod trace;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use tracing::Subscriber;
use tracing::span::Id;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::{AtThreadEnd, PerOwner, lock};
use crate::reporter::file::make_folder_above;
use crate::reporter::{ReportError, Reporter};
use crate::result::ResultDict;
use trace::Trace;

/// A timeline of every thread's `tracing` spans, for <https://ui.perfetto.dev> or `chrome://tracing`.
///
/// Every thread has a lane of nested spans. A span that ends before spans opened later ends and reopens
/// those. Open spans end with their thread or with the file. After `max_events` begins and ends no more spans
/// begin; the file's end has the number of those left out.
///
/// [`finish`](Reporter::finish), or dropping the timeline, completes the file.
///
/// *Units*: microseconds since the file was made.
///
/// ```
/// use pronk_metrics::{Reporter, Timeline};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run-1/trace.json");
/// let mut timeline = Timeline::create(&path, Timeline::DEFAULT_EVENTS)?;
/// tracing::subscriber::with_default(tracing_subscriber::registry().with(timeline.layer()), || {
///     tracing::info_span!("update").in_scope(|| ());
/// });
/// timeline.finish()?;
/// let events: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
/// let phases: Vec<&str> = events.iter().filter_map(|event| event["ph"].as_str()).collect();
/// assert_eq!(phases, ["M", "B", "E"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Timeline {
    path: PathBuf,
    shared: Arc<Shared>,
}

impl Timeline {
    /// Begins and ends for a file of some 30 MB.
    pub const DEFAULT_EVENTS: usize = 500_000;

    /// Creates the file and missing parent folders, or empties the file. Errors name the path.
    pub fn create(path: impl Into<PathBuf>, max_events: usize) -> Result<Timeline, ReportError> {
        let path = path.into();
        make_folder_above(NAME, &path)?;
        let file = File::create(&path).map_err(|error| ReportError::of_file(NAME, "create", &path, error))?;
        let trace = Mutex::new(Trace::new(BufWriter::with_capacity(BUFFER_BYTES, file), max_events));
        Ok(Timeline { path, shared: Arc::new(Shared { made: Instant::now(), trace }) })
    }

    /// The layer for a `tracing` subscriber.
    pub fn layer(&self) -> TimelineLayer {
        TimelineLayer(Arc::clone(&self.shared))
    }

    fn named(&self, outcome: io::Result<()>) -> Result<(), ReportError> {
        outcome.map_err(|error| ReportError::of_file(NAME, "write to", &self.path, error))
    }
}

impl Reporter for Timeline {
    fn name(&self) -> &str {
        NAME
    }

    /// Flushes the file. Returns an error since the last call once; nothing more is written then.
    fn report(&mut self, _: &ResultDict) -> Result<(), ReportError> {
        let outcome = lock(&self.shared.trace).flush();
        self.named(outcome)
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        let outcome = self.shared.close();
        self.named(outcome)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // A failure cannot be reported here.
        let _ = self.shared.close();
    }
}

/// The layer of a [`Timeline`]. If it outlives the timeline, it does nothing.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("trace.json");
/// let timeline = pronk_metrics::Timeline::create(&path, 100)?;
/// let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(timeline.layer()));
/// drop(timeline);
/// tracing::info_span!("later").in_scope(|| ());
/// assert!(!std::fs::read_to_string(&path)?.contains("later"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TimelineLayer(Arc<Shared>);

impl<S> Layer<S> for TimelineLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let now_ns = self.0.now_ns();
        if let Some(metadata) = context.metadata(id) {
            with_lanes(|lanes| match lanes.get(&self.0) {
                Some(ThreadLane(lane)) => lock(&self.0.trace).begin(*lane, id.into_u64(), metadata.name(), now_ns),
                None => {
                    let current = thread::current();
                    let name = current.name().unwrap_or("unnamed");
                    let lane = lock(&self.0.trace).begin_first(name, id.into_u64(), metadata.name(), now_ns);
                    if let Some(lane) = lane {
                        lanes.keep(&self.0, ThreadLane(lane));
                    }
                }
            });
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let now_ns = self.0.now_ns();
        with_lanes(|lanes| {
            if let Some(ThreadLane(lane)) = lanes.get(&self.0) {
                lock(&self.0.trace).end(*lane, id.into_u64(), now_ns);
            }
        });
    }
}

thread_local! {
    static LANES: RefCell<PerOwner<Shared, ThreadLane>> = const { RefCell::new(PerOwner::new()) };
}

/// Spans entered while a thread's locals are destroyed are ignored.
fn with_lanes(body: impl FnOnce(&mut PerOwner<Shared, ThreadLane>)) {
    let _ = LANES.try_with(|lanes| {
        if let Ok(mut lanes) = lanes.try_borrow_mut() {
            body(&mut lanes);
        }
    });
}

#[derive(Debug)]
struct Shared {
    made: Instant,
    trace: Mutex<Trace>,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn close(&self) -> io::Result<()> {
        let mut trace = lock(&self.trace);
        // Read under the lock, so that no lane has a later time.
        let now_ns = self.now_ns();
        trace.close(now_ns)
    }
}

/// The current thread's lane.
struct ThreadLane(u32);

impl AtThreadEnd<Shared> for ThreadLane {
    fn hand_over(&mut self, owner: &Arc<Shared>) {
        let mut trace = lock(&owner.trace);
        let now_ns = owner.now_ns();
        trace.end_lane(self.0, now_ns);
    }
}

const NAME: &str = "timeline";

const BUFFER_BYTES: usize = 1 << 16;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
