//! ML-Agents' hierarchical timers: a tree of named scopes with totals, gauges and metadata.

mod clock;
mod gauge;
mod nodes;
mod work;

use std::ops::{Deref, DerefMut};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use nodes::{NodeId, Nodes};

pub use work::Work;

pub use clock::{SystemClock, TreeClock};
pub use gauge::Gauge;

/// The timers of one thread as a tree of nested scopes, in order of first use, with the seconds and the
/// number of finished scopes; gauges with their newest, smallest and largest value; and metadata.
/// [`tree`](TimerTree::tree) returns all in ML-Agents' layout.
///
/// Scopes nested deeper than 56 are not counted, so that every JSON parser can read the tree.
///
/// ```
/// use pronk_metrics::TimerTree;
///
/// let mut timers = TimerTree::new();
/// {
///     let mut update = timers.scope("update");
///     drop(update.scope("load"));
///     drop(update.scope("load"));
///     update.set_gauge("loss", 0.5);
/// }
/// let tree = timers.tree();
/// assert_eq!(tree["children"]["update"]["children"]["load"]["count"], 2);
/// assert_eq!(tree["gauges"]["loss"]["value"], 0.5);
/// ```
#[derive(Clone, Debug)]
pub struct TimerTree<C: TreeClock = SystemClock> {
    clock: C,
    first_metadata: Vec<(String, String)>,
    metadata: IndexMap<String, String>,
    gauges: IndexMap<String, Gauge>,
    nodes: Nodes,
    open: Vec<OpenScope>,
    n_opened: u64,
    started_secs: f64,
}

impl TimerTree {
    /// An empty tree on the system's clock, whose metadata has `pronk_version` and `command_line_arguments`.
    pub fn new() -> TimerTree {
        let arguments: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let metadata = [("pronk_version", env!("CARGO_PKG_VERSION")), ("command_line_arguments", &arguments.join(" "))];
        TimerTree::with_clock(SystemClock::new(), metadata)
    }
}

impl Default for TimerTree {
    fn default() -> TimerTree {
        TimerTree::new()
    }
}

impl<C: TreeClock> TimerTree<C> {
    /// An empty tree on `clock`. `metadata` follows the format's version and the start time, and stays after
    /// a [`reset`](TimerTree::reset).
    pub fn with_clock<'a>(clock: C, metadata: impl IntoIterator<Item = (&'a str, &'a str)>) -> TimerTree<C> {
        let mut tree = TimerTree {
            clock,
            first_metadata: metadata.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned())).collect(),
            metadata: IndexMap::new(),
            gauges: IndexMap::new(),
            nodes: Nodes::new(),
            open: Vec::new(),
            n_opened: 0,
            started_secs: 0.0,
        };
        tree.reset();
        tree
    }

    /// Opens a scope until the guard, which dereferences to the tree, is dropped, even by a panic.
    ///
    /// ```
    /// let mut timers = pronk_metrics::TimerTree::new();
    /// let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
    ///     let _step = timers.scope("step");
    ///     std::panic::resume_unwind(Box::new("the step failed"));
    /// }));
    /// assert!(outcome.is_err());
    /// assert_eq!(timers.tree()["children"]["step"]["count"], 1);
    /// ```
    pub fn scope(&mut self, name: &str) -> TreeScope<'_, C> {
        let id = self.enter(name);
        TreeScope { tree: self, id }
    }

    /// Opens a scope in the innermost open one, for callers that cannot hold a guard.
    pub fn enter(&mut self, name: &str) -> ScopeId {
        if self.open.len() >= MAX_OPEN {
            return ScopeId(None);
        }
        let node = self.nodes.child(self.innermost(), name);
        let id = ScopeId(Some(self.n_opened));
        self.n_opened += 1;
        self.open.push(OpenScope { id, node, opened_secs: self.clock.monotonic_secs() });
        id
    }

    /// Ends a scope; scopes inside it stay open. Does nothing if it is not open.
    pub fn exit(&mut self, scope: ScopeId) {
        if let Some(at) = self.open.iter().rposition(|open| open.id == scope) {
            let now_secs = self.clock.monotonic_secs();
            let open = self.open.remove(at);
            self.nodes.add(open.node, elapsed(open.opened_secs, now_secs));
        }
    }

    /// Sets a gauge, which its first value makes. Ignores NaN.
    pub fn set_gauge(&mut self, name: &str, value: f64) {
        if value.is_nan() {
            return;
        }
        let unix_secs = self.clock.unix_secs();
        match self.gauges.get(name) {
            Some(gauge) => gauge.set(value, unix_secs),
            None => {
                self.gauges.insert(name.to_owned(), Gauge::new(value, unix_secs));
            }
        }
    }

    /// A live handle on a gauge.
    pub fn gauge(&self, name: &str) -> Option<Gauge> {
        self.gauges.get(name).cloned()
    }

    /// Sets an entry of the metadata.
    pub fn add_metadata(&mut self, key: &str, text: impl Into<String>) {
        self.metadata.insert(key.to_owned(), text.into());
    }

    /// Adds the nodes of `source` to the innermost open node, or to its child `root_name` unless that is
    /// empty: totals and counts add up, and children merge by name.
    pub fn merge<D: TreeClock>(
        &mut self,
        source: &mut TimerTree<D>,
        root_name: Option<&str>,
        work: Work,
        root_time: RootTime,
    ) {
        if root_time == RootTime::Refreshed {
            source.refresh();
        }
        let here = self.innermost();
        let target = match root_name {
            Some(name) if !name.is_empty() => self.nodes.child(here, name),
            _ => here,
        };
        self.nodes.merge(target, &source.nodes, Nodes::ROOT, work);
    }

    /// Adds the nodes below the root of `source` to those below the innermost open node.
    pub(crate) fn merge_children<D: TreeClock>(&mut self, source: &TimerTree<D>, work: Work) {
        self.nodes.merge_children(self.innermost(), &source.nodes, Nodes::ROOT, work);
    }

    /// Merges the gauges of `source`: the newer value stays, its own if both are equally old, and counts add
    /// up. A gauge unknown here is then shared with `source`, as in the original.
    pub fn merge_gauges<D: TreeClock>(&mut self, source: &TimerTree<D>) {
        for (name, theirs) in &source.gauges {
            match self.gauges.get(name) {
                Some(own) => own.merge(theirs),
                None => {
                    self.gauges.insert(name.clone(), theirs.clone());
                }
            }
        }
    }

    /// Removes nodes, gauges and later metadata. Open scopes do not count.
    pub fn reset(&mut self) {
        self.nodes = Nodes::new();
        self.open.clear();
        self.gauges.clear();
        self.started_secs = self.clock.monotonic_secs();
        self.metadata.clear();
        self.add_metadata("timer_format_version", FORMAT_VERSION);
        self.add_metadata("start_time_seconds", whole(self.clock.unix_secs()));
        self.metadata.extend(self.first_metadata.iter().cloned());
    }

    /// The tree in ML-Agents' layout, with the keys `name`, `gauges`, `metadata`, `total`,
    /// `count`, `is_parallel`, `self`, `children`.
    ///
    /// The root's total is the time since the start. Open scopes show the time of finished ones only, so
    /// children can have more than their parent; a node's `self` is never negative.
    pub fn tree(&mut self) -> Value {
        self.refresh();
        self.add_metadata("end_time_seconds", whole(self.clock.unix_secs()));
        let mut tree = Map::new();
        tree.insert("name".to_owned(), Value::from("root"));
        if !self.gauges.is_empty() {
            let gauges: Map<String, Value> = self.gauges.iter().map(|(name, g)| (name.clone(), g.to_json())).collect();
            tree.insert("gauges".to_owned(), Value::from(gauges));
        }
        let metadata = self.metadata.iter().map(|(key, text)| (key.clone(), Value::from(text.as_str())));
        tree.insert("metadata".to_owned(), metadata.collect::<Map<_, _>>().into());
        self.nodes.write(Nodes::ROOT, &mut tree);
        Value::from(tree)
    }

    /// Discards all open scopes.
    pub(crate) fn abandon_open(&mut self) {
        self.open.clear();
    }

    /// Whether no scope was ever opened or merged.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn refresh(&mut self) {
        let total_secs = elapsed(self.started_secs, self.clock.monotonic_secs());
        self.nodes.set(Nodes::ROOT, total_secs, 1);
    }

    fn innermost(&self) -> NodeId {
        self.open.last().map_or(Nodes::ROOT, |open| open.node)
    }
}

/// The time of a merged tree's root.
///
/// ```
/// use pronk_metrics::{RootTime, TimerTree, Work};
///
/// let (mut main, mut worker) = (TimerTree::new(), TimerTree::new());
/// main.merge(&mut worker, Some("raw"), Work::Parallel, RootTime::Raw);
/// main.merge(&mut worker, Some("real"), Work::Parallel, RootTime::Refreshed);
/// let tree = main.tree();
/// assert_eq!((&tree["children"]["raw"]["count"], &tree["children"]["real"]["count"]), (&0.into(), &1.into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootTime {
    /// The time at the last call of `tree`, or 0.
    Raw,
    /// The time since its start.
    Refreshed,
}

/// A scope, from [`TimerTree::enter`] for [`TimerTree::exit`].
///
/// ```
/// let mut timers = pronk_metrics::TimerTree::new();
/// let (outer, inner) = (timers.enter("outer"), timers.enter("inner"));
/// timers.exit(outer);
/// timers.exit(inner);
/// timers.exit(inner);
/// assert_eq!(timers.tree()["children"]["outer"]["children"]["inner"]["count"], 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeId(Option<u64>);

impl ScopeId {
    /// Whether the scope counts: it is not nested too deeply.
    pub(crate) fn is_counted(self) -> bool {
        self.0.is_some()
    }
}

/// An open scope; dropping it ends the scope. Dereferences to the tree, to open scopes inside it.
///
/// ```
/// let mut timers = pronk_metrics::TimerTree::new();
/// let mut rollout = timers.scope("rollout");
/// drop(rollout.scope("step"));
/// drop(rollout);
/// assert_eq!(timers.tree()["children"]["rollout"]["children"]["step"]["count"], 1);
/// ```
#[derive(Debug)]
#[must_use = "the scope ends at once when its guard is not kept"]
pub struct TreeScope<'a, C: TreeClock = SystemClock> {
    tree: &'a mut TimerTree<C>,
    id: ScopeId,
}

impl<C: TreeClock> Deref for TreeScope<'_, C> {
    type Target = TimerTree<C>;

    fn deref(&self) -> &TimerTree<C> {
        self.tree
    }
}

impl<C: TreeClock> DerefMut for TreeScope<'_, C> {
    fn deref_mut(&mut self) -> &mut TimerTree<C> {
        self.tree
    }
}

impl<C: TreeClock> Drop for TreeScope<'_, C> {
    fn drop(&mut self) {
        self.tree.exit(self.id);
    }
}

#[derive(Clone, Debug)]
struct OpenScope {
    id: ScopeId,
    node: NodeId,
    opened_secs: f64,
}

const FORMAT_VERSION: &str = "0.1.0";

/// A node takes two levels of JSON, and parsers stop at 128; this leaves room for two more nodes.
const MAX_OPEN: usize = 56;

/// Never negative, even if the clock was set back.
fn elapsed(from_secs: f64, to_secs: f64) -> f64 {
    (to_secs - from_secs).max(0.0)
}

fn whole(secs: f64) -> String {
    (secs as i64).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
