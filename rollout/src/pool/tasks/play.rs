use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use pronk_buffer::End;
use pronk_metrics::catch;

use super::request::{Call, Orders, Reply, Shared, TaskRequest, TaskSlot};
use crate::env::{
    AsyncEnv, EnvContext, EnvError, EnvFailure, EnvFailureCause, EnvSpec, Episodes, FailurePlace, ObsMut,
    VectorContext, mask,
};
use crate::pool::{Answer, GroupFailure, GroupStep, Order};

/// A task: builds an environment and carries out orders in it until the pool is dropped.
pub(crate) async fn play<E, M>(slot: TaskSlot, make: impl Fn(EnvContext) -> M + Send + Sync)
where
    E: AsyncEnv,
    M: Future<Output = Result<E, EnvError>> + Send,
{
    let mut instance = None;
    let caller = |incarnation| TaskCall { shared: &slot.shared, orders: &slot.orders, index: slot.index, incarnation };
    if slot.is_first {
        let caller = caller(slot.shared.context.incarnation);
        let made = caller.make(&make).await.map(|made| instance.insert(made).spec.clone());
        if slot.shared.replies.try_push(Reply::Made(made.map_err(|fault| caller.failure(fault)))).is_err() {
            return;
        }
    }
    loop {
        let TaskRequest { incarnation, mut step } = slot.orders.next().await;
        let caller = caller(incarnation);
        let outcome = caller.carry_out(&make, &mut instance, &mut step).await.map_err(|fault| caller.failure(fault));
        if outcome.is_err() {
            let _inside = caller.enter(FailurePlace::Unknown);
            // A panic in a destructor is contained: the first failure is the one to report.
            let _ = catch(|| instance = None);
        }
        let outcome = outcome.map_err(|failure| GroupFailure { failure, abandoned: None });
        let answer = Answer { group: slot.index as usize, step, outcome };
        if slot.shared.replies.try_push(Reply::Done(answer)).is_err() {
            return;
        }
    }
}

/// An environment with its episodes, until it fails.
struct EnvInstance<E> {
    env: E,
    spec: EnvSpec,
    episodes: Episodes,
}

/// A failure, and the steps (0 or 1) made before it in the same order.
struct Fault {
    place: FailurePlace,
    cause: EnvFailureCause,
    steps_made: usize,
}

impl From<(FailurePlace, EnvFailureCause)> for Fault {
    fn from((place, cause): (FailurePlace, EnvFailureCause)) -> Self {
        Self { place, cause, steps_made: 0 }
    }
}

/// The caller of an environment: its place in the pool and its incarnation.
#[derive(Clone, Copy)]
struct TaskCall<'a> {
    shared: &'a Shared,
    orders: &'a Orders,
    index: u32,
    incarnation: u32,
}

impl TaskCall<'_> {
    async fn make<E, M>(&self, make: impl Fn(EnvContext) -> M + Sync) -> Result<EnvInstance<E>, Fault>
    where
        E: AsyncEnv,
        M: Future<Output = Result<E, EnvError>> + Send,
    {
        let context = VectorContext { incarnation: self.incarnation, ..self.shared.context }.env(self.index);
        let (env, spec) = self
            .call(FailurePlace::Make, 0, async {
                let env = make(context).await?;
                let spec = env.spec();
                self.check(&spec)?;
                Ok((env, spec))
            })
            .await?;
        Ok(EnvInstance { env, spec, episodes: Episodes::new(context) })
    }

    /// Checks that the spec is that of the other environments.
    fn check(&self, spec: &EnvSpec) -> Result<(), EnvError> {
        spec.check()?;
        match self.shared.spec.get_or_init(|| spec.clone()) {
            first if first == spec => Ok(()),
            first => Err(EnvError::new(format!(
                "the environments of one worker must have one spec: the first is {first}, this one {spec}"
            ))),
        }
    }

    async fn carry_out<E, M>(
        &self,
        make: impl Fn(EnvContext) -> M + Sync,
        instance: &mut Option<EnvInstance<E>>,
        step: &mut GroupStep,
    ) -> Result<(), Fault>
    where
        E: AsyncEnv,
        M: Future<Output = Result<E, EnvError>> + Send,
    {
        step.clear();
        match (step.order, &mut *instance) {
            (Order::Step, Some(instance)) => self.step(instance, step).await?,
            (Order::Step, None) => return Err((FailurePlace::Unknown, self.lost()).into()),
            (Order::Reset, _) => {
                let instance = match instance {
                    Some(instance) => instance,
                    None => instance.insert(self.make(make).await?),
                };
                self.begin_episode(instance, step).await?;
            }
        }
        let Some(instance) = instance else { return Ok(()) };
        if !step.masks.is_empty() {
            let steps_made = usize::from(step.order == Order::Step);
            self.mask(instance, &mut step.masks).map_err(|fault| Fault { steps_made, ..fault })?;
        }
        Ok(())
    }

    /// Why there is no environment to step.
    fn lost(&self) -> EnvFailureCause {
        match self.shared.blocked_by {
            Some(blocked_by) => EnvFailureCause::Lost { blocked_by },
            None => EnvFailureCause::Error(EnvError::new("it was lost with its thread")),
        }
    }

    async fn begin_episode<E: AsyncEnv>(
        &self,
        instance: &mut EnvInstance<E>,
        step: &mut GroupStep,
    ) -> Result<(), Fault> {
        let seed = instance.episodes.begin();
        let place = instance.episodes.reset_place();
        let steps_made = usize::from(step.order == Order::Step);
        self.call(place, steps_made, async { instance.env.reset(seed, step.obs.view_mut().into()).await }).await?;
        ObsMut::from(step.obs.view_mut()).check_finite().map_err(|cause| (place, cause).into())
    }

    async fn step<E: AsyncEnv>(&self, instance: &mut EnvInstance<E>, step: &mut GroupStep) -> Result<(), Fault> {
        let place = instance.episodes.next_place();
        let made = self
            .call(place, 0, async { instance.env.step(step.actions.view().into(), step.obs.view_mut().into()).await })
            .await?;
        let counted = instance.episodes.count(made, &step.obs.view_mut().into(), instance.spec.max_episode_steps);
        let end = counted.map_err(|cause| (place, cause))?;
        (step.rewards[0], step.ends[0]) = (made.reward, end);
        if end != End::No {
            if end == End::Truncated {
                let kept = step.final_obs.push(0, 0, step.obs.view());
                kept.map_err(|error| (place, EnvFailureCause::Error(EnvError::new(error))))?;
            }
            step.episodes.push(instance.episodes.stat());
            self.begin_episode(instance, step).await.map_err(|fault| Fault { steps_made: 1, ..fault })?;
        }
        Ok(())
    }

    fn mask<E: AsyncEnv>(&self, instance: &EnvInstance<E>, masks: &mut [bool]) -> Result<(), Fault> {
        let place = instance.episodes.mask_place();
        let _inside = self.enter(place);
        masks.fill(true);
        let cause = match catch(|| instance.env.action_mask(masks)) {
            Ok(Ok(())) => match mask::first_fully_masked(masks, &instance.spec.action) {
                None => return Ok(()),
                Some(choice) => EnvFailureCause::NothingPossible { choice },
            },
            Ok(Err(error)) => EnvFailureCause::Error(error),
            Err(text) => EnvFailureCause::Panic(text),
        };
        Err((place, cause).into())
    }

    /// Runs user code; a panic in it is a failure.
    async fn call<T>(
        &self,
        place: FailurePlace,
        steps_made: usize,
        call: impl Future<Output = Result<T, EnvError>> + Send,
    ) -> Result<T, Fault> {
        let looks = self.shared.looks.load(Ordering::Relaxed);
        self.orders.set_call(Some(Call { place, incarnation: self.incarnation, steps_made, looks }));
        let mut call = pin!(Some(call));
        let done = poll_fn(|context| {
            let _inside = self.enter(place);
            let Some(call) = call.as_mut().as_pin_mut() else { return Poll::Pending };
            match catch(|| call.poll(context)) {
                Ok(poll) => poll.map(|done| done.map_err(EnvFailureCause::Error)),
                Err(text) => Poll::Ready(Err(EnvFailureCause::Panic(text))),
            }
        })
        .await;
        self.orders.set_call(None);
        let _inside = self.enter(place);
        // Dropped here, so that a panic in its destructors is caught as well.
        match (done, catch(|| call.set(None))) {
            (Ok(_), Err(text)) => Err((place, EnvFailureCause::Panic(text)).into()),
            (done, _) => done.map_err(|cause| (place, cause).into()),
        }
    }

    /// Marks the thread as inside this environment until the guard is dropped.
    fn enter(&self, place: FailurePlace) -> impl Drop + use<'_> {
        self.shared.monitor.at(self.index, place);
        self.shared.monitor.enter(self.incarnation)
    }

    #[cold]
    fn failure(&self, fault: Fault) -> EnvFailure {
        let Fault { place, cause, steps_made } = fault;
        let context = VectorContext { incarnation: self.incarnation, ..self.shared.context };
        EnvFailure { steps_made, ..context.failure(self.shared.spec.get(), self.index, place, cause) }
    }
}
