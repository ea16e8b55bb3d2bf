//! [`Networks`]: the networks of a run, from the config or from a user's function.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pronk_metrics::catch;
use pronk_policy::{
    CandleNetwork, CpuNetwork, DataParallel, DeviceSpec, Encoder, Helpers, Network, NetworkSpec, ParamLayout,
    PolicyError, Precision, Space, distribution_for,
};
use pronk_rollout::EnvSpec;

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::config::{ConfigError, TrainerConfig, Vision};
use crate::error::TrainError;

/// Makes a network for an environment, on a device.
pub(super) type MakeNetwork = dyn Fn(&EnvSpec, DeviceSpec) -> Result<Box<dyn Network>, PolicyError> + Send + Sync;

/// The source of networks.
pub(super) enum Networks {
    /// The config describes them.
    Described(Described),
    /// A user's function makes them.
    Own(OwnNetworks),
}

/// A description, and the precision of workers and of the learner.
pub(super) struct Described {
    spec: NetworkSpec,
    acting: Precision,
    learning: Precision,
}

/// A user's function, and the layout that all its networks must have.
pub(super) struct OwnNetworks {
    make: Arc<MakeNetwork>,
    layout: Arc<ParamLayout>,
}

impl Networks {
    /// Networks for an environment: from `own`, or else from the config. A run that `goes_on` has those that
    /// it had before, whatever the order of its axes.
    pub(super) fn new(
        own: Option<Arc<MakeNetwork>>,
        config: &TrainerConfig,
        env: &EnvSpec,
        goes_on: bool,
    ) -> Result<Self, TrainError> {
        match own {
            Some(make) => {
                config.check_own_network()?;
                Self::own(make, env)
            }
            None => Self::described(config, env, goes_on),
        }
    }

    /// The config's network for an environment.
    fn described(config: &TrainerConfig, env: &EnvSpec, goes_on: bool) -> Result<Self, TrainError> {
        let spec = NetworkSpec {
            encoder: encoder(config, &env.observation),
            torso: config.model.torso,
            lstm: config.model.use_lstm.then_some(config.model.lstm_cell_size),
            init: config.model.init,
            ..NetworkSpec::for_spaces(&env.observation, &env.action)?
        };
        match spec.encoder {
            Encoder::Mlp { .. } => {}
            Encoder::NatureCnn { .. } | Encoder::ImpalaCnn { .. } => {
                let axes = if goes_on { Ok(()) } else { check_axes(&spec.obs) };
                axes.and_then(|()| spec.check().map_err(|error| error.to_string())).map_err(|error| {
                    let reason =
                        format!("{error}; or set it to `flat`, which makes pixels the input of the hidden layers");
                    ConfigError::caused_by("model.vision", format!("{:?}", config.model.vision), &reason)
                })?;
            }
        }
        let (acting, learning) = (config.workers.acting_precision, config.learner.learning_precision);
        Ok(Self::Described(Described { spec, acting, learning }))
    }

    /// Probes a user's network and checks it against the environment.
    fn own(make: Arc<MakeNetwork>, env: &EnvSpec) -> Result<Self, TrainError> {
        // Checked first: actions without a distribution are an error for every network.
        distribution_for(&env.action)?;
        let looked_at = || {
            let network = make_one(&*make, env, DeviceSpec::Cpu)?;
            let layout = Arc::clone(network.layout());
            layout.check_names()?;
            if layout.is_empty() {
                return Err(misfit("it has no parameters, so there is nothing to learn"));
            }
            Ok(layout)
        };
        let layout = looked_at().map_err(refused)?;
        Ok(Self::Own(OwnNetworks { make, layout }))
    }

    /// The description, where there is one.
    pub(super) fn spec(&self) -> Option<&NetworkSpec> {
        match self {
            Self::Described(described) => Some(&described.spec),
            Self::Own(_) => None,
        }
    }

    /// A network to act with.
    pub(super) fn acting(&self, env: &EnvSpec) -> Result<Box<dyn Network>, PolicyError> {
        match self {
            Self::Described(Described { spec, acting, .. }) => {
                acting.check_fast()?;
                Ok(Box::new(CpuNetwork::with_precision(spec, *acting, Helpers::new(0, 0)?)?))
            }
            Self::Own(own) => own.one_more(env, DeviceSpec::Cpu),
        }
    }

    /// The learner's network, on the devices of the config.
    pub(super) fn learning(
        &self,
        config: &TrainerConfig,
        env: &EnvSpec,
        helpers: &Helpers,
    ) -> Result<Box<dyn Network>, TrainError> {
        let replica = |device: &DeviceSpec| self.on_device(*device, env, helpers);
        let mut replicas = config.learner.devices.iter().map(replica).collect::<Result<Vec<_>, _>>()?;
        match (replicas.pop(), replicas.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                replicas.extend(last);
                Ok(Box::new(DataParallel::new(replicas)?))
            }
        }
    }

    fn on_device(&self, device: DeviceSpec, env: &EnvSpec, helpers: &Helpers) -> Result<Box<dyn Network>, TrainError> {
        let Described { spec, learning, .. } = match self {
            Self::Described(described) => described,
            Self::Own(own) => return own.one_more(env, device).map_err(refused),
        };
        if device == DeviceSpec::Cpu {
            learning.check_fast()?;
            return Ok(Box::new(CpuNetwork::with_precision(spec, *learning, helpers.clone())?));
        }
        let opened = device.open().map_err(|error| ConfigError::caused_by("devices", device, &error))?;
        Ok(Box::new(CandleNetwork::new(spec.clone(), opened)?))
    }

    /// Refuses weights of another network.
    pub(super) fn check_fits(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        match (self, &checkpoint.network) {
            // Initialisation no longer matters.
            (Self::Described(Described { spec, .. }), Some(found))
                if NetworkSpec { init: spec.init, ..found.clone() } == *spec =>
            {
                Ok(())
            }
            (Self::Described(_), Some(_)) => Err(CheckpointError::DoesNotFit { what: "network" }),
            (Self::Described(_), None) => Err(CheckpointError::OwnNetwork),
            // Of a user's network only the parameters can be compared.
            (Self::Own(own), _) => own
                .layout
                .check_same(checkpoint.state.params.layout())
                .map_err(|cause| CheckpointError::OtherParams { cause }),
        }
    }
}

impl OwnNetworks {
    /// Another network, with the layout of the first.
    fn one_more(&self, env: &EnvSpec, device: DeviceSpec) -> Result<Box<dyn Network>, PolicyError> {
        let network = make_one(&*self.make, env, device)?;
        self.layout.check_same(network.layout())?;
        Ok(network)
    }
}

/// Makes a network and checks it against the environment.
fn make_one(make: &MakeNetwork, env: &EnvSpec, device: DeviceSpec) -> Result<Box<dyn Network>, PolicyError> {
    let network = catch(|| make(env, device))
        .unwrap_or_else(|panic| Err(misfit(format!("the function that makes it panicked: {panic}"))))?;
    let (shape, dist_len) = (network.shape(), distribution_for(&env.action)?.dist_len());
    if shape.obs != env.observation {
        let (reads, shows) = (&shape.obs, &env.observation);
        return Err(misfit(format!(
            "it reads {reads} and {} shows {shows}: make it for the observation space that the function is given",
            env.name
        )));
    }
    if shape.dist_len != dist_len {
        let (given, action) = (shape.dist_len, &env.action);
        return Err(misfit(format!(
            "it puts out {given} numbers and the actions of {}, {action}, are described by {dist_len}",
            env.name
        )));
    }
    Ok(network)
}

fn misfit(reason: impl Into<String>) -> PolicyError {
    PolicyError::BadSpec { reason: reason.into() }
}

fn refused(cause: PolicyError) -> TrainError {
    TrainError::Network(Box::new(cause))
}

/// Threads that the machine runs at once.
pub(super) fn available_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The threads that share the learner's updates on the CPU: workers, and others where there are no more
/// workers.
pub(super) fn helpers(config: &TrainerConfig) -> Result<Helpers, TrainError> {
    let workers = config.workers.num_rollout_workers;
    let all = config.learner.num_learner_threads.unwrap_or_else(|| match workers {
        0 => NonZeroUsize::MIN,
        _ => available_threads(),
    });
    let learning = config.learner.devices.iter().filter(|device| **device == DeviceSpec::Cpu).count();
    let helpers = match learning {
        0 => 0,
        learning => all.get().saturating_sub(learning),
    };
    Helpers::new(helpers, helpers.saturating_sub(workers))
        .map_err(|error| ConfigError::caused_by("num_learner_threads", all, &error).into())
}

/// Refuses images whose channels come last, for a network that reads them first.
fn check_axes(observation: &Space) -> Result<(), String> {
    match observation {
        Space::Box { shape, .. } => match shape[..] {
            [height, width, channels] if observation.looks_channels_last() => Err(format!(
                "observations of shape [{height}, {width}, {channels}] seem to be height × width × channels, and a \
                 convolutional network would read {height} channels of {width} × {channels} pixels: transpose them to \
                 [{channels}, {height}, {width}] in the environment"
            )),
            [channels @ (1 | 3 | 4), height, width @ (1 | 3 | 4)] if height > 4 => {
                tracing::warn!("images are read as {channels} channels × height {height} × width {width}");
                Ok(())
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The config's encoder for these observations.
fn encoder(config: &TrainerConfig, observation: &Space) -> Encoder {
    let is_image = matches!(observation, Space::Box { shape, .. } if shape.len() == 3);
    match config.model.vision {
        Vision::NatureCnn if is_image => Encoder::nature_cnn(),
        Vision::ImpalaCnn if is_image => Encoder::impala_cnn(),
        _ => Encoder::Mlp { hidden: config.model.fcnet_hiddens.clone(), activation: config.model.fcnet_activation },
    }
}
