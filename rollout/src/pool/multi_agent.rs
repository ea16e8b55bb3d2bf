use crate::env::{
    CallMonitor, EnvContext, EnvError, EnvFailure, EnvPurpose, IntoMultiAgentEnv, MultiAgentEnv, MultiAgentSpec,
    VectorContext,
};
use crate::vector::MultiAgentEnvs;

/// Builds the multi-agent environments of every worker. Any closure from [`&EnvContext`](EnvContext) to a
/// [`MultiAgentEnv`], or to a `Result` of one, is a factory.
///
/// ```
/// use pronk_rollout::{EnvContext, EnvError, MultiAgentFactory, TicTacToe};
///
/// fn is_factory(_: impl MultiAgentFactory) {}
/// is_factory(|_: &EnvContext| TicTacToe::new());
/// is_factory(|context: &EnvContext| match context.index {
///     0..8 => Ok(TicTacToe::new()),
///     _ => Err(EnvError::new("only eight boards")),
/// });
/// ```
pub trait MultiAgentFactory: Send + Sync {
    /// Builds one environment. `monitor` gives access to the time ledger, for time in other processes, and to
    /// the reaper, for slow cleanup.
    fn make(&self, context: &EnvContext, monitor: &CallMonitor) -> Result<Box<dyn MultiAgentEnv>, EnvError>;
}

impl<F, M> MultiAgentFactory for F
where
    F: Fn(&EnvContext) -> M + Send + Sync,
    M: IntoMultiAgentEnv,
    M::Env: 'static,
{
    fn make(&self, context: &EnvContext, _watch: &CallMonitor) -> Result<Box<dyn MultiAgentEnv>, EnvError> {
        Ok(Box::new(self(context).into_env()?))
    }
}

/// The checked spec of a factory's environments, from one that is built as worker 0 and dropped again.
///
/// ```
/// use pronk_rollout::{EnvContext, TicTacToe, probe_multi_agent_spec};
///
/// let spec = probe_multi_agent_spec(&|_: &EnvContext| TicTacToe::new(), 0).expect("TicTacToe can be built");
/// assert_eq!(spec.agents.len(), 2);
/// ```
pub fn probe_multi_agent_spec(factory: &dyn MultiAgentFactory, seed: u64) -> Result<MultiAgentSpec, EnvFailure> {
    let context = VectorContext { seed, purpose: EnvPurpose::Probe, ..VectorContext::default() };
    Ok(make_envs(factory, context, 1, &CallMonitor::new())?.spec().clone())
}

/// Builds the environments of one worker.
pub(crate) fn make_envs(
    factory: &dyn MultiAgentFactory,
    context: VectorContext,
    n_envs: usize,
    monitor: &CallMonitor,
) -> Result<MultiAgentEnvs, EnvFailure> {
    MultiAgentEnvs::make(&|context, monitor| factory.make(context, monitor), context, n_envs, monitor)
}
