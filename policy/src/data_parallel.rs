//! One network on several devices: each takes some columns of a batch.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::thread::Builder;

use crate::error::check_len;
use crate::loaded::{Place, Shard, deal};
use crate::network::Kept;
use crate::params::check_layout;
use crate::{
    Input, LoadedObs, Memory, Network, NetworkShape, ObsLoader, ObsRef, OutputGrads, Outputs, ParamLayout, Params,
    PolicyError,
};

/// Replicas of a network on several devices, each of which learns from some columns of a batch.
///
/// All get the same weights, their outputs are joined before the loss, and their gradients are added in the
/// order of the devices, so the result is that of one network but for the order of sums. The
/// [loader](Network::obs_loader) distributes columns ahead; otherwise the pass does. Rows of a feed-forward
/// network are columns of one step.
///
/// *Threads*: the calling thread drives the first device, and a thread for the length of a pass each other
/// one. Acting uses the first alone, unless observations are distributed already.
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
    replicas: Vec<Replica>,
    /// Columns not distributed ahead.
    dealt: Vec<Shard>,
    /// Replicas with a part of the last batch that was learned from.
    used: usize,
    kept: Option<Kept>,
}

/// A network with the outputs for its part of a batch.
struct Replica {
    network: Box<dyn Network>,
    /// Its rows of the batch, a range for each step.
    rows: Vec<Range<usize>>,
    memory: Option<(Vec<f32>, Vec<bool>)>,
    out: Outputs,
    grads: OutputGrads,
    grad: Vec<f32>,
}

impl DataParallel {
    /// Joins replicas.
    ///
    /// # Errors
    /// No replica, or one that differs from the first.
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
        let replicas = networks.into_iter().map(Replica::new).collect();
        Ok(Self { shape, layout, replicas, dealt: Vec::new(), used: 0, kept: None })
    }

    /// The number of replicas.
    pub fn n_devices(&self) -> usize {
        self.replicas.len()
    }
}

impl Replica {
    fn new(network: Box<dyn Network>) -> Self {
        Self {
            network,
            rows: Vec::new(),
            memory: None,
            out: Outputs::default(),
            grads: OutputGrads::default(),
            grad: Vec::new(),
        }
    }

    /// Runs forward on its columns of a batch. A pass for acting keeps the activations for learning.
    fn run(
        &mut self,
        pass: Pass,
        params: &Params,
        whole: Option<Memory<'_>>,
        shard: &Shard,
    ) -> Result<(), PolicyError> {
        let state_len = self.network.shape().state_len;
        let memory = whole.map(|whole| {
            let (mut state, mut starts) = self.memory.take().unwrap_or_default();
            state.clear();
            state.extend_from_slice(&whole.state[shard.columns.start * state_len..shard.columns.end * state_len]);
            starts.clear();
            shard.rows.iter().for_each(|rows| starts.extend_from_slice(&whole.starts[rows.clone()]));
            (state, starts)
        });
        let mut input = Input::new(shard.obs(), shard.n_rows());
        if let Some((state, starts)) = &memory {
            input = input.with_memory(Memory { state, starts });
        }
        if !matches!(shard.on_device.place, Place::Nowhere) {
            input = input.with_loaded(&shard.on_device);
        }
        let result = match pass {
            Pass::Acting => self.network.forward(params, &input, &mut self.out),
            Pass::Learning => {
                self.rows.clone_from(&shard.rows);
                self.network.forward_for_learning(params, &input, &mut self.out)
            }
        };
        self.memory = memory;
        result
    }

    fn go_back(&mut self, params: &Params) -> Result<(), PolicyError> {
        self.grad.resize(params.values().len(), 0.0);
        self.network.backward(params, &self.grads, &mut self.grad)
    }

    /// Copies its outputs into those of the batch.
    fn put_outputs(&self, shard: &Shard, out: &mut Outputs, dist_len: usize) {
        let mut at = 0;
        for rows in &shard.rows {
            let own = at..at + rows.len();
            let logits = rows.start * dist_len..rows.end * dist_len;
            out.logits[logits].copy_from_slice(&self.out.logits[own.start * dist_len..own.end * dist_len]);
            out.values[rows.clone()].copy_from_slice(&self.out.values[own]);
            at += rows.len();
        }
    }

    /// Copies its rows of the outputs' gradients.
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
        match input.loaded.map(|loaded| &loaded.place) {
            Some(Place::Shards(shards)) => self.run(Pass::Acting, params, input, shards, out),
            _ => {
                input.check(&self.shape)?;
                self.replicas[0].network.forward(params, &Input { loaded: None, ..*input }, out)
            }
        }
    }

    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError> {
        self.kept = None;
        let mut dealt = std::mem::take(&mut self.dealt);
        let shards = match input.loaded.map(|loaded| &loaded.place) {
            Some(Place::Shards(shards)) => shards,
            _ => {
                input.check(&self.shape)?;
                let columns = input.memory.map_or(input.rows, |memory| memory.columns(self.shape.state_len));
                deal(input.obs, input.rows, columns, self.replicas.len(), &mut dealt);
                &dealt
            }
        };
        let result = self.run(Pass::Learning, params, input, shards, out);
        self.used = shards.len();
        self.dealt = dealt;
        self.kept = result.is_ok().then(|| Kept::of(params, input));
        result
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("parameter gradient", self.layout.len(), grad.len())?;
        Kept::check(self.kept.take(), params, grads, &self.shape)?;
        let (replicas, dist_len) = (&mut self.replicas[..self.used], self.shape.dist_len);
        replicas.iter_mut().for_each(|replica| replica.take_grads(grads, dist_len));
        on_all(replicas, |_, replica| replica.go_back(params))?;
        grad.fill(0.0);
        for replica in replicas {
            grad.iter_mut().zip(&replica.grad).for_each(|(sum, own)| *sum += own);
        }
        Ok(())
    }

    fn first_params(&self, seed: u64) -> Option<Params> {
        self.replicas[0].network.first_params(seed)
    }

    fn obs_loader(&self) -> Option<Arc<dyn ObsLoader>> {
        let loaders = self.replicas.iter().map(|replica| replica.network.obs_loader()).collect();
        Some(Arc::new(Dealer { obs_len: self.shape.obs.obs_len(), loaders }))
    }
}

/// Whether a pass is followed by `backward`.
#[derive(Clone, Copy)]
enum Pass {
    Acting,
    Learning,
}

impl DataParallel {
    /// Runs every replica on its shard and joins their outputs.
    fn run(
        &mut self,
        pass: Pass,
        params: &Params,
        input: &Input<'_>,
        shards: &[Shard],
        out: &mut Outputs,
    ) -> Result<(), PolicyError> {
        check_layout(&self.layout, params.layout())?;
        input.check(&self.shape)?;
        check_len("devices that were loaded", shards.len().min(self.replicas.len()), shards.len())?;
        if let Some(memory) = input.memory {
            let loaded = shards.iter().map(|shard| shard.columns.len()).sum();
            check_len("columns that were loaded", memory.columns(self.shape.state_len), loaded)?;
        }
        out.resize_for(input, &self.shape);
        let (replicas, dist_len) = (&mut self.replicas[..shards.len()], self.shape.dist_len);
        on_all(replicas, |i, replica| replica.run(pass, params, input.memory, &shards[i]))?;
        for (replica, shard) in replicas.iter().zip(shards) {
            replica.put_outputs(shard, out, dist_len);
        }
        let states = replicas.iter().flat_map(|replica| &replica.out.state);
        out.state.iter_mut().zip(states).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

/// Distributes columns to devices, and copies them there if a device has a loader.
struct Dealer {
    obs_len: usize,
    loaders: Vec<Option<Arc<dyn ObsLoader>>>,
}

impl ObsLoader for Dealer {
    fn load(&self, obs: ObsRef<'_>, columns: usize, into: &mut LoadedObs) -> Result<(), PolicyError> {
        let row = (self.obs_len * columns).max(1);
        check_len("observations", obs.len() / row * row, obs.len())?;
        let rows = obs.len() / self.obs_len;
        let mut shards = match std::mem::take(into).place {
            Place::Shards(shards) => shards,
            Place::Nowhere | Place::Device(_) => Vec::new(),
        };
        deal(obs, rows, columns, self.loaders.len(), &mut shards);
        for (shard, loader) in shards.iter_mut().zip(&self.loaders) {
            if let Some(loader) = loader {
                // It replaces what is there itself, after a call of the device.
                let mut there = std::mem::take(&mut shard.on_device);
                loader.load(shard.obs(), shard.columns.len(), &mut there)?;
                shard.on_device = there;
            }
        }
        *into = LoadedObs { rows, place: Place::Shards(shards) };
        Ok(())
    }
}

/// Runs `work` on every replica, the first on the calling thread. Returns the first failure in device order.
fn on_all(
    replicas: &mut [Replica],
    work: impl Fn(usize, &mut Replica) -> Result<(), PolicyError> + Sync,
) -> Result<(), PolicyError> {
    let threads = replicas.len();
    let Some((first, others)) = replicas.split_first_mut() else { return Ok(()) };
    std::thread::scope(|scope| {
        let work = &work;
        let spawn =
            |(i, replica)| Builder::new().name(format!("device-{i}")).spawn_scoped(scope, move || work(i, replica));
        let running: Vec<_> = (1..).zip(others).map(spawn).collect();
        let mut result = work(0, first);
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
