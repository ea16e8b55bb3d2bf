use std::sync::Arc;

use pronk_buffer::{ActionColumn, BatchError, ObsColumn, ObsView, Pool, SampleBatch, Tag, Versioned};
use pronk_metrics::{ByPolicy, PolicyId};
use pronk_policy::{GaussianConfig, Params, Rng, Space};

use super::action_sampler::{ActionSampler, WeightsOf};
use super::column_storage::NewStep;
use super::columns::Columns;
use super::error::{PolicyBuildError, PolicyFault};
use super::inference::Inference;
use crate::env::ActionRef;

/// A policy that agents of a worker play.
///
/// ```
/// use pronk_policy::{CpuNetwork, GaussianConfig, NetworkSpec};
/// use pronk_rollout::{MultiAgentEnv, TicTacToe, WorkerPolicy};
///
/// let spec = TicTacToe::new().spec();
/// let (observation, action) = (spec.agents[0].observation.clone(), spec.agents[0].action.clone());
/// let network = CpuNetwork::new(&NetworkSpec::for_spaces(&observation, &action)?)?;
/// let inference = Box::new(network).into();
/// let policy = WorkerPolicy { inference, observation, action, gaussian: GaussianConfig::default(), frozen: None };
/// # let _ = policy;
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub struct WorkerPolicy {
    /// Computes logits and values.
    pub inference: Inference,
    /// The observation space of all its agents.
    pub observation: Space,
    /// The action space of all its agents.
    pub action: Space,
    /// The distribution of continuous actions.
    pub gaussian: GaussianConfig,
    /// Fixed weights, for a policy that is not trained; `None` takes the newest from the weight cell.
    pub frozen: Option<Arc<Params>>,
}

/// One policy with the rows that it is acting for, and the columns of their steps.
pub(crate) struct PolicyActor {
    id: PolicyId,
    acting: ActionSampler,
    weights: Weights,
    /// Whether some of its agents have action masks.
    masked: bool,
    rows: Rows,
    /// The version of the weights of the last inference.
    version: u64,
}

/// Where a policy's weights come from, and whether its steps are kept.
enum Weights {
    /// From the learner, which receives the columns.
    Trained(Box<Columns>),
    /// Fixed; its steps are not kept.
    Frozen(Arc<Params>),
}

/// The agents that act now, one row each.
struct Rows {
    /// `[rows]`.
    seats: Vec<usize>,
    /// `[rows, obs_len]`.
    obs: ObsColumn,
    /// `[rows, state_len]`: recurrent state.
    state: Vec<f32>,
    /// `[rows, dist_len]`, where there are masks.
    masks: Vec<bool>,
    /// `[rows, act_len]`.
    actions: ActionColumn,
    /// `[rows]`.
    logp: Vec<f32>,
}

impl PolicyActor {
    /// A policy for `n_seats` seats, with columns of `steps` steps; `masked` if some agents have masks.
    pub(crate) fn new(
        id: PolicyId,
        policy: WorkerPolicy,
        masked: bool,
        (steps, n_seats): (usize, usize),
        rng: Rng,
    ) -> Result<Self, PolicyBuildError> {
        let made = Self::make(&id, policy, masked, (steps, n_seats), rng);
        made.map_err(|source| PolicyBuildError::OfPolicy { policy: id, source: Box::new(source) })
    }

    fn make(
        id: &PolicyId,
        policy: WorkerPolicy,
        masked: bool,
        (steps, n_seats): (usize, usize),
        rng: Rng,
    ) -> Result<Self, PolicyBuildError> {
        let WorkerPolicy { inference, observation, action, gaussian, frozen } = policy;
        observation.check()?;
        action.check()?;
        let acting = ActionSampler::new("its spaces", (&observation, &action), gaussian, inference, rng)?;
        let shape = acting.batch_shape(steps, 1);
        acting.batch_shape(steps, n_seats).check()?;
        let weights = match frozen {
            None => Weights::Trained(Box::new(Columns::new(shape, n_seats))),
            Some(params) => {
                if let Inference::Own(network) = acting.inference() {
                    network.layout().check_same(params.layout())?;
                }
                params.check_finite()?;
                Weights::Frozen(params)
            }
        };
        let rows = Rows {
            seats: Vec::with_capacity(n_seats),
            obs: ObsColumn::zeros(shape.obs_kind, 0),
            state: Vec::new(),
            masks: Vec::new(),
            actions: ActionColumn::zeros(shape.act_kind, 0),
            logp: Vec::new(),
        };
        Ok(Self { id: id.clone(), acting, weights, masked, rows, version: 0 })
    }

    /// The policy's name.
    pub(crate) fn id(&self) -> &PolicyId {
        &self.id
    }

    /// Whether the learner trains it.
    pub(crate) fn is_trained(&self) -> bool {
        matches!(self.weights, Weights::Trained(_))
    }

    /// The sampler, with the policy's spaces.
    pub(crate) fn acting(&self) -> &ActionSampler {
        &self.acting
    }

    /// The random stream that it draws actions from.
    pub(crate) fn rng(&self) -> &Rng {
        self.acting.rng()
    }

    /// The columns of its steps; `None` for a frozen policy.
    pub(crate) fn columns(&mut self) -> Option<&mut Columns> {
        match &mut self.weights {
            Weights::Trained(columns) => Some(columns),
            Weights::Frozen(_) => None,
        }
    }

    /// Replaces the random stream, for a new incarnation.
    pub(crate) fn draw_from(&mut self, rng: Rng) {
        self.acting.draw_from(rng);
    }

    /// Removes the rows of the step before.
    pub(crate) fn clear_rows(&mut self) {
        let Rows { seats, obs, state, masks, .. } = &mut self.rows;
        seats.clear();
        obs.resize(0);
        state.clear();
        masks.clear();
    }

    /// Adds the row of an agent that has to act on `obs`.
    pub(crate) fn add_row(&mut self, seat: usize, obs: ObsView<'_>, state: &[f32]) -> Result<(), BatchError> {
        let rows = &mut self.rows;
        rows.obs.append(obs)?;
        rows.seats.push(seat);
        rows.state.extend_from_slice(state);
        Ok(())
    }

    /// Adds a mask, `[dist_len]`, for the row added last and returns it to be written; `None` without masks.
    pub(crate) fn add_mask(&mut self) -> Option<&mut [bool]> {
        if !self.masked {
            return None;
        }
        let len = self.rows.masks.len();
        self.rows.masks.resize(len + self.acting.action().dist_len(), true);
        Some(&mut self.rows.masks[len..])
    }

    /// Runs one inference for all rows. Errors name environment `seat / n_agents`.
    pub(crate) fn infer(&mut self, weights: &Versioned<ByPolicy<Params>>, n_agents: usize) -> Result<(), PolicyFault> {
        let Self { id, acting, weights: own, rows, .. } = self;
        let version = weights.version;
        let params = match own {
            Weights::Frozen(params) => &**params,
            Weights::Trained(_) => {
                weights.weights.get(id).ok_or_else(|| PolicyFault::NoWeights { policy: id.clone(), version })?
            }
        };
        if rows.seats.is_empty() {
            return Ok(());
        }
        let weights = WeightsOf { params, version };
        let inferred = acting.infer(weights, rows.obs.view(), rows.seats.len(), &rows.state);
        self.version = inferred.map_err(|fault| match fault {
            PolicyFault::NonFinite { what, row, value, version } => {
                self.fault(PolicyFault::NonFinite { what, row: self.rows.seats[row] / n_agents, value, version })
            }
            fault => self.fault(fault),
        })?;
        Ok(())
    }

    /// Completes the last steps of all agents that have a row, with its observation and value.
    pub(crate) fn complete(&mut self) -> Result<(), BatchError> {
        let Self { acting, weights: Weights::Trained(columns), rows, .. } = self else { return Ok(()) };
        let obs_len = acting.observation().obs_len();
        for (row, seat) in rows.seats.iter().enumerate() {
            columns.ask(*seat, rows.obs.view().row(row, obs_len), acting.values()[row])?;
        }
        Ok(())
    }

    /// Samples an action for every row, within its mask, and begins the steps.
    pub(crate) fn choose(&mut self) -> Result<(), PolicyFault> {
        let Self { acting, weights, rows, masked, version, .. } = self;
        let version = *version;
        let n = rows.seats.len();
        if n == 0 {
            return Ok(());
        }
        let (obs_len, act_len) = (acting.observation().obs_len(), acting.action().act_len());
        rows.logp.resize(n, 0.0);
        rows.actions.resize(n * act_len);
        let masks = masked.then_some(rows.masks.as_slice());
        if let Err(fault) = acting.choose(masks, rows.actions.view_mut(), &mut rows.logp) {
            return Err(self.fault(fault));
        }
        let Weights::Trained(columns) = weights else { return Ok(()) };
        let dist_len = acting.logits().len() / n;
        let state_len = acting.state_len();
        for (row, seat) in rows.seats.iter().enumerate() {
            let step = NewStep {
                obs: rows.obs.view().row(row, obs_len),
                action: rows.actions.view().row(row, act_len),
                logp: rows.logp[row],
                inputs: &acting.logits()[row * dist_len..(row + 1) * dist_len],
                value: acting.values()[row],
                state: &rows.state[row * state_len..(row + 1) * state_len],
                version,
            };
            columns.begin(*seat, &step)?;
        }
        Ok(())
    }

    /// Passes every agent's action, scaled for its environment, to `tell`.
    pub(crate) fn actions(
        &mut self,
        mut tell: impl FnMut(usize, ActionRef<'_>) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        let Self { acting, rows, .. } = self;
        let act_len = acting.action().act_len();
        if rows.seats.is_empty() {
            return Ok(());
        }
        let actions = acting.for_env(rows.actions.view());
        let mut rows = rows.seats.iter().enumerate();
        rows.try_for_each(|(row, seat)| tell(*seat, actions.part(row * act_len, act_len)))
    }

    /// Passes every agent's new recurrent state, `[state_len]`, to `tell`.
    pub(crate) fn states(&self, mut tell: impl FnMut(usize, &[f32])) {
        let state_len = self.acting.state_len();
        if state_len > 0 {
            let states = self.acting.state().chunks_exact(state_len);
            self.rows.seats.iter().zip(states).for_each(|(seat, state)| tell(*seat, state));
        }
    }

    /// Moves up to `most` columns, the longest full first, into a batch; `None` if none is full.
    pub(crate) fn take_batch(&mut self, most: usize, pool: &Pool, tag: Tag) -> Result<Option<SampleBatch>, BatchError> {
        let Self { acting, weights: Weights::Trained(columns), .. } = self else { return Ok(None) };
        let width = columns.n_full().min(most);
        if width == 0 {
            return Ok(None);
        }
        let shape = acting.batch_shape(columns.steps(), width);
        shape.check()?;
        let mut batch = pool.take(shape, tag);
        columns.write(&mut batch)?;
        Ok(Some(batch))
    }

    #[cold]
    fn fault(&self, fault: PolicyFault) -> PolicyFault {
        PolicyFault::OfPolicy { policy: self.id.clone(), source: Box::new(fault) }
    }
}
