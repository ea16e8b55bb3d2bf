use std::io;
use std::time::Duration;

use pronk_buffer::{Gate, InqueueReceiver, ShutdownToken, WeightCell, inqueue};
use pronk_metrics::{ByPolicy, DEFAULT_POLICY, StateClock, TimeLedger, catch, default_policy, thread_states};
use pronk_policy::{Input, Memory, Network, Outputs, Params};
use tracing::debug_span;

use super::convert;
use super::error::PolicyFault;
use super::inference::{InferencePort, Request, Task};
use crate::sync::Arc;
use crate::sync::channel::{Receiver, bounded};
use crate::sync::thread::{self, JoinHandle};

/// Queued requests before workers block.
const CAPACITY: usize = 1024;

thread_states! {
    /// The state of the inference thread.
    pub enum InferenceState {
        /// Waiting for requests.
        Waiting = "waiting",
        /// Computing.
        Inferring = "inferring",
    }
}

/// A thread that infers for many workers: requests that arrive while it is busy form the next batch. Every
/// batch uses the newest weights, so they may change within a fragment; every step records its version.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_buffer::{shutdown, weight_cell};
/// use pronk_metrics::{ByPolicy, TimeLedger, default_policy};
/// use pronk_policy::{CpuNetwork, NetworkSpec};
/// use pronk_rollout::{CartPole, Env, Inference, InferenceThread};
///
/// let spec = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let (_publisher, weights) = weight_cell(ByPolicy::from([(default_policy(), network.init_params(1)?)]));
/// let (shutdown, token) = shutdown();
/// let network = Box::new(CpuNetwork::new(&network)?);
/// let (thread, port) = InferenceThread::start(network, weights, &token, &TimeLedger::new())?;
/// let of_a_worker = Inference::from(port.client());
/// # drop(of_a_worker);
/// drop(shutdown);
/// assert!(thread.join(Duration::from_secs(1)).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InferenceThread {
    handle: JoinHandle<()>,
    /// Closes as the thread ends.
    ended: Receiver<()>,
}

impl InferenceThread {
    /// The thread's name.
    pub const NAME: &str = "inference";

    /// Starts the thread, for the default policy. An error if it cannot be spawned.
    pub fn start(
        network: Box<dyn Network>,
        weights: WeightCell<ByPolicy<Params>>,
        token: &ShutdownToken,
        time: &TimeLedger,
    ) -> io::Result<(Self, InferencePort)> {
        let (requests, received) = inqueue(CAPACITY, Gate::Bounded, token).map_err(io::Error::other)?;
        let shape = Arc::new(network.shape().clone());
        let clock = StateClock::new(Self::NAME, InferenceState::Waiting);
        let reader = clock.reader();
        let server = Server { network, weights, received, clock, batch: Task::default(), starts: Vec::new() };
        let (ending, ended) = bounded::<()>(0);
        let body = move || {
            server.run();
            drop(ending);
        };
        let handle = thread::Builder::new().name(Self::NAME.to_owned()).spawn(body)?;
        time.add(reader);
        let port = InferencePort { requests, shape, ended: ended.clone() };
        Ok((Self { handle, ended }, port))
    }

    /// Waits for the thread to end, after its clients or the run's shutdown guard are dropped. An error with
    /// its name after `timeout`.
    pub fn join(self, timeout: Duration) -> Result<(), String> {
        // Nothing is ever sent: it closes.
        match self.ended.recv_timeout(timeout) {
            Err(end) if end.is_disconnected() => {
                let _ = self.handle.join();
                Ok(())
            }
            _ => Err(Self::NAME.to_owned()),
        }
    }
}

struct Server {
    network: Box<dyn Network>,
    weights: WeightCell<ByPolicy<Params>>,
    received: InqueueReceiver<Request>,
    clock: StateClock<InferenceState>,
    /// The requests of one batch, concatenated.
    batch: Task,
    /// `[rows]`, all false: recurrent state is cleared when an episode ends.
    starts: Vec<bool>,
}

impl Server {
    fn run(mut self) {
        let mut requests = Vec::new();
        loop {
            self.clock.enter(InferenceState::Waiting);
            let Ok(first) = self.received.pop(Duration::MAX) else { return };
            self.clock.enter(InferenceState::Inferring);
            requests.push(first);
            requests.extend(self.received.drain());
            let infer = debug_span!("infer").entered();
            let answer = catch(|| self.infer(&requests)).unwrap_or_else(|text| Err(PolicyFault::Panic { text }));
            drop(infer);
            self.answer(&mut requests, answer);
        }
    }

    /// Computes all requests in one batch. Returns the version of the weights used.
    fn infer(&mut self, requests: &[Request]) -> Result<u64, PolicyFault> {
        let Self { network, weights, batch, starts, .. } = self;
        let newest = weights.load();
        let version = newest.version;
        let Some(params) = newest.weights.get(DEFAULT_POLICY) else {
            return Err(PolicyFault::NoWeights { policy: default_policy(), version });
        };
        batch.obs.resize(0);
        batch.state.clear();
        batch.rows = 0;
        for Request { task, .. } in requests {
            batch.obs.append(task.obs.view())?;
            batch.state.extend_from_slice(&task.state);
            batch.rows += task.rows;
        }
        let mut input = Input::new(convert::observations(batch.obs.view()), batch.rows);
        if network.shape().state_len > 0 {
            starts.resize(batch.rows, false);
            input = input.with_memory(Memory { state: &batch.state, starts: &starts[..batch.rows] });
        }
        let done = network.forward(params, &input, &mut batch.outputs);
        done.map(|()| version).map_err(|source| PolicyFault::Network { version, source })
    }

    /// Answers every request with its rows, or with the failure.
    fn answer(&self, requests: &mut Vec<Request>, answer: Result<u64, PolicyFault>) {
        let (version, fault) = match answer {
            Ok(version) => (Some(version), None),
            Err(fault) => (None, Some(Arc::new(fault))),
        };
        let Outputs { logits, values, state } = &self.batch.outputs;
        let all_rows = self.batch.rows.max(1);
        let mut first = 0;
        for Request { mut task, answer } in requests.drain(..) {
            if version.is_some() {
                let rows = first..first + task.rows;
                let part = |all: &[f32]| {
                    let len = all.len() / all_rows;
                    all[rows.start * len..rows.end * len].to_owned()
                };
                (task.outputs.logits, task.outputs.values) = (part(logits), part(values));
                task.outputs.state = part(state);
                first += task.rows;
            }
            (task.version, task.fault) = (version, fault.clone());
            // Fails only if the worker is gone.
            let _ = answer.send(task);
        }
    }
}
