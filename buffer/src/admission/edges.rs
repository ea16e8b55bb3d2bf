use super::ends::{Lanes, WorkerEnds, lanes};
use super::in_order::InOrder;
use super::turns::{TurnConfig, Turns};
use crate::sync::channel::bounded;
use crate::{ShutdownToken, WeightCell};

/// Makes the turns of a run, the workers' ends, and the source of their fragments.
///
/// The `i`-th batch of the source has the fragments of turns `i · F` to `(i + 1) · F - 1`, whichever worker
/// was faster; they were sampled with the weights of the [`grant`](Turns::grant) before batch
/// `max(0, i - K)`.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
///
/// use pronk_buffer::{Source, TurnConfig, WeightSource, shutdown, turns, weight_cell};
/// # use pronk_buffer::{ActionKind, BatchShape, MultiAgentBatch, ObsKind, SampleBatch, Tag};
/// # let shape = BatchShape {
/// #     steps: 1,
/// #     columns: 1,
/// #     obs_len: 4,
/// #     obs_kind: ObsKind::F32,
/// #     act_len: 1,
/// #     act_kind: ActionKind::U32,
/// #     dist_len: 2,
/// #     state_len: 0,
/// # };
/// # let fragment = |worker| MultiAgentBatch::single(SampleBatch::blank(shape, Tag { worker, ..Tag::default() }));
///
/// let (_guard, token) = shutdown();
/// let (_publisher, cell) = weight_cell("weights");
/// let two = NonZeroUsize::MIN.saturating_add(1);
/// let config = TurnConfig { workers: two, fragments_of_a_batch: two, lag: 0, env_steps_of_a_fragment: 1 };
/// let (turns, ends, mut fragments) = turns(config, &cell, &token);
/// turns.begin(None);
///
/// // The second worker is faster.
/// for worker in [1, 0] {
///     ends[worker].weights.wait(&mut ())?;
///     ends[worker].weights.done();
///     ends[worker].fragments.push(fragment(worker as u32), &mut ())?;
/// }
/// let first = fragments.next(Duration::ZERO)?;
/// assert!(first.policies().all(|(_, part)| part.tags()[0].worker == 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn turns<W>(
    config: TurnConfig,
    weights: &WeightCell<W>,
    token: &ShutdownToken,
) -> (Turns<W>, Vec<WorkerEnds<W>>, InOrder<W>) {
    let in_circulation = (config.lag + 1) * config.fragments_of_a_batch.get();
    let (order, ordered) = bounded(in_circulation);
    let Lanes { permits, ends, lanes } = lanes(vec![in_circulation; config.workers.get()], token);
    let turns = Turns::new(config, weights, permits, order);
    let in_order = InOrder::new(lanes, ordered, Some(turns.clone()), token.clone());
    (turns, ends, in_order)
}
