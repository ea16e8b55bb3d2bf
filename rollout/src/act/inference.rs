//! Where inference runs: in each worker, or on one thread for all of them.

use pronk_buffer::{InqueueSender, ObsColumn, ObsView};
use pronk_policy::{Input, Memory, Network, NetworkShape, Outputs, Params};

use super::convert;
use super::error::PolicyFault;
use crate::sync::Arc;
use crate::sync::channel::{Receiver, Sender, bounded, select};

/// Where a worker's inference runs.
///
/// ```
/// use pronk_policy::{CpuNetwork, NetworkSpec};
/// use pronk_rollout::{CartPole, Env, Inference};
///
/// let spec = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let own = Inference::from(Box::new(CpuNetwork::new(&network)?));
/// assert_eq!(own.shape().dist_len, 2);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub enum Inference {
    /// In a network of the worker's own: weights change between fragments.
    Own(Box<dyn Network>),
    /// On a thread that batches the requests of many workers: weights change between its batches.
    Shared(InferenceClient),
}

impl Inference {
    /// The shape of the network.
    pub fn shape(&self) -> &NetworkShape {
        match self {
            Inference::Own(network) => network.shape(),
            Inference::Shared(client) => &client.port.shape,
        }
    }

    /// Computes the outputs of `rows` rows. Returns the version of the weights used.
    pub(crate) fn forward(
        &mut self,
        (params, version): (&Params, u64),
        (obs, rows): (ObsView<'_>, usize),
        memory: Option<Memory<'_>>,
        out: &mut Outputs,
    ) -> Result<u64, PolicyFault> {
        match self {
            Inference::Own(network) => {
                let mut input = Input::new(convert::observations(obs), rows);
                if let Some(memory) = memory {
                    input = input.with_memory(memory);
                }
                let done = network.forward(params, &input, out);
                done.map(|()| version).map_err(|source| PolicyFault::Network { version, source })
            }
            Inference::Shared(client) => client.forward((obs, rows), memory, out),
        }
    }
}

impl<N: Network + 'static> From<Box<N>> for Inference {
    fn from(network: Box<N>) -> Self {
        Inference::Own(network)
    }
}

impl From<Box<dyn Network>> for Inference {
    fn from(network: Box<dyn Network>) -> Self {
        Inference::Own(network)
    }
}

impl From<InferenceClient> for Inference {
    fn from(client: InferenceClient) -> Self {
        Inference::Shared(client)
    }
}

/// A handle on an [`InferenceThread`](crate::InferenceThread). The thread ends with its last port and client.
#[derive(Clone)]
pub struct InferencePort {
    pub(super) requests: InqueueSender<Request>,
    pub(super) shape: Arc<NetworkShape>,
    /// Closes as the thread ends.
    pub(super) ended: Receiver<()>,
}

impl InferencePort {
    /// A client for one worker.
    pub fn client(&self) -> InferenceClient {
        let (answer, answers) = bounded(1);
        InferenceClient { port: self.clone(), answer, answers, task: Some(Box::default()) }
    }
}

/// One worker's connection to the inference thread.
pub struct InferenceClient {
    port: InferencePort,
    answer: Sender<Box<Task>>,
    answers: Receiver<Box<Task>>,
    /// Storage; `None` while the thread has it.
    task: Option<Box<Task>>,
}

impl InferenceClient {
    fn forward(
        &mut self,
        (obs, rows): (ObsView<'_>, usize),
        memory: Option<Memory<'_>>,
        out: &mut Outputs,
    ) -> Result<u64, PolicyFault> {
        let mut task = self.task.take().unwrap_or_default();
        task.rows = rows;
        task.version = None;
        task.fault = None;
        task.obs.resize(0);
        task.obs.append(obs)?;
        task.state.clear();
        task.state.extend_from_slice(memory.map_or(&[], |memory| memory.state));
        std::mem::swap(&mut task.outputs, out);
        let request = Request { task, answer: self.answer.clone() };
        if self.port.requests.push(request).is_err() {
            return Err(PolicyFault::InferenceEnded);
        }
        // A thread that has ended may have answered before.
        let answered = select! {
            recv(self.answers) -> task => task.ok(),
            recv(self.port.ended) -> _ => self.answers.try_recv().ok(),
        };
        let mut task = answered.ok_or(PolicyFault::InferenceEnded)?;
        std::mem::swap(&mut task.outputs, out);
        let (version, fault) = (task.version, task.fault.take());
        self.task = Some(task);
        match (version, fault) {
            (_, Some(fault)) => Err(PolicyFault::Shared { fault }),
            (Some(version), None) => Ok(version),
            (None, None) => Err(PolicyFault::InferenceEnded),
        }
    }
}

/// A request and the channel for its answer.
pub(super) struct Request {
    pub(super) task: Box<Task>,
    pub(super) answer: Sender<Box<Task>>,
}

/// The input and output of one request. It moves to the thread and back.
#[derive(Default)]
pub(super) struct Task {
    pub(super) rows: usize,
    /// `[rows, obs_len]`.
    pub(super) obs: ObsColumn,
    /// `[rows, state_len]`.
    pub(super) state: Vec<f32>,
    pub(super) outputs: Outputs,
    /// The version of the weights used; `None` after a failure.
    pub(super) version: Option<u64>,
    /// The failure.
    pub(super) fault: Option<Arc<PolicyFault>>,
}

#[cfg(test)]
mod tests;
