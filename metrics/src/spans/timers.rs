mod file;
mod kind;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

pub use file::TimersFile;
use serde_json::Value;
use tracing::Subscriber;
use tracing::span::Id;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::{AtThreadEnd, PerOwner, lock};
use crate::timer_tree::{RootTime, ScopeId, SystemClock, TimerTree, Work};
use kind::kind_of_thread;

/// Timers of all threads from `tracing` spans: each span is a scope in its thread's [`TimerTree`].
///
/// The timers of the constructing thread are the root of the tree; the others are below `trainer_threads`,
/// joined by kind: their names without trailing numbers. A thread counts from its first span on, and adds its
/// timers to its kind when it ends. Clones share the timers.
///
/// ```
/// use pronk_metrics::Timers;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let timers = Timers::new();
/// tracing::subscriber::with_default(tracing_subscriber::registry().with(timers.layer()), || {
///     tracing::info_span!("update").in_scope(|| tracing::info_span!("load").in_scope(|| ()));
/// });
/// timers.gauge("queue", 3.0);
/// let tree = timers.tree();
/// assert_eq!(tree["children"]["update"]["children"]["load"]["count"], 1);
/// assert_eq!(tree["gauges"]["queue"]["value"], 3.0);
/// ```
#[derive(Clone, Debug)]
pub struct Timers(Arc<Shared>);

impl Timers {
    /// Timers with the calling thread as their root.
    pub fn new() -> Timers {
        let root = Arc::new(Mutex::new(TimerTree::new()));
        let ended = TimerTree::with_clock(SystemClock::new(), []);
        let threads = Mutex::new(Threads { ended, running: Vec::new() });
        let timers = Timers(Arc::new(Shared { root: Arc::clone(&root), threads }));
        let here = ThreadScopes { tree: root, kind: None, entered: Vec::new() };
        // Fails only while the thread's locals are destroyed; its spans are then not counted.
        let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().keep(&timers.0, here));
        timers
    }

    /// The layer for a `tracing` subscriber.
    pub fn layer(&self) -> TimersLayer {
        TimersLayer(Arc::clone(&self.0))
    }

    /// Sets a gauge of the tree, from any thread. Ignores NaN.
    pub fn gauge(&self, name: &str, value: f64) {
        lock(&self.0.root).set_gauge(name, value);
    }

    /// Sets an entry of the tree's metadata.
    pub fn add_metadata(&self, key: &str, text: impl Into<String>) {
        lock(&self.0.root).add_metadata(key, text);
    }

    /// The timers of all threads until now, in ML-Agents' layout (see [`TimerTree::tree`]).
    ///
    /// For a kind of thread, `total` is the sum of its threads' seconds, each from its first span, and
    /// `count` their number.
    pub fn tree(&self) -> Value {
        let mut tree = lock(&self.0.root).clone();
        tree.abandon_open();
        let threads = lock(&self.0.threads);
        if !threads.is_empty() {
            let mut joined = tree.scope("trainer_threads");
            joined.merge_children(&threads.ended, Work::Parallel);
            for running in &threads.running {
                running.merge_into(&mut joined);
            }
        }
        drop(threads);
        tree.tree()
    }

    /// A reporter that writes the tree to `path` after the last result.
    pub fn file(&self, path: impl Into<PathBuf>) -> TimersFile {
        TimersFile::new(self.clone(), path.into())
    }
}

impl Default for Timers {
    fn default() -> Timers {
        Timers::new()
    }
}

/// The layer of [`Timers`].
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let timers = pronk_metrics::Timers::new();
/// let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(timers.layer()));
/// tracing::info_span!("step").in_scope(|| ());
/// assert_eq!(timers.tree()["children"]["step"]["count"], 1);
/// ```
#[derive(Debug)]
pub struct TimersLayer(Arc<Shared>);

impl<S> Layer<S> for TimersLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            with_scopes(|scopes| {
                if scopes.get(&self.0).is_none() {
                    scopes.keep(&self.0, self.0.register());
                }
                if let Some(here) = scopes.get(&self.0) {
                    here.enter(id.into_u64(), metadata.name());
                }
            });
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        with_scopes(|scopes| {
            if let Some(here) = scopes.get(&self.0) {
                here.exit(id.into_u64());
            }
        });
    }
}

thread_local! {
    static SCOPES: RefCell<PerOwner<Shared, ThreadScopes>> = const { RefCell::new(PerOwner::new()) };
}

/// Spans entered while a thread's locals are destroyed are ignored.
fn with_scopes(body: impl FnOnce(&mut PerOwner<Shared, ThreadScopes>)) {
    let _ = SCOPES.try_with(|scopes| {
        if let Ok(mut scopes) = scopes.try_borrow_mut() {
            body(&mut scopes);
        }
    });
}

/// State shared by all threads. Lock `threads` before any thread's tree.
#[derive(Debug)]
struct Shared {
    root: Arc<Mutex<TimerTree>>,
    threads: Mutex<Threads>,
}

#[derive(Debug)]
struct Threads {
    /// A node below the root for each kind of thread that has ended.
    ended: TimerTree,
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    kind: String,
    tree: Arc<Mutex<TimerTree>>,
}

impl Threads {
    fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.running.is_empty()
    }
}

impl Running {
    fn merge_into(&self, threads: &mut TimerTree) {
        let mut own = lock(&self.tree);
        threads.merge(&mut own, Some(&self.kind), Work::Parallel, RootTime::Refreshed);
    }
}

impl Shared {
    /// Lists the current thread.
    fn register(&self) -> ThreadScopes {
        let kind = kind_of_thread(thread::current().name());
        let tree = Arc::new(Mutex::new(TimerTree::with_clock(SystemClock::new(), [])));
        lock(&self.threads).running.push(Running { kind: kind.clone(), tree: Arc::clone(&tree) });
        ThreadScopes { tree, kind: Some(kind), entered: Vec::new() }
    }
}

/// The current thread's entry.
struct ThreadScopes {
    tree: Arc<Mutex<TimerTree>>,
    /// `None` for the root's thread.
    kind: Option<String>,
    /// Open spans, in order of entry.
    entered: Vec<(u64, ScopeId)>,
}

impl ThreadScopes {
    fn enter(&mut self, span: u64, name: &str) {
        let scope = lock(&self.tree).enter(name);
        if scope.is_counted() {
            self.entered.push((span, scope));
        }
    }

    fn exit(&mut self, span: u64) {
        if let Some(at) = self.entered.iter().rposition(|(entered, _)| *entered == span) {
            let (_, scope) = self.entered.remove(at);
            lock(&self.tree).exit(scope);
        }
    }
}

impl AtThreadEnd<Shared> for ThreadScopes {
    fn hand_over(&mut self, owner: &Arc<Shared>) {
        if self.kind.is_none() {
            return;
        }
        let mut threads = lock(&owner.threads);
        if let Some(at) = threads.running.iter().position(|running| Arc::ptr_eq(&running.tree, &self.tree)) {
            let ending = threads.running.swap_remove(at);
            ending.merge_into(&mut threads.ended);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
