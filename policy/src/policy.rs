//! A policy to act with: what evaluation and deployment need.

use crate::error::check_len;
use crate::{
    ActionsMut, ActionsRef, CpuNetwork, Distribution, Input, Network, NetworkSpec, ObsRef, Outputs, Params,
    PolicyError, Rng, Space, distribution_for,
};

/// How a policy chooses its actions.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The most likely action.
    Mode,
    /// An action drawn from the distribution.
    Sample(Rng),
}

/// A network with its weights and the distribution its outputs describe: observations in, actions out.
///
/// ```
/// use pronk_policy::{ActionsMut, Choice, NetworkSpec, ObsRef, Policy, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 2], vec![1.0; 2], vec![2])?, Space::discrete(3)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let params = spec.init_params(0)?;
/// let mut policy = Policy::new(spec, params, &action)?;
///
/// let mut actions = [u32::MAX; 2];
/// let observations = [0.1, 0.2, -0.3, 0.4];
/// policy.act(ObsRef::F32(&observations), 2, &mut Choice::Mode, ActionsMut::Discrete(&mut actions))?;
/// assert!(actions.iter().all(|&action| action < 3));
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub struct Policy {
    network: Box<dyn Network>,
    params: Params,
    distribution: Box<dyn Distribution>,
    outputs: Outputs,
    logp: Vec<f32>,
}

impl Policy {
    /// A policy that runs on the CPU.
    ///
    /// # Errors
    /// When spec, weights and action space do not fit each other, or a weight is not finite.
    pub fn new(spec: NetworkSpec, params: Params, action: &Space) -> Result<Self, PolicyError> {
        Self::with_network(Box::new(CpuNetwork::new(&spec)?), params, action)
    }

    /// A policy that acts with a network of one's own.
    ///
    /// # Errors
    /// When network, weights and action space do not fit each other, or a weight is not finite.
    pub fn with_network(network: Box<dyn Network>, params: Params, action: &Space) -> Result<Self, PolicyError> {
        let distribution = distribution_for(action)?;
        let (given, needed) = (network.shape().dist_len, distribution.dist_len());
        if given != needed {
            let reason = format!("it puts out {given} numbers and {action} is described by {needed}");
            return Err(PolicyError::BadSpec { reason });
        }
        network.layout().check_same(params.layout())?;
        params.check_finite()?;
        Ok(Self { network, params, distribution, outputs: Outputs::default(), logp: Vec::new() })
    }

    /// Chooses an action for each of `rows` observations.
    ///
    /// *Shapes*: `obs` is `[rows, obs_len]`, `actions` is `[rows, act_len]`.
    ///
    /// # Errors
    /// When a slice has a wrong length or type.
    pub fn act(
        &mut self,
        obs: ObsRef<'_>,
        rows: usize,
        choice: &mut Choice,
        actions: ActionsMut<'_>,
    ) -> Result<(), PolicyError> {
        self.network.forward(&self.params, &Input::new(obs, rows), &mut self.outputs)?;
        self.choose(rows, choice, actions)
    }

    /// As [`act`](Self::act), and never chooses what `possible` says false of.
    ///
    /// *Shapes*: `possible` is `[rows, dist_len]`.
    ///
    /// # Errors
    /// As [`act`](Self::act); when actions are numbers, which have no mask; when nothing is possible in a row.
    pub fn act_masked(
        &mut self,
        obs: ObsRef<'_>,
        rows: usize,
        possible: &[bool],
        choice: &mut Choice,
        actions: ActionsMut<'_>,
    ) -> Result<(), PolicyError> {
        let actions = actions.discrete()?;
        self.network.forward(&self.params, &Input::new(obs, rows), &mut self.outputs)?;
        check_len("possible", self.outputs.logits.len(), possible.len())?;
        for (logit, possible) in self.outputs.logits.iter_mut().zip(possible) {
            *logit = if *possible { *logit } else { f32::NEG_INFINITY };
        }
        self.choose(rows, choice, ActionsMut::Discrete(&mut *actions))?;
        self.logp.resize(rows, 0.0);
        self.distribution.logp(&self.outputs.logits, ActionsRef::Discrete(actions), &mut self.logp)?;
        match self.logp.iter().position(|logp| !logp.is_finite()) {
            Some(row) => Err(PolicyError::NothingPossible { row }),
            None => Ok(()),
        }
    }

    fn choose(&mut self, rows: usize, choice: &mut Choice, actions: ActionsMut<'_>) -> Result<(), PolicyError> {
        match choice {
            Choice::Mode => self.distribution.mode(&self.outputs.logits, actions),
            Choice::Sample(rng) => {
                self.logp.resize(rows, 0.0);
                self.distribution.sample(&self.outputs.logits, rng, actions, &mut self.logp)
            }
        }
    }

    /// The values of the observations that [`act`](Self::act) was last given.
    pub fn values(&self) -> &[f32] {
        &self.outputs.values
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
        let mut act = |possible: &[bool], choice: &mut Choice| {
            let mut actions = [u32::MAX; 2];
            let obs = ObsRef::F32(&obs);
            policy.act_masked(obs, 2, possible, choice, ActionsMut::Discrete(&mut actions)).map(|()| actions)
        };
        let best = act(&[true; 6], &mut Choice::Mode).unwrap();
        let mut possible = [true; 6];
        possible[best[0] as usize] = false;
        let second = act(&possible, &mut Choice::Mode).unwrap();
        assert!(second[0] != best[0] && second[1] == best[1], "{best:?}, then {second:?}");

        let one_way = [false, true, false, false, false, true];
        let mut sample = Choice::Sample(Rng::seed_from(0));
        assert!((0..100).all(|_| act(&one_way, &mut sample).unwrap() == [1, 2]));
        for choice in [&mut Choice::Mode, &mut sample] {
            let error = act(&[true, true, true, false, false, false], choice).unwrap_err();
            assert!(matches!(error, PolicyError::NothingPossible { row: 1 }), "{error}");
            let error = act(&[true; 5], choice).unwrap_err();
            assert!(matches!(error, PolicyError::Length { what: "possible", expected: 6, got: 5 }), "{error}");
        }
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
}
