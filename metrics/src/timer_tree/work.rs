/// Whether merged timers ran beside each other or one after the other. Once merged as parallel, a node stays
/// so.
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
    /// One after the other: totals are parts of the time that passed.
    Serial,
    /// Beside each other: totals can be more than the time that passed.
    Parallel,
}
