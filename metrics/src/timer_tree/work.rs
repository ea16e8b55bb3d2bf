/// Whether merged timers ran in parallel or in sequence. A node merged as parallel stays parallel.
///
/// ```
/// use pronk_metrics::{RootTime, TimerTree, Work};
///
/// let (mut main, mut worker) = (TimerTree::new(), TimerTree::new());
/// main.merge(&mut worker, Some("worker"), Work::Parallel, RootTime::Refreshed);
/// assert_eq!(main.tree()["children"]["worker"]["is_parallel"], true);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// In sequence: totals are parts of the elapsed time.
    Serial,
    /// In parallel: totals can exceed the elapsed time.
    Parallel,
}
