//! A worker whose environments step together, as it begins.

use std::sync::Arc;

use pronk_buffer::ObsColumn;

use super::Lockstep;
use super::made::build;
use crate::act::{ActionSampler, Inference};
use crate::pool::EnvFactory;
use crate::worker::account::Account;
use crate::worker::normalization::Normalization;
use crate::worker::{BuildError, RolloutWorker, WorkerConfig, WorkerLinks};

impl RolloutWorker {
    /// A worker that steps its environments together on its own thread, with one version of the weights per
    /// fragment. Fragments do not depend on timing.
    ///
    /// # Errors
    /// The environment that could not be built, or how environments and network disagree.
    pub fn new(
        config: WorkerConfig,
        factory: Arc<dyn EnvFactory>,
        inference: impl Into<Inference>,
        links: WorkerLinks,
    ) -> Result<Self, BuildError> {
        let envs = build(&config, config.incarnation, factory.as_ref(), &links)?;
        let spec = envs.spec().clone();
        config.check_normalized(&spec)?;
        let account = Account::new(config.worker, config.incarnation, links);
        let rng = account.acting_stream(config.seed, 0);
        let spaces = (&spec.observation, &spec.action);
        let acting = ActionSampler::new(&spec.name, spaces, config.gaussian, inference.into(), rng)?;
        let shape = acting.batch_shape(config.rollout_fragment_length.get(), config.num_envs_per_worker.get());
        shape.check()?;
        let maker = Lockstep {
            config,
            factory,
            obs: ObsColumn::zeros(shape.obs_kind, shape.columns * shape.obs_len),
            masks: spec.masks_for(shape.columns),
            normalization: Normalization::new(config.normalize, shape.columns, &spec),
            spec,
            shape,
            state: vec![0.0; shape.columns * shape.state_len],
            acting,
            envs: Some(envs),
            under_way: false,
        };
        Ok(Self::over(maker, account))
    }
}
