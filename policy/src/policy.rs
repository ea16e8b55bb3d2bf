//! A policy for evaluation and deployment.

use crate::error::check_len;
use crate::{
    ActionScale, ActionsMut, CpuNetwork, Distribution, Gaussian, GaussianConfig, Input, Memory, Network, NetworkSpec,
    ObsDtype, ObsNormalizer, ObsRef, Outputs, Params, PolicyError, Rng, Space, distribution_with, mask_logits,
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
    params: Params,
    action: Space,
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
        Self::with_network(Box::new(CpuNetwork::new(&spec)?), params, action)
    }

    /// A policy with your own network.
    ///
    /// # Errors
    /// A network, weights and action space that do not fit each other, or a non-finite weight.
    pub fn with_network(network: Box<dyn Network>, params: Params, action: &Space) -> Result<Self, PolicyError> {
        let distribution = distribution_with(action, Gaussian::default())?;
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
            params,
            action,
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

    /// Sets the Gaussian that the policy was trained with, for continuous actions; the default is
    /// [`Gaussian::Diagonal`].
    pub fn with_gaussian(self, gaussian: impl Into<GaussianConfig>) -> Result<Self, PolicyError> {
        Ok(Self { distribution: distribution_with(&self.action, gaussian)?, ..self })
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
        match actions {
            ActionsMut::Discrete(_) => self.choose(rows, choice, actions),
            ActionsMut::Continuous(numbers) => {
                self.choose(rows, choice, ActionsMut::Continuous(&mut *numbers))?;
                self.scale.to_env(numbers);
                Ok(())
            }
        }
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
        self.choose(rows, choice, actions)
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

    /// Runs the network on preprocessed observations and the recurrent state.
    fn look(&mut self, obs: ObsRef<'_>, rows: usize) -> Result<(), PolicyError> {
        let state_len = self.network.shape().state_len;
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
            if self.starts.len() != rows {
                self.state.clear();
                self.state.resize(rows * state_len, 0.0);
                self.starts.resize(rows, false);
            }
            input = input.with_memory(Memory { state: &self.state, starts: &self.starts });
        }
        self.network.forward(&self.params, &input, &mut self.outputs)?;
        self.state.clone_from(&self.outputs.state);
        Ok(())
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
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn weights_that_are_not_finite_are_refused_before_anyone_acts_with_them() {
        let (observation, action) = (Space::discrete(4).unwrap(), Space::discrete(2).unwrap());
        let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
        let mut params = spec.init_params(0).unwrap();
        assert!(Policy::new(spec.clone(), params.clone(), &action).is_ok());
        params.values_mut()[0] = f32::NEG_INFINITY;
        let error = Policy::new(spec, params, &action).map(drop).unwrap_err();
        assert!(matches!(error, PolicyError::NonFiniteParams { index: 0, .. }), "{error}");
    }

    #[test]
    fn a_masked_policy_chooses_the_best_of_what_is_possible_and_names_the_row_without_a_way() {
        let (observation, action) = (Space::discrete(2).unwrap(), Space::discrete(3).unwrap());
        let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
        let params = spec.init_params(5).unwrap();
        let mut policy = Policy::new(spec, params, &action).unwrap();
        let obs = [1.0, 0.0, 0.0, 1.0];
        let mut act = |possible: &[bool], choice: &mut ActionSelection| {
            let mut actions = [u32::MAX; 2];
            let obs = ObsRef::F32(&obs);
            policy.act_masked(obs, 2, possible, choice, ActionsMut::Discrete(&mut actions)).map(|()| actions)
        };
        let best = act(&[true; 6], &mut ActionSelection::Mode).unwrap();
        let mut possible = [true; 6];
        possible[best[0] as usize] = false;
        let second = act(&possible, &mut ActionSelection::Mode).unwrap();
        assert!(second[0] != best[0] && second[1] == best[1], "{best:?}, then {second:?}");

        let one_way = [false, true, false, false, false, true];
        let mut sample = ActionSelection::Sample(Rng::seed_from(0));
        assert!((0..100).all(|_| act(&one_way, &mut sample).unwrap() == [1, 2]));
        for choice in [&mut ActionSelection::Mode, &mut sample] {
            let error = act(&[true, true, true, false, false, false], choice).unwrap_err();
            assert!(matches!(error, PolicyError::NothingToChoose { row: 1, .. }), "{error}");
            let error = act(&[true; 5], choice).unwrap_err();
            assert!(matches!(error, PolicyError::Length { what: "mask", expected: 6, got: 5 }), "{error}");
        }
    }

    #[test]
    fn a_normalized_policy_does_with_raw_observations_what_the_bare_one_does_with_scaled_ones() {
        let observation = Space::boxed(vec![-1e3; 2], vec![1e3; 2], vec![2]).unwrap();
        let action = Space::discrete(3).unwrap();
        let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
        let bare = || Policy::new(spec.clone(), spec.init_params(5).unwrap(), &action).unwrap();
        let values = |mut policy: Policy, obs: [f32; 4]| {
            let mut actions = [0; 2];
            policy.act(ObsRef::F32(&obs), 2, &mut ActionSelection::Mode, ActionsMut::Discrete(&mut actions)).unwrap();
            policy.values().to_vec()
        };
        let normalizer = ObsNormalizer { mean: vec![100.0, -4.0], std: vec![50.0, 2.0], clip: 10.0 };
        let normalized = bare().with_normalizer(normalizer.clone()).unwrap();
        assert_eq!(values(normalized, [150.0, 0.0, 0.0, 900.0]), values(bare(), [1.0, 2.0, -2.0, 10.0]));

        let short = ObsNormalizer { mean: vec![0.0], ..normalizer.clone() };
        assert!(matches!(bare().with_normalizer(short).map(drop), Err(PolicyError::Length { what: "mean", .. })));
        let images = NetworkSpec::for_spaces(&Space::bytes(vec![2]).unwrap(), &action).unwrap();
        let of_bytes = Policy::new(images.clone(), images.init_params(5).unwrap(), &action).unwrap();
        let error = of_bytes.with_normalizer(normalizer).map(drop).unwrap_err();
        assert!(error.to_string().contains("bytes, which are not normalised"), "{error}");
    }

    #[test]
    fn memory_goes_on_from_call_to_call_until_a_row_is_forgotten() {
        let (observation, action) = (Space::discrete(2).unwrap(), Space::discrete(3).unwrap());
        let spec = NetworkSpec { lstm: Some(4), ..NetworkSpec::for_spaces(&observation, &action).unwrap() };
        let params = spec.init_params(5).unwrap();
        let mut policy = Policy::new(spec, params, &action).unwrap();
        let values = |policy: &mut Policy, obs: &[f32]| {
            let (rows, mut actions) = (obs.len() / 2, vec![0; obs.len() / 2]);
            policy.act(ObsRef::F32(obs), rows, &mut ActionSelection::Mode, ActionsMut::Discrete(&mut actions)).unwrap();
            policy.values().to_vec()
        };
        let both = [1.0, 0.0, 1.0, 0.0];
        let first = values(&mut policy, &both);
        let second = values(&mut policy, &both);
        assert!(first[0] == first[1] && first[0] != second[0], "{first:?}, then {second:?}");
        policy.forget(1);
        let third = values(&mut policy, &both);
        assert!(third[1] == first[1] && third[0] != first[0], "{third:?}");
        policy.forget_all();
        assert_eq!(values(&mut policy, &both), first);
        // Another number of rows is another set of episodes.
        assert_eq!(values(&mut policy, &both[..2]), first[..1]);
    }

    #[test]
    fn weights_of_another_network_and_actions_that_it_does_not_describe_are_refused() {
        let (observation, action) = (Space::discrete(4).unwrap(), Space::discrete(2).unwrap());
        let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
        let params = spec.init_params(0).unwrap();
        let act = |params: Params, action: &Space| {
            let network = Box::new(CpuNetwork::new(&spec).unwrap());
            Policy::with_network(network, params, action).map(drop)
        };
        assert!(act(params.clone(), &action).is_ok());
        let three = Space::discrete(3).unwrap();
        assert!(matches!(act(params, &three), Err(PolicyError::BadSpec { .. })));
        let other = NetworkSpec::for_spaces(&observation, &three).unwrap().init_params(0).unwrap();
        assert!(matches!(act(other, &action), Err(PolicyError::WrongParams { .. })));
    }

    #[test]
    fn numbers_come_out_in_the_bounds_of_the_environment() {
        let observation = Space::discrete(4).unwrap();
        let action = Space::boxed(vec![10.0, 0.0], vec![12.0, f32::INFINITY], vec![2]).unwrap();
        let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
        let policy = || Policy::new(spec.clone(), spec.init_params(3).unwrap(), &action).unwrap();
        let rows = 64;
        let obs: Vec<f32> = [1.0, 0.0, 0.0, 0.0].repeat(rows);
        for gaussian in [Gaussian::Diagonal, Gaussian::Squashed] {
            let mut policy = policy().with_gaussian(gaussian).unwrap();
            for mut choice in [ActionSelection::Mode, ActionSelection::Sample(Rng::seed_from(1))] {
                let mut numbers = vec![f32::NAN; rows * 2];
                policy.act(ObsRef::F32(&obs), rows, &mut choice, ActionsMut::Continuous(&mut numbers)).unwrap();
                assert!(
                    numbers.chunks_exact(2).all(|action_now| action.contains_continuous(action_now)),
                    "{numbers:?}"
                );
                // The middle of the bounds is where the first policy, nearly zero everywhere, has its means.
                let mean = numbers.iter().step_by(2).sum::<f32>() / rows as f32;
                assert!((mean - 11.0).abs() < 0.3, "{gaussian:?} {choice:?}: {mean}");
            }
        }
        let sampled = |gaussian| {
            let mut numbers = [0.0; 2];
            let mut choice = ActionSelection::Sample(Rng::seed_from(1));
            let mut policy = policy().with_gaussian(gaussian).unwrap();
            policy.act(ObsRef::F32(&obs[..4]), 1, &mut choice, ActionsMut::Continuous(&mut numbers)).unwrap();
            numbers
        };
        assert_ne!(sampled(Gaussian::Diagonal), sampled(Gaussian::Squashed));
    }

    #[test]
    fn several_choices_are_made_at_once() {
        let (observation, action) = (Space::discrete(4).unwrap(), Space::multi_discrete(vec![3, 2]).unwrap());
        let spec = NetworkSpec::for_spaces(&observation, &action).unwrap();
        let mut policy = Policy::new(spec.clone(), spec.init_params(3).unwrap(), &action).unwrap();
        let mut choices = [9; 4];
        let obs = ObsRef::F32(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        policy
            .act(obs, 2, &mut ActionSelection::Sample(Rng::seed_from(0)), ActionsMut::Discrete(&mut choices))
            .unwrap();
        assert!(choices.chunks_exact(2).all(|choice| action.contains_discrete(choice)), "{choices:?}");
    }
}
