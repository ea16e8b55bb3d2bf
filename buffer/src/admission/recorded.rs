use std::collections::BTreeMap;

use super::ends::{Lanes, Order, Permit, WorkerEnds, lanes};
use super::in_order::InOrder;
use crate::sync::Arc;
use crate::sync::channel::bounded;
use crate::{ShutdownToken, Versioned, WeightPublisher};

/// The turn of a fragment that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedTurn {
    /// Which worker sampled it, from 0.
    pub worker: usize,
    /// The worker's incarnation.
    pub incarnation: u32,
    /// The version of the weights that it was sampled with.
    pub version: u64,
    /// The newest version when the learner took it.
    pub taken_at: u64,
}

/// Makes the edges of a run that repeats a recorded one: each fragment is sampled by the worker, in the
/// incarnation and with the version of the record, and the source passes them in the order of `turns`.
///
/// A turn is granted as soon as `publisher` has published its version, so workers run ahead of the learner
/// only as far as they did then. The source ends with the last turn.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_buffer::{RecordedTurn, recorded_turns, shutdown, weight_cell};
///
/// let (_guard, token) = shutdown();
/// let (mut publisher, _cell) = weight_cell("first weights");
/// let turn = |worker, version| RecordedTurn { worker, incarnation: 0, version, taken_at: version };
/// let (ends, _fragments) = recorded_turns(&[turn(1, 0), turn(0, 1)], 2, &mut publisher, &token);
///
/// let version = |worker: usize| ends[worker].weights.wait(&mut ()).ok()?.turn().map(|turn| turn.weights.version);
/// assert_eq!(version(1), Some(0));
/// publisher.publish("second weights");
/// assert_eq!(version(0), Some(1));
/// ```
pub fn recorded_turns<W: Send + Sync + 'static>(
    turns: &[RecordedTurn],
    workers: usize,
    publisher: &mut WeightPublisher<W>,
    token: &ShutdownToken,
) -> (Vec<WorkerEnds<W>>, InOrder<W>) {
    let (order, ordered) = bounded(turns.len());
    let mut of_version: BTreeMap<u64, Vec<(usize, u32)>> = BTreeMap::new();
    for turn in turns {
        // There is room for all of them.
        let _ = order.try_send(turn.worker);
        of_version.entry(turn.version).or_default().push((turn.worker, turn.incarnation));
    }
    let Lanes { permits, ends, lanes } = lanes(most_in_circulation(turns, workers), token);
    let mut grant = move |weights: &Arc<Versioned<W>>| {
        for (worker, incarnation) in of_version.remove(&weights.version).unwrap_or_default() {
            let permit = Permit { weights: Arc::clone(weights), fragments: 1, incarnation: Some(incarnation) };
            // Refused only by a worker that has given up: its closed lane ends the source.
            let _ = permits[worker].try_send(Order::Permit(permit));
        }
    };
    grant(&publisher.cell().load());
    publisher.on_publish(grant);
    (ends, InOrder::new(lanes, ordered, None, token.clone()))
}

/// For each worker, how many of its turns were granted but not taken at most: the room that its channels
/// need.
fn most_in_circulation(turns: &[RecordedTurn], workers: usize) -> Vec<usize> {
    let mut versions = vec![Vec::new(); workers];
    for turn in turns {
        versions[turn.worker].push(turn.version);
    }
    let (mut granted, mut taken, mut most) = (vec![0; workers], vec![0; workers], vec![1; workers]);
    for turn in turns {
        for worker in 0..workers {
            while versions[worker].get(granted[worker]).is_some_and(|version| *version <= turn.taken_at) {
                granted[worker] += 1;
            }
            most[worker] = most[worker].max(granted[worker] - taken[worker]);
        }
        taken[turn.worker] += 1;
    }
    most
}
