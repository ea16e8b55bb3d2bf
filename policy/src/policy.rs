//! A policy for evaluation and deployment.

use crate::error::check_len;
use crate::onnx::Export;
use crate::{
    ActionScale, ActionsMut, CpuNetwork, Distribution, GaussianConfig, Input, Memory, Network, NetworkShape,
    NetworkSpec, ObsDtype, ObsNormalizer, ObsRef, Outputs, Params, PolicyError, Rng, Space, distribution_with,
    mask_logits,
};

/// How a policy selects actions.
#[derive(Clone, Debug)]
pub enum ActionSelection {
    /// The most likely action.
    Mode,
    /// A sample from the distribution.
    Sample(Rng),
}

/// A network with its weights and action distribution. Continuous actions are in the bounds of the action
/// space, by [`ActionScale`].
///
/// ```
/// use pronk_policy::{ActionsMut, ActionSelection, NetworkSpec, ObsRef, Policy, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 2], vec![1.0; 2], vec![2])?, Space::discrete(3)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let params = spec.init_params(0)?;
/// let mut policy = Policy::new(spec, params, &action)?;
///
/// let mut actions = [u32::MAX; 2];
/// let observations = [0.1, 0.2, -0.3, 0.4];
/// policy.act(ObsRef::F32(&observations), 2, &mut ActionSelection::Mode, ActionsMut::Discrete(&mut actions))?;
/// assert!(actions.iter().all(|&action| action < 3));
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub struct Policy {
    network: Box<dyn Network>,
    /// What describes the network; `None` for one of the caller's own.
    spec: Option<NetworkSpec>,
    params: Params,
    action: Space,
    gaussian: GaussianConfig,
    distribution: Box<dyn Distribution>,
    scale: ActionScale,
    /// The preprocessing of observations before the network.
    normalizer: Option<ObsNormalizer>,
    /// Preprocessed observations.
    normalized: Vec<f32>,
    outputs: Outputs,
    logp: Vec<f32>,
    /// The recurrent state of each row, and starts of episodes, all false.
    state: Vec<f32>,
    starts: Vec<bool>,
}

impl Policy {
    /// A policy on the CPU.
    ///
    /// # Errors
    /// A spec, weights and action space that do not fit each other, or a non-finite weight.
    pub fn new(spec: NetworkSpec, params: Params, action: &Space) -> Result<Self, PolicyError> {
        let policy = Self::with_network(Box::new(CpuNetwork::new(&spec)?), params, action)?;
        Ok(Self { spec: Some(spec), ..policy })
    }

    /// A policy with your own network.
    ///
    /// # Errors
    /// A network, weights and action space that do not fit each other, or a non-finite weight.
    pub fn with_network(network: Box<dyn Network>, params: Params, action: &Space) -> Result<Self, PolicyError> {
        let gaussian = GaussianConfig::default();
        let distribution = distribution_with(action, gaussian)?;
        let (given, needed) = (network.shape().dist_len, distribution.dist_len());
        if given != needed {
            let reason = format!("it puts out {given} numbers and {action} is described by {needed}");
            return Err(PolicyError::BadSpec { reason });
        }
        network.layout().check_same(params.layout())?;
        params.check_finite()?;
        let (action, scale) = (action.clone(), ActionScale::new(action));
        Ok(Self {
            network,
            spec: None,
            params,
            action,
            gaussian,
            distribution,
            scale,
            normalizer: None,
            normalized: Vec::new(),
            outputs: Outputs::default(),
            logp: Vec::new(),
            state: Vec::new(),
            starts: Vec::new(),
        })
    }

    /// Sets the Gaussian that the policy was trained with, for continuous actions: its shape and the range of
    /// its deviations, both of which samples depend on. A [`Gaussian`](crate::Gaussian) alone has the default
    /// range. The default is [`Gaussian::Diagonal`](crate::Gaussian::Diagonal).
    pub fn with_gaussian(self, gaussian: impl Into<GaussianConfig>) -> Result<Self, PolicyError> {
        let gaussian = gaussian.into();
        Ok(Self { gaussian, distribution: distribution_with(&self.action, gaussian)?, ..self })
    }

    /// Normalises observations by `normalizer` first.
    ///
    /// # Errors
    /// A normaliser of another length, or observations of bytes, which the network scales itself.
    pub fn with_normalizer(self, normalizer: ObsNormalizer) -> Result<Self, PolicyError> {
        let observation = &self.network.shape().obs;
        if observation.obs_dtype() != ObsDtype::F32 {
            let reason = format!("observations of {observation} are bytes, which are not normalised");
            return Err(PolicyError::BadSpec { reason });
        }
        check_len("mean", observation.obs_len(), normalizer.mean.len())?;
        check_len("std", observation.obs_len(), normalizer.std.len())?;
        Ok(Self { normalizer: Some(normalizer), ..self })
    }

    /// Selects an action for each of `rows` observations.
    ///
    /// A recurrent network continues each row from its last state; another number of rows resets all. Call
    /// [`forget`](Self::forget) when an episode ends.
    ///
    /// *Shapes*: `obs` is `[rows, obs_len]`, `actions` is `[rows, act_len]`.
    ///
    /// # Errors
    /// A slice of a wrong length or type.
    pub fn act(
        &mut self,
        obs: ObsRef<'_>,
        rows: usize,
        choice: &mut ActionSelection,
        actions: ActionsMut<'_>,
    ) -> Result<(), PolicyError> {
        self.look(obs, rows)?;
        self.decide(rows, choice, actions)
    }

    /// As [`act`](Self::act), but never selects an action whose `mask` is false.
    ///
    /// *Shapes*: `mask` is `[rows, dist_len]`.
    ///
    /// # Errors
    /// As [`act`](Self::act) and [`mask_logits`].
    pub fn act_masked(
        &mut self,
        obs: ObsRef<'_>,
        rows: usize,
        mask: &[bool],
        choice: &mut ActionSelection,
        actions: ActionsMut<'_>,
    ) -> Result<(), PolicyError> {
        self.look(obs, rows)?;
        mask_logits(&self.action, mask, &mut self.outputs.logits)?;
        self.decide(rows, choice, actions)
    }

    /// As [`act`](Self::act), or as [`act_masked`](Self::act_masked) with a `mask`, for rows that differ from
    /// call to call, such as the agents that have to act. The caller keeps the recurrent state of each, zeros
    /// at the start of an episode; the call replaces it by the next. The policy's own rows keep theirs.
    ///
    /// *Shapes*: `state` is `[rows, state_len]`.
    ///
    /// # Errors
    /// As [`act`](Self::act) and [`mask_logits`]. The state stays as it was if the network fails.
    pub fn act_from(
        &mut self,
        state: &mut [f32],
        (obs, rows): (ObsRef<'_>, usize),
        mask: Option<&[bool]>,
        choice: &mut ActionSelection,
        actions: ActionsMut<'_>,
    ) -> Result<(), PolicyError> {
        self.look_from(state, obs, rows)?;
        if let Some(mask) = mask {
            mask_logits(&self.action, mask, &mut self.outputs.logits)?;
        }
        self.decide(rows, choice, actions)
    }

    /// What the network takes and puts out.
    pub fn shape(&self) -> &NetworkShape {
        self.network.shape()
    }

    /// The action space.
    pub fn action_space(&self) -> &Space {
        &self.action
    }

    /// The values of the last observations.
    pub fn values(&self) -> &[f32] {
        &self.outputs.values
    }

    /// Resets the recurrent state of a row at the end of its episode.
    pub fn forget(&mut self, row: usize) {
        let state_len = self.network.shape().state_len;
        if let Some(state) = self.state.get_mut(row * state_len..(row + 1) * state_len) {
            state.fill(0.0);
        }
    }

    /// Resets the recurrent state of all rows.
    pub fn forget_all(&mut self) {
        self.state.fill(0.0);
    }

    /// The policy as an ONNX model, which other runtimes and languages act with. It includes the scaling of
    /// bytes and the normaliser, so it takes the observations that [`act`](Self::act) takes.
    ///
    /// | input | element type and shape | |
    /// |---|---|---|
    /// | `obs` | float or uint8, `[batch, …shape of the space]` | raw observations; one-hot for `Discrete` and `MultiDiscrete` |
    /// | `state_in` | float, `[batch, state_len]` | only with an LSTM: the last `state_out`; zeros at the start of an episode |
    ///
    /// | output | element type and shape | |
    /// |---|---|---|
    /// | `logits` | float, `[batch, dist_len]` | the inputs of the distribution, as in [`Outputs::logits`] |
    /// | `values` | float, `[batch]` | the values |
    /// | `state_out` | float, `[batch, state_len]` | only with an LSTM: the state after the step |
    /// | `action` | int64, `[batch]` for `Discrete` and `[batch, choices]` for `MultiDiscrete`; float, `[batch, numbers]` for `Box` | what [`ActionSelection::Mode`] selects, in the bounds of the action space |
    ///
    /// `batch` is any number of rows. A call is one step: the steps of a recurrent policy are as many calls.
    /// Masks of actions are for the caller, who sets the logits of forbidden actions to minus infinity before
    /// choosing; `action` knows of no mask. Outputs agree with the policy's own to about 1e-6.
    ///
    /// The model has opset 17 and IR version 8; its numbers are 32-bit floats, and its metadata names the
    /// spaces and the network. Equal policies give equal bytes.
    ///
    /// # Errors
    /// A policy of [`with_network`](Self::with_network), and a model of 2 GiB or more.
    ///
    /// ```
    /// use pronk_policy::{NetworkSpec, Policy, Space};
    ///
    /// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
    /// let spec = NetworkSpec::for_spaces(&observation, &action)?;
    /// let params = spec.init_params(0)?;
    /// let model = Policy::new(spec, params, &action)?.to_onnx()?;
    /// # let folder = std::env::temp_dir().join(format!("to_onnx-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("policy.onnx");
    /// std::fs::write(&path, &model)?;
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Then, in Python:
    ///
    /// ```text
    /// policy = onnxruntime.InferenceSession("policy.onnx")
    /// logits, values, action = policy.run(["logits", "values", "action"], {"obs": observations})
    /// ```
    pub fn to_onnx(&self) -> Result<Vec<u8>, PolicyError> {
        let Some(spec) = &self.spec else {
            let reason = "its network is one of your own, whose operations are not known here: export the weights by \
                          Params::to_safetensors and write the model in the other library, or make the policy of a \
                          NetworkSpec by Policy::new";
            return Err(PolicyError::Export { reason: reason.to_owned() });
        };
        let Self { params, action, gaussian, normalizer, .. } = self;
        let normalizer = normalizer.as_ref();
        Export { spec, params, action, gaussian: *gaussian, normalizer }.to_bytes()
    }

    /// Runs the network on the recurrent state of the policy's own rows.
    fn look(&mut self, obs: ObsRef<'_>, rows: usize) -> Result<(), PolicyError> {
        let len = rows * self.network.shape().state_len;
        let mut state = std::mem::take(&mut self.state);
        if state.len() != len {
            state.clear();
            state.resize(len, 0.0);
        }
        let looked = self.look_from(&mut state, obs, rows);
        self.state = state;
        looked
    }

    /// Runs the network on preprocessed observations and the recurrent state, which it replaces.
    fn look_from(&mut self, state: &mut [f32], obs: ObsRef<'_>, rows: usize) -> Result<(), PolicyError> {
        let state_len = self.network.shape().state_len;
        check_len("state", rows * state_len, state.len())?;
        let obs = match (&self.normalizer, obs) {
            (Some(normalizer), ObsRef::F32(raw)) => {
                self.normalized.clear();
                self.normalized.extend_from_slice(raw);
                normalizer.apply(&mut self.normalized)?;
                ObsRef::F32(&self.normalized)
            }
            (_, obs) => obs,
        };
        let mut input = Input::new(obs, rows);
        if state_len > 0 {
            self.starts.resize(rows, false);
            input = input.with_memory(Memory { state, starts: &self.starts });
        }
        self.network.forward(&self.params, &input, &mut self.outputs)?;
        if state_len > 0 {
            check_len("state", state.len(), self.outputs.state.len())?;
            state.copy_from_slice(&self.outputs.state);
        }
        Ok(())
    }

    /// Selects actions in the bounds of the action space.
    fn decide(
        &mut self,
        rows: usize,
        choice: &mut ActionSelection,
        actions: ActionsMut<'_>,
    ) -> Result<(), PolicyError> {
        match actions {
            ActionsMut::Discrete(_) => self.choose(rows, choice, actions),
            ActionsMut::Continuous(numbers) => {
                self.choose(rows, choice, ActionsMut::Continuous(&mut *numbers))?;
                self.scale.to_env(numbers);
                Ok(())
            }
        }
    }

    fn choose(
        &mut self,
        rows: usize,
        choice: &mut ActionSelection,
        actions: ActionsMut<'_>,
    ) -> Result<(), PolicyError> {
        match choice {
            ActionSelection::Mode => self.distribution.mode(&self.outputs.logits, actions),
            ActionSelection::Sample(rng) => {
                self.logp.resize(rows, 0.0);
                self.distribution.sample(&self.outputs.logits, rng, actions, &mut self.logp)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
