//! Observations copied to a network's device ahead of learning.

use std::fmt;
use std::ops::Range;

use candle_core::Tensor;

use crate::{ObsRef, PolicyError};

/// Copies observations to a network's device, on other threads, while the network learns from earlier
/// batches: see [`Network::obs_loader`](crate::Network::obs_loader).
pub trait ObsLoader: Send + Sync {
    /// Loads `obs`, `[steps, columns, obs_len]`, into `into`, in place of its old contents.
    ///
    /// # Errors
    /// Observations of another length, and failures of the device.
    fn load(&self, obs: ObsRef<'_>, columns: usize, into: &mut LoadedObs) -> Result<(), PolicyError>;

    /// Whether [`LoadedObs::columns`] has what it loads: without it, loading is of no use for minibatches.
    fn selects_columns(&self) -> bool {
        false
    }
}

/// The observations of one batch on a network's device, in reused storage. An [`ObsLoader`] fills it;
/// [`Input::with_loaded`](crate::Input::with_loaded) passes it to the loader's network.
///
/// ```
/// use pronk_policy::{CpuNetwork, DataParallel, Input, LoadedObs, Network, NetworkSpec, ObsRef, Outputs, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let replica = || Ok(Box::new(CpuNetwork::new(&spec)?) as Box<dyn Network>);
/// let mut network = DataParallel::new(vec![replica()?, replica()?])?;
///
/// let obs = [0.1; 3 * 2 * 4]; // three steps of two columns
/// let mut loaded = LoadedObs::default();
/// if let Some(loader) = network.obs_loader() {
///     loader.load(ObsRef::F32(&obs), 2, &mut loaded)?; // may as well be done by another thread
/// }
/// let input = Input::new(ObsRef::F32(&obs), 6).with_loaded(&loaded);
/// let mut out = Outputs::default();
/// network.forward_for_learning(&spec.init_params(0)?, &input, &mut out)?;
/// assert_eq!(out.values.len(), 6);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Default)]
pub struct LoadedObs {
    pub(crate) rows: usize,
    pub(crate) place: Place,
}

/// The place of the observations.
#[derive(Default)]
pub(crate) enum Place {
    #[default]
    Nowhere,
    /// On one device, as floats in the shape of the model's input.
    Device(Tensor),
    /// Distributed to several.
    Shards(Vec<Shard>),
}

impl LoadedObs {
    /// The number of observations.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The observations of these of the batch's `of` columns, copied on the device; `None` if they are not on
    /// one device.
    ///
    /// # Errors
    /// A column that is not there, and failures of the device.
    pub fn columns(&self, columns: &[usize], of: usize) -> Result<Option<Self>, PolicyError> {
        let Place::Device(obs) = &self.place else { return Ok(None) };
        let steps = self.rows.checked_div(of).unwrap_or(0);
        let select = || {
            // A GPU would read whatever is there.
            if let Some(column) = columns.iter().find(|column| **column >= of) {
                candle_core::bail!("there is no column {column} of {of}");
            }
            let indices = columns.iter().map(|column| *column as u32).collect();
            let indices = Tensor::from_vec(indices, columns.len(), obs.device())?;
            obs.reshape([&[steps, of], &obs.dims()[1..]].concat())?.index_select(&indices, 1)?.flatten(0, 1)
        };
        let there = select().map_err(|source| PolicyError::Tensor { doing: "selecting columns", source })?;
        Ok(Some(Self { rows: steps * columns.len(), place: Place::Device(there) }))
    }
}

impl fmt::Debug for LoadedObs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.place {
            Place::Nowhere => "nowhere".to_owned(),
            Place::Device(tensor) => format!("{:?}", tensor.device()),
            Place::Shards(shards) => format!("dealt out to {}", shards.len()),
        };
        f.debug_struct("LoadedObs").field("rows", &self.rows).field("place", &place).finish()
    }
}

/// The columns of a batch for one of several devices.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// Its columns of the batch.
    pub(crate) columns: Range<usize>,
    /// Its rows of the batch, a range for each step.
    pub(crate) rows: Vec<Range<usize>>,
    /// Their observations.
    obs: ShardObs,
    /// The same on the device, if loaded.
    pub(crate) on_device: LoadedObs,
}

/// Observations in their stored type.
#[derive(Debug)]
enum ShardObs {
    F32(Vec<f32>),
    U8(Vec<u8>),
}

impl Default for ShardObs {
    fn default() -> Self {
        Self::F32(Vec::new())
    }
}

impl ShardObs {
    /// Copies these rows of `obs`, in the old storage if it has their type.
    fn take(&mut self, obs: ObsRef<'_>, obs_len: usize, rows: &[Range<usize>]) {
        fn copy<T: Copy>(to: &mut Vec<T>, from: &[T], obs_len: usize, rows: &[Range<usize>]) {
            to.clear();
            rows.iter().for_each(|rows| to.extend_from_slice(&from[rows.start * obs_len..rows.end * obs_len]));
        }
        match (&*self, obs) {
            (Self::U8(_), ObsRef::F32(_)) => *self = Self::F32(Vec::new()),
            (Self::F32(_), ObsRef::U8(_)) => *self = Self::U8(Vec::new()),
            (Self::F32(_), ObsRef::F32(_)) | (Self::U8(_), ObsRef::U8(_)) => {}
        }
        match (self, obs) {
            (Self::F32(to), ObsRef::F32(from)) => copy(to, from, obs_len, rows),
            (Self::U8(to), ObsRef::U8(from)) => copy(to, from, obs_len, rows),
            // Made the same above.
            (Self::F32(_), ObsRef::U8(_)) | (Self::U8(_), ObsRef::F32(_)) => {}
        }
    }
}

impl Shard {
    /// Its observations.
    pub(crate) fn obs(&self) -> ObsRef<'_> {
        match &self.obs {
            ShardObs::F32(obs) => ObsRef::F32(obs),
            ShardObs::U8(obs) => ObsRef::U8(obs),
        }
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }
}

/// Distributes the columns of `obs`, `[rows, obs_len]`, evenly to at most `most` shards, none of them empty
/// unless it is the only one.
pub(crate) fn deal(obs: ObsRef<'_>, rows: usize, columns: usize, most: usize, shards: &mut Vec<Shard>) {
    let steps = rows.checked_div(columns).unwrap_or(0);
    let obs_len = obs.len().checked_div(rows).unwrap_or(0);
    shards.resize_with(most.min(columns).max(1), Shard::default);
    let n = shards.len();
    let mut first = 0;
    for (i, shard) in shards.iter_mut().enumerate() {
        let own = columns / n + usize::from(i < columns % n);
        shard.columns = first..first + own;
        shard.rows.clear();
        shard.rows.extend((0..steps).map(|step| step * columns + first..step * columns + first + own));
        shard.obs.take(obs, obs_len, &shard.rows);
        first += own;
    }
}
