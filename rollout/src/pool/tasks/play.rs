use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use pronk_buffer::{End, ObsColumn, ObsView};
use pronk_metrics::catch;

use super::request::{Call, Orders, Reply, Seat, Shared, TaskRequest};
use crate::env::{
    AsyncEnv, EnvContext, EnvError, EnvFailure, EnvFailureCause, EnvSpec, Episodes, FailurePlace, ObsMut,
    VectorContext, mask,
};
use crate::pool::{Answer, GroupFailure, GroupStep, Order};
use crate::vector::Normalization;

/// The life of a task: it carries out orders in an environment that it makes, until nobody listens.
pub(crate) async fn play<E, M>(seat: Seat, make: impl Fn(EnvContext) -> M + Send + Sync)
where
    E: AsyncEnv,
    M: Future<Output = Result<E, EnvError>> + Send,
{
    let mut life = None;
    let caller = |incarnation| TaskCall { shared: &seat.shared, orders: &seat.orders, index: seat.index, incarnation };
    if seat.is_first {
        let caller = caller(seat.shared.context.incarnation);
        let made = caller.make(&make).await.map(|made| life.insert(made).spec.clone());
        if seat.shared.replies.try_push(Reply::Made(made.map_err(|fault| caller.failure(fault)))).is_err() {
            return;
        }
    }
    loop {
        let TaskRequest { incarnation, mut step } = seat.orders.next().await;
        let caller = caller(incarnation);
        let outcome = caller.carry_out(&make, &mut life, &mut step).await.map_err(|fault| caller.failure(fault));
        if outcome.is_err() {
            let _inside = caller.enter(FailurePlace::Unknown);
            // What failed may panic once more while it is dropped. The failure that is reported is the first.
            let _ = catch(|| life = None);
        }
        let outcome = outcome.map_err(|failure| GroupFailure { failure, abandoned: None });
        let answer = Answer { group: seat.index as usize, step, outcome };
        if seat.shared.replies.try_push(Reply::Done(answer)).is_err() {
            return;
        }
    }
}

/// An environment, from when it was made until it fails.
struct EnvInstance<E> {
    env: E,
    spec: EnvSpec,
    episodes: Episodes,
    normalization: Option<Normalization>,
}

/// What went wrong, and how many steps had been made: the one before an episode's end, or none.
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

/// Who calls an environment.
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
                self.shared.normalizer.as_ref().map_or(Ok(()), |normalizer| normalizer.check(&spec))?;
                Ok((env, spec))
            })
            .await?;
        let normalizer = self.shared.normalizer.as_ref();
        let obs_len = spec.observation.obs_len();
        let normalization = normalizer.map(|normalizer| Normalization::new(normalizer.clone(), 1, obs_len));
        Ok(EnvInstance { env, spec, episodes: Episodes::new(context), normalization })
    }

    /// Whether it is such an environment as the others.
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
        life: &mut Option<EnvInstance<E>>,
        step: &mut GroupStep,
    ) -> Result<(), Fault>
    where
        E: AsyncEnv,
        M: Future<Output = Result<E, EnvError>> + Send,
    {
        step.clear();
        match (step.order, &mut *life) {
            (Order::Step, Some(life)) => self.step(life, step).await?,
            (Order::Step, None) => return Err((FailurePlace::Unknown, self.lost()).into()),
            (Order::Reset, _) => {
                let life = match life {
                    Some(life) => life,
                    None => life.insert(self.make(make).await?),
                };
                life.begin_normalizing();
                self.begin_episode(life, step).await?;
            }
        }
        let Some(life) = life else { return Ok(()) };
        if !step.masks.is_empty() {
            let steps_made = usize::from(step.order == Order::Step);
            self.mask(life, &mut step.masks).map_err(|fault| Fault { steps_made, ..fault })?;
        }
        Ok(())
    }

    /// Why there is no environment that could take a step.
    fn lost(&self) -> EnvFailureCause {
        match self.shared.blocked_by {
            Some(blocked_by) => EnvFailureCause::Lost { blocked_by },
            None => EnvFailureCause::Error(EnvError::new("it was lost with its thread")),
        }
    }

    async fn begin_episode<E: AsyncEnv>(&self, life: &mut EnvInstance<E>, step: &mut GroupStep) -> Result<(), Fault> {
        let seed = life.episodes.begin();
        let place = life.episodes.reset_place();
        let steps_made = usize::from(step.order == Order::Step);
        self.call(place, steps_made, async { life.env.reset(seed, step.obs.view_mut().into()).await }).await?;
        ObsMut::from(step.obs.view_mut()).check_finite().map_err(|cause| (place, cause))?;
        life.observe(step).map_err(|error| (place, EnvFailureCause::Error(error)).into())
    }

    async fn step<E: AsyncEnv>(&self, life: &mut EnvInstance<E>, step: &mut GroupStep) -> Result<(), Fault> {
        let place = life.episodes.next_place();
        let made = self
            .call(place, 0, async { life.env.step(step.actions.view().into(), step.obs.view_mut().into()).await })
            .await?;
        let counted = life.episodes.count(made, &step.obs.view_mut().into(), life.spec.max_episode_steps);
        let end = counted.map_err(|cause| (place, cause))?;
        (step.rewards[0], step.ends[0]) = (made.reward, end);
        if let Some(normalization) = &mut life.normalization {
            normalization.reward(&mut step.rewards, &step.ends);
        }
        if end == End::No {
            life.observe(step).map_err(|error| (place, EnvFailureCause::Error(error)))?;
        } else {
            if end == End::Truncated {
                life.keep_final_obs(step).map_err(|error| (place, EnvFailureCause::Error(error)))?;
            }
            step.episodes.push(life.episodes.stat());
            self.begin_episode(life, step).await.map_err(|fault| Fault { steps_made: 1, ..fault })?;
        }
        if step.ends_fragment {
            let begun = life.begin_fragment(step);
            begun.map_err(|error| Fault { steps_made: 1, ..(place, EnvFailureCause::Error(error)).into() })?;
        }
        Ok(())
    }

    fn mask<E: AsyncEnv>(&self, life: &EnvInstance<E>, masks: &mut [bool]) -> Result<(), Fault> {
        let place = life.episodes.mask_place();
        let _inside = self.enter(place);
        masks.fill(true);
        let cause = match catch(|| life.env.action_mask(masks)) {
            Ok(Ok(())) => match mask::first_fully_masked(masks, &life.spec.action) {
                None => return Ok(()),
                Some(choice) => EnvFailureCause::NothingPossible { choice },
            },
            Ok(Err(error)) => EnvFailureCause::Error(error),
            Err(text) => EnvFailureCause::Panic(text),
        };
        Err((place, cause).into())
    }

    /// Waits for code that is not ours. A panic in it is why it failed.
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
        // What it holds is dropped here, so that a panic in that is caught as well.
        match (done, catch(|| call.set(None))) {
            (Ok(_), Err(text)) => Err((place, EnvFailureCause::Panic(text)).into()),
            (done, _) => done.map_err(|cause| (place, cause).into()),
        }
    }

    /// Says which environment has the thread, until what is returned is dropped.
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

impl<E> EnvInstance<E> {
    fn begin_normalizing(&mut self) {
        if let Some(normalization) = &mut self.normalization {
            normalization.begin();
        }
    }

    /// Normalises the observation that is to be acted upon next.
    fn observe(&mut self, step: &mut GroupStep) -> Result<(), EnvError> {
        match &mut self.normalization {
            Some(normalization) if normalization.changes_observations() => {
                ObsMut::from(step.obs.view_mut()).f32().and_then(|row| normalization.observe(row))
            }
            _ => Ok(()),
        }
    }

    /// Joins the moments with those of the others, and brings the observation that follows to their scale.
    fn begin_fragment(&mut self, step: &mut GroupStep) -> Result<(), EnvError> {
        let Some(normalization) = &mut self.normalization else { return Ok(()) };
        normalization.exchange();
        if !normalization.changes_observations() {
            return Ok(());
        }
        step.begin_fragment(|mut obs| {
            let len = obs.len();
            normalization.restore(obs.part(0, len))?;
            obs.f32().and_then(|row| normalization.scale(row))
        })
    }

    /// Keeps the observation that the episode would have gone on from.
    fn keep_final_obs(&mut self, step: &mut GroupStep) -> Result<(), EnvError> {
        if let (Some(normalization), ObsColumn::F32(row)) = (&self.normalization, &mut step.obs) {
            // The row is written anew by the reset that follows.
            normalization.scale(row)?;
        }
        let row: ObsView<'_> = step.obs.view();
        step.final_obs.push(0, 0, row).map_err(EnvError::new)
    }
}
