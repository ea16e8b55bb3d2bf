use std::collections::BTreeMap;

use pronk_metrics::{NormalizerMoments, PolicyId, StepTicket, Steps, default_policy};
use serde::{Deserialize, Serialize};

use super::{BatchError, SampleBatch};
use crate::Pool;

/// The samples of every policy over the same environment steps; one entry in the single-agent case.
///
/// It may carry the [`StepTicket`] of its steps, which its last owner settles; the steps of a batch that is
/// dropped with its ticket count as dropped. It may also carry the moments of its observations and returns,
/// for the learner to merge once. The default batch is empty.
///
/// ```
/// use pronk_buffer::{ActionKind, BatchShape, MultiAgentBatch, ObsKind, SampleBatch, Tag};
/// use pronk_metrics::{DEFAULT_POLICY, StepLedger};
///
/// # let shape = BatchShape {
/// #     steps: 2,
/// #     columns: 3,
/// #     obs_len: 4,
/// #     obs_kind: ObsKind::F32,
/// #     act_len: 1,
/// #     act_kind: ActionKind::U32,
/// #     dist_len: 2,
/// #     state_len: 0,
/// # };
/// let ledger = StepLedger::new();
/// let batch = MultiAgentBatch::single(SampleBatch::blank(shape, Tag::default()));
/// let ticket = ledger.sampled(batch.steps());
/// let mut batch = batch.with_ticket(ticket);
/// assert_eq!(batch.env_steps(), 6);
/// assert!(batch.get(DEFAULT_POLICY).is_some());
///
/// if let Some(ticket) = batch.take_ticket() {
///     ticket.trained();
/// }
/// assert_eq!(ledger.snapshot().trained_once.env, 6);
/// ```
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct MultiAgentBatch {
    policies: BTreeMap<PolicyId, SampleBatch>,
    env_steps: u64,
    #[serde(skip)]
    ticket: Option<StepTicket>,
    /// Of each fragment, in order.
    #[serde(with = "moments")]
    moments: Vec<NormalizerMoments>,
}

/// A batch in a file, which may hold any numbers.
#[derive(Deserialize)]
struct Written {
    policies: BTreeMap<PolicyId, SampleBatch>,
    env_steps: u64,
    #[serde(with = "moments")]
    moments: Vec<NormalizerMoments>,
}

/// No run has so many, and a few such counts can be added.
const MOST_ENV_STEPS: u64 = 1 << 60;

impl TryFrom<Written> for MultiAgentBatch {
    type Error = BatchError;

    fn try_from(Written { policies, env_steps, moments }: Written) -> Result<Self, BatchError> {
        if env_steps > MOST_ENV_STEPS {
            return Err(BatchError::ManyEnvSteps { env_steps });
        }
        if env_steps == 0 && !policies.is_empty() {
            return Err(BatchError::NoEnvSteps);
        }
        let obs_len = policies.values().next().map_or(0, |batch| batch.shape().obs_len);
        let checked = moments.iter().try_for_each(|moments| moments.check(obs_len));
        checked.map_err(|reason| BatchError::WrongMoments { reason })?;
        Ok(Self { policies, env_steps, ticket: None, moments })
    }
}

/// Moments in formats without names of fields, where none can be left out.
mod moments {
    use pronk_metrics::{NormalizerMoments, RunningMoments};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Pair<M> = (Option<M>, Option<M>);

    pub(super) fn serialize<S: Serializer>(moments: &[NormalizerMoments], to: S) -> Result<S::Ok, S::Error> {
        let pair = |it: &NormalizerMoments| (it.observations.clone(), it.returns.clone());
        moments.iter().map(pair).collect::<Vec<Pair<RunningMoments>>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NormalizerMoments>, D::Error> {
        let pairs = Vec::<Pair<RunningMoments>>::deserialize(from)?;
        Ok(pairs.into_iter().map(|(observations, returns)| NormalizerMoments { observations, returns }).collect())
    }
}

impl MultiAgentBatch {
    /// A single agent's batch, under the default policy: each agent-step is an environment step.
    pub fn single(batch: SampleBatch) -> Self {
        let env_steps = batch.steps();
        Self { policies: BTreeMap::from([(default_policy(), batch)]), env_steps, ..Self::default() }
    }

    /// The batches of several policies over `env_steps` environment steps.
    ///
    /// # Errors
    /// When there is no policy or no step.
    pub fn new(policies: BTreeMap<PolicyId, SampleBatch>, env_steps: u64) -> Result<Self, BatchError> {
        if policies.is_empty() {
            return Err(BatchError::Empty { what: "a multi-agent batch" });
        }
        if env_steps == 0 {
            return Err(BatchError::NoEnvSteps);
        }
        Ok(Self { policies, env_steps, ..Self::default() })
    }

    /// The policies and their samples, by name.
    pub fn policies(&self) -> impl Iterator<Item = (&PolicyId, &SampleBatch)> {
        self.policies.iter()
    }

    /// The policies and their samples, to be written in place.
    pub fn policies_mut(&mut self) -> impl Iterator<Item = (&PolicyId, &mut SampleBatch)> {
        self.policies.iter_mut()
    }

    /// One policy's samples.
    pub fn get(&self, policy: &str) -> Option<&SampleBatch> {
        self.policies.get(policy)
    }

    /// Environment steps; agents that acted in the same step share it.
    pub fn env_steps(&self) -> u64 {
        self.env_steps
    }

    /// Agent-steps: one for each agent that acted.
    pub fn agent_steps(&self) -> u64 {
        self.policies.values().map(SampleBatch::steps).sum()
    }

    /// Both counts.
    pub fn steps(&self) -> Steps {
        Steps { env: self.env_steps, agent: self.agent_steps() }
    }

    /// The version of the weights of each step of every policy.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        self.policies.values().flat_map(|batch| batch.versions().iter().copied())
    }

    /// The oldest of these versions.
    pub fn oldest_version(&self) -> Option<u64> {
        self.policies.values().filter_map(|batch| batch.versions().iter().copied().min()).min()
    }

    /// The newest of these versions.
    pub fn newest_version(&self) -> Option<u64> {
        self.policies.values().filter_map(|batch| batch.versions().iter().copied().max()).max()
    }

    /// Adds the ticket of its steps; joins it with the one that the batch already carries.
    pub fn with_ticket(mut self, ticket: StepTicket) -> Self {
        self.add_ticket(ticket);
        self
    }

    /// Takes the ticket, to settle it.
    pub fn take_ticket(&mut self) -> Option<StepTicket> {
        self.ticket.take()
    }

    /// The steps of its ticket.
    pub fn ticket_steps(&self) -> Option<Steps> {
        self.ticket.as_ref().map(StepTicket::steps)
    }

    /// Adds the moments of a fragment, after those that the batch already carries.
    pub fn with_moments(mut self, moments: NormalizerMoments) -> Self {
        self.moments.push(moments);
        self
    }

    /// The moments of its fragments, in order.
    pub fn moments(&self) -> &[NormalizerMoments] {
        &self.moments
    }

    /// Takes the moments of its fragments, in order, to merge them.
    pub fn take_moments(&mut self) -> Vec<NormalizerMoments> {
        std::mem::take(&mut self.moments)
    }

    /// Joins batches policy by policy, in the order given; steps add up, tickets are joined, and moments stay
    /// in order. Samples that only one part has are moved, not copied.
    ///
    /// # Errors
    /// No parts, or parts of one policy that differ in more than their number of columns: see
    /// [`check_fits`](Self::check_fits). The parts are dropped.
    pub fn join(mut parts: Vec<MultiAgentBatch>, pool: &Pool) -> Result<MultiAgentBatch, BatchError> {
        if parts.len() <= 1 {
            return parts.pop().ok_or(BatchError::Empty { what: "a joined multi-agent batch" });
        }
        let mut joined = Self::default();
        let mut by_policy: BTreeMap<PolicyId, Vec<SampleBatch>> = BTreeMap::new();
        for part in parts {
            joined.env_steps += part.env_steps;
            joined.moments.extend(part.moments);
            if let Some(ticket) = part.ticket {
                joined.add_ticket(ticket);
            }
            for (policy, batch) in part.policies {
                by_policy.entry(policy).or_default().push(batch);
            }
        }
        for (policy, batches) in by_policy {
            joined.policies.insert(policy, SampleBatch::join(batches, pool)?);
        }
        Ok(joined)
    }

    /// Whether `other` could be joined to this batch.
    ///
    /// # Errors
    /// [`BatchError::Mismatch`] names the size in which a policy that both have differs.
    pub fn check_fits(&self, other: &MultiAgentBatch) -> Result<(), BatchError> {
        for (policy, batch) in &other.policies {
            if let Some(own) = self.policies.get(policy) {
                own.shape().check_fits(batch.shape(), 1)?;
            }
        }
        Ok(())
    }

    fn add_ticket(&mut self, ticket: StepTicket) {
        match &mut self.ticket {
            Some(own) => own.join(ticket),
            None => self.ticket = Some(ticket),
        }
    }
}
