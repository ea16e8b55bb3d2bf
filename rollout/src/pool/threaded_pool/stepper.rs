//! The thread of a group of environments.

use pronk_buffer::ObsColumn;
use pronk_metrics::{StateClock, catch};

use crate::env::{
    CallMonitor, EnvError, EnvFailure, EnvFailureCause, EnvSpec, EpisodeStat, FailurePlace, NOT_KNOWN, Restarted,
    VectorContext, caught, obs_kind,
};
use crate::pool::env_pool::EnvThreadState;
use crate::pool::factory::{EnvFactory, build_vector};
use crate::pool::step::{GroupPosition, GroupStep, Order};
use crate::sync::Arc;
use crate::sync::channel::{Receiver, Sender};
use crate::vector::{VectorEnv, VectorStep};

/// What is sent to the thread of a group.
pub(super) enum GroupOrder {
    /// Answered on the queue of all groups.
    Step(Box<GroupStep>),
    /// For a checkpoint: answered on a channel of its own.
    Save { obs: ObsColumn, reply: Sender<Result<GroupPosition, String>> },
    /// From one.
    Load { saved: GroupPosition, reply: Sender<Vec<Restarted>> },
}

/// The loop of a group's thread.
pub(super) struct Stepper {
    pub(super) context: VectorContext,
    pub(super) size: usize,
    pub(super) factory: Arc<dyn EnvFactory>,
    pub(super) monitor: CallMonitor,
    /// `None` once they failed.
    pub(super) envs: Option<Box<dyn VectorEnv>>,
    /// Of those made first.
    pub(super) spec: Option<EnvSpec>,
    pub(super) saves_envs: bool,
    pub(super) clock: StateClock<EnvThreadState>,
}

impl Stepper {
    /// Carries out orders until the pool is dropped.
    pub(super) fn run(
        &mut self,
        orders: &Receiver<GroupOrder>,
        reply: impl Fn(Box<GroupStep>, Result<(), EnvFailure>) -> bool,
    ) {
        while let Ok(order) = orders.recv() {
            self.clock.enter(EnvThreadState::Stepping);
            match order {
                GroupOrder::Step(mut step) => {
                    let outcome = catch(|| self.carry_out(&mut step)).unwrap_or_else(|text| Err(self.panicked(text)));
                    if outcome.is_err() {
                        self.drop_envs(&mut step.episodes);
                    }
                    if self.monitor.is_taken_over() || !reply(step, outcome) {
                        return;
                    }
                }
                // Refused only by a worker that no longer waits.
                GroupOrder::Save { obs, reply } => drop(reply.send(caught(|| self.save(&obs)))),
                GroupOrder::Load { saved, reply } => {
                    drop(reply.send(caught(|| self.load(saved)).unwrap_or_else(|why| {
                        // Those of the present incarnation would repeat its episodes: the reset makes others.
                        self.drop_envs(&mut Vec::new());
                        Restarted::all(self.context.first_env, self.size, &why)
                    })));
                }
            }
            self.clock.enter(EnvThreadState::Waiting);
        }
    }

    /// Drops environments that failed, and hands over the episodes that they have ended.
    fn drop_envs(&mut self, episodes: &mut Vec<EpisodeStat>) {
        let Some(mut failed) = self.envs.take() else { return };
        self.monitor.at(0, FailurePlace::Unknown);
        let _inside = self.monitor.enter(self.context.incarnation);
        // A panic in a destructor is contained: the first failure is the one to report.
        let _ = catch(|| {
            failed.drain_episodes(episodes);
            drop(failed);
        });
    }

    pub(super) fn make(&mut self) -> Result<EnvSpec, EnvFailure> {
        self.clock.enter(EnvThreadState::Stepping);
        let Self { context, size, factory, monitor, envs, spec: first, saves_envs, .. } = self;
        let built = build_vector(factory.as_ref(), context, *size, monitor)?;
        let spec = built.spec().clone();
        match first {
            Some(first) if *first != spec => {
                let text = format!("the rebuilt environments are {spec}, those before were {first}");
                return Err(context.failure_to_make(EnvFailureCause::Error(EnvError::new(text))));
            }
            _ => *first = Some(spec.clone()),
        }
        let envs = envs.insert(built);
        if *saves_envs {
            envs.keep_for_save();
        }
        Ok(spec)
    }

    fn save(&mut self, obs: &ObsColumn) -> Result<GroupPosition, String> {
        let Self { context, monitor, envs, .. } = self;
        let Some(envs) = envs else { return Err("the group is being rebuilt".to_owned()) };
        let _inside = monitor.enter(context.incarnation);
        let envs = envs.save(obs.view()).map_err(|failure| failure.to_string())?;
        Ok(GroupPosition { envs, incarnation: context.incarnation })
    }

    /// Gets back to a saved position, and returns the environments that did not; an error says why none did.
    fn load(&mut self, saved: GroupPosition) -> Result<Vec<Restarted>, String> {
        let GroupPosition { envs: saved, incarnation } = saved;
        if self.context.incarnation != incarnation || self.envs.is_none() {
            self.drop_envs(&mut Vec::new());
            self.context.incarnation = incarnation;
            self.make().map_err(|failure| failure.to_string())?;
        }
        let Self { context, monitor, envs: Some(envs), size, .. } = self else { return Err(NOT_KNOWN.to_owned()) };
        let saved = saved.ok_or(NOT_KNOWN)?;
        let _inside = monitor.enter(context.incarnation);
        let observation = &envs.spec().observation;
        // Of those that did not get back: they begin once more, with the reset of their group.
        let mut obs = ObsColumn::zeros(obs_kind(observation), *size * observation.obs_len());
        envs.load(&saved, obs.view_mut().into()).map_err(|failure| failure.to_string())
    }

    /// A panic outside any known call of an environment.
    #[cold]
    fn panicked(&self, text: String) -> EnvFailure {
        self.context.failure(self.spec.as_ref(), 0, FailurePlace::Unknown, EnvFailureCause::Panic(text))
    }

    fn carry_out(&mut self, step: &mut GroupStep) -> Result<(), EnvFailure> {
        if self.envs.is_none() {
            self.context.incarnation += 1;
            self.make()?;
        }
        let Self { context, monitor, envs: Some(envs), .. } = self else { return Ok(()) };
        monitor.at(0, FailurePlace::Unknown);
        let _inside = monitor.enter(context.incarnation);
        step.clear();
        match step.order {
            Order::Reset => envs.reset_all(step.obs.view_mut().into())?,
            Order::Step => {
                let out = VectorStep {
                    t: 0,
                    obs: step.obs.view_mut().into(),
                    rewards: &mut step.rewards,
                    ends: &mut step.ends,
                    final_obs: &mut step.final_obs,
                };
                envs.step(step.actions.view().into(), out)?;
            }
        }
        let steps_made = if step.order == Order::Step { self.size } else { 0 };
        let after_it = |failure| EnvFailure { steps_made, ..failure };
        if step.ends_column {
            envs.drain_episodes(&mut step.episodes);
        }
        if !step.masks.is_empty() {
            envs.action_masks(&mut step.masks).map_err(after_it)?;
        }
        Ok(())
    }
}
