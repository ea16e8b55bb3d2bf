//! One network on several devices: each takes some columns of a batch.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::thread::Builder;

use crate::network::{Kept, check_layout};
use crate::{Input, Memory, Network, NetworkShape, ObsRef, OutputGrads, Outputs, ParamLayout, Params, PolicyError};

/// Several networks of one layout that learn from a batch together, each from some of its columns: replicas of a policy on
/// as many devices.
///
/// All are handed the same weights, so they cannot drift apart. What they put out is joined before the loss, and their
/// gradients are added in the order of the devices: the result is that of one network on the whole batch, whatever the
/// loss is, but for the order of sums. Rows of a network without memory are columns of one step.
///
/// *Threads*: the first device is driven by the calling thread, each other one by a thread for the length of a pass.
/// Acting uses the first alone.
///
/// ```
/// use pronk_policy::{CpuNetwork, DataParallel, Network, NetworkSpec, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let replica = || Ok(Box::new(CpuNetwork::new(&spec)?) as Box<dyn Network>);
/// let network = DataParallel::new(vec![replica()?, replica()?])?;
/// assert_eq!(network.n_devices(), 2);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub struct DataParallel {
    shape: NetworkShape,
    layout: Arc<ParamLayout>,
    shards: Vec<Shard>,
    /// How many of them have a part of the batch that was learned from last.
    used: usize,
    kept: Option<Kept>,
}

/// A replica with its part of a batch.
struct Shard {
    network: Box<dyn Network>,
    /// Which rows of the batch, a range for each step.
    rows: Vec<Range<usize>>,
    floats: Vec<f32>,
    bytes: Vec<u8>,
    memory: Option<(Vec<f32>, Vec<bool>)>,
    out: Outputs,
    grads: OutputGrads,
    grad: Vec<f32>,
}

impl DataParallel {
    /// Joins replicas.
    ///
    /// # Errors
    /// There is none, or one of them is unlike the first.
    pub fn new(networks: Vec<Box<dyn Network>>) -> Result<Self, PolicyError> {
        let Some(first) = networks.first() else {
            return Err(PolicyError::BadSpec { reason: "there is no device to put a network on".to_owned() });
        };
        let (shape, layout) = (first.shape().clone(), Arc::clone(first.layout()));
        for network in &networks {
            layout.check_same(network.layout())?;
            if *network.shape() != shape {
                let (got, shape) = (network.shape(), &shape);
                let reason = format!("a replica has the shape {got:?} and the first one {shape:?}");
                return Err(PolicyError::BadSpec { reason });
            }
        }
        let shards = networks.into_iter().map(Shard::new).collect();
        Ok(Self { shape, layout, shards, used: 0, kept: None })
    }

    /// How many replicas there are.
    pub fn n_devices(&self) -> usize {
        self.shards.len()
    }

    /// Deals the columns of a batch out, as evenly as they go; devices beyond the number of columns get none.
    fn deal(&mut self, input: &Input<'_>) {
        let (obs_len, state_len) = (self.shape.obs.obs_len(), self.shape.state_len);
        let columns = input.memory.map_or(input.rows, |memory| memory.columns(state_len));
        let steps = input.rows.checked_div(columns).unwrap_or(0);
        self.used = self.shards.len().min(columns).max(1);
        let mut first = 0;
        for (i, shard) in self.shards[..self.used].iter_mut().enumerate() {
            let own = columns / self.used + usize::from(i < columns % self.used);
            shard.rows.clear();
            shard.rows.extend((0..steps).map(|step| step * columns + first..step * columns + first + own));
            shard.load(input, obs_len, first * state_len..(first + own) * state_len);
            first += own;
        }
    }
}

impl Shard {
    fn new(network: Box<dyn Network>) -> Self {
        Self {
            network,
            rows: Vec::new(),
            floats: Vec::new(),
            bytes: Vec::new(),
            memory: None,
            out: Outputs::default(),
            grads: OutputGrads::default(),
            grad: Vec::new(),
        }
    }

    fn n_rows(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }

    /// Copies its rows of a batch.
    fn load(&mut self, input: &Input<'_>, obs_len: usize, state: Range<usize>) {
        self.floats.clear();
        self.bytes.clear();
        let Self { rows, floats, bytes, memory, .. } = self;
        for rows in rows.iter() {
            let numbers = rows.start * obs_len..rows.end * obs_len;
            match input.obs {
                ObsRef::F32(obs) => floats.extend_from_slice(&obs[numbers]),
                ObsRef::U8(obs) => bytes.extend_from_slice(&obs[numbers]),
            }
        }
        *memory = input.memory.map(|whole| {
            let (mut own_state, mut own_starts) = memory.take().unwrap_or_default();
            own_state.clear();
            own_state.extend_from_slice(&whole.state[state]);
            own_starts.clear();
            rows.iter().for_each(|rows| own_starts.extend_from_slice(&whole.starts[rows.clone()]));
            (own_state, own_starts)
        });
    }

    fn learn(&mut self, params: &Params, of_bytes: bool) -> Result<(), PolicyError> {
        let obs = if of_bytes { ObsRef::U8(&self.bytes) } else { ObsRef::F32(&self.floats) };
        let mut input = Input::new(obs, self.n_rows());
        if let Some((state, starts)) = &self.memory {
            input = input.with_memory(Memory { state, starts });
        }
        self.network.forward_for_learning(params, &input, &mut self.out)
    }

    fn go_back(&mut self, params: &Params) -> Result<(), PolicyError> {
        self.grad.resize(params.values().len(), 0.0);
        self.network.backward(params, &self.grads, &mut self.grad)
    }

    /// Copies its outputs to where they belong in those of the batch.
    fn put_outputs(&self, out: &mut Outputs, dist_len: usize) {
        let mut at = 0;
        for rows in &self.rows {
            let own = at..at + rows.len();
            let logits = rows.start * dist_len..rows.end * dist_len;
            out.logits[logits].copy_from_slice(&self.out.logits[own.start * dist_len..own.end * dist_len]);
            out.values[rows.clone()].copy_from_slice(&self.out.values[own]);
            at += rows.len();
        }
    }

    /// Takes its rows of the outputs' gradients.
    fn take_grads(&mut self, grads: &OutputGrads, dist_len: usize) {
        self.grads.logits.clear();
        self.grads.values.clear();
        for rows in &self.rows {
            self.grads.logits.extend_from_slice(&grads.logits[rows.start * dist_len..rows.end * dist_len]);
            self.grads.values.extend_from_slice(&grads.values[rows.clone()]);
        }
    }
}

impl Network for DataParallel {
    fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.shards[0].network.forward(params, input, out)
    }

    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError> {
        self.kept = None;
        check_layout(&self.layout, params.layout())?;
        input.check(&self.shape)?;
        out.resize_for(input, &self.shape);
        self.deal(input);
        let of_bytes = matches!(input.obs, ObsRef::U8(_));
        let (shards, dist_len) = (&mut self.shards[..self.used], self.shape.dist_len);
        on_all(shards, |shard| shard.learn(params, of_bytes))?;
        shards.iter().for_each(|shard| shard.put_outputs(out, dist_len));
        let states = shards.iter().flat_map(|shard| &shard.out.state);
        out.state.iter_mut().zip(states).for_each(|(to, from)| *to = *from);
        self.kept = Some(Kept::of(params, input));
        Ok(())
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        crate::error::check_len("parameter gradient", self.layout.len(), grad.len())?;
        Kept::check(self.kept.take(), params, grads, &self.shape)?;
        let (shards, dist_len) = (&mut self.shards[..self.used], self.shape.dist_len);
        shards.iter_mut().for_each(|shard| shard.take_grads(grads, dist_len));
        on_all(shards, |shard| shard.go_back(params))?;
        grad.fill(0.0);
        for shard in shards {
            grad.iter_mut().zip(&shard.grad).for_each(|(sum, own)| *sum += own);
        }
        Ok(())
    }
}

/// Has every shard do its work, the first on the calling thread. The first device's failure goes before the others'.
fn on_all(
    shards: &mut [Shard],
    work: impl Fn(&mut Shard) -> Result<(), PolicyError> + Sync,
) -> Result<(), PolicyError> {
    let threads = shards.len();
    let Some((first, others)) = shards.split_first_mut() else { return Ok(()) };
    std::thread::scope(|scope| {
        let work = &work;
        let spawn = |(i, shard)| Builder::new().name(format!("device-{i}")).spawn_scoped(scope, move || work(shard));
        let running: Vec<_> = (1..).zip(others).map(spawn).collect();
        let mut result = work(first);
        for thread in running {
            let other = match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(other)) => other,
                Ok(Err(panic)) => Err(PolicyError::Panicked { message: crate::error::panic_text(panic) }),
                Err(source) => Err(PolicyError::Threads { threads, source }),
            };
            result = result.and(other);
        }
        result
    })
}
