//! Environments and a network whose every move is known, for the tests of this room.

pub(crate) mod script;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pronk_buffer::{End, Pool, ShutdownGuard, Versioned, shutdown};
use pronk_metrics::{ByPolicy, StepLedger, default_policy};
use pronk_policy::{
    Input, Network, NetworkShape, NetworkSpec, ObsRef, OutputGrads, Outputs, ParamLayout, Params, PolicyError, Space,
};

use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step};
use crate::envs::Masked;
use crate::pool::EnvFactory;
use crate::worker::{
    MakeWorker, NormalizerConfig, RestartPolicy, RolloutWorker, WorkerConfig, WorkerLinks, WorkerSeat,
};

/// Longer than anything here takes; a wait this long is a hang.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const NO_PAUSE: RestartPolicy = RestartPolicy {
    num_consecutive_worker_failures_tolerance: 3,
    max_num_worker_restarts: 10_000,
    restart_window: LONG,
    first_backoff: Duration::ZERO,
    max_backoff: Duration::ZERO,
};

pub(crate) fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Spins until `condition` holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// What goes wrong, and in which call: steps are counted from 1 over the environment's whole life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Nothing,
    StepErr(u32),
    StepPanic(u32),
    StepNanObs(u32),
    StepInfReward(u32),
    /// In the reset that begins the given episode, from 1.
    ResetErr(u32),
    ResetPanic(u32),
    ResetNanObs(u32),
    /// In every drawing.
    RenderErr,
    RenderPanic,
}

/// An environment whose observation is `[episode, step of the episode, noise from the episode's seed]`, and
/// whose reward is the step of the episode. Its episodes end after the given lengths, in turns. It draws one
/// pixel, `[episode, step of the episode, drawings in its life]`.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) ends: Vec<(u32, End)>,
    pub(crate) max_episode_steps: Option<u32>,
    pub(crate) fault: Fault,
    episode: u32,
    step: u32,
    life: u32,
    noise: f32,
    drawings: u8,
}

impl Counter {
    pub(crate) fn new(ends: &[(u32, End)]) -> Self {
        Self {
            ends: ends.to_vec(),
            max_episode_steps: None,
            fault: Fault::Nothing,
            episode: 0,
            step: 0,
            life: 0,
            noise: 0.0,
            drawings: 0,
        }
    }

    /// Episodes of three steps that terminate.
    pub(crate) fn of_three() -> Self {
        Self::new(&[(3, End::Terminated)])
    }

    pub(crate) fn with_fault(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    pub(crate) fn with_limit(self, limit: u32) -> Self {
        Self { max_episode_steps: Some(limit), ..self }
    }

    fn observe(&self, obs: ObsMut<'_>, nan: bool) -> Result<(), EnvError> {
        obs.write(&[self.episode as f32, if nan { f32::NAN } else { self.step as f32 }, self.noise])
    }
}

impl Env for Counter {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "Counter".into(),
            observation: Space::boxed(vec![0.0; 3], vec![1e6, 1e6, 1.0], vec![3]).unwrap(),
            action: Space::discrete(2).unwrap(),
            max_episode_steps: self.max_episode_steps,
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.episode += 1;
        self.step = 0;
        self.noise = (seed % 1000) as f32 / 1000.0;
        match self.fault {
            Fault::ResetErr(episode) if episode == self.episode => Err(EnvError::new("planted reset error")),
            Fault::ResetPanic(episode) if episode == self.episode => panic!("planted reset panic"),
            fault => self.observe(obs, fault == Fault::ResetNanObs(self.episode)),
        }
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        action.discrete()?;
        self.life += 1;
        self.step += 1;
        match self.fault {
            Fault::StepErr(step) if step == self.life => return Err(EnvError::new("planted step error")),
            Fault::StepPanic(step) if step == self.life => panic!("planted step panic"),
            fault => self.observe(obs, fault == Fault::StepNanObs(self.life))?,
        }
        let reward = if self.fault == Fault::StepInfReward(self.life) { f32::INFINITY } else { self.step as f32 };
        let (len, end) = self.ends[(self.episode as usize - 1) % self.ends.len()];
        Ok(Step { reward, end: if self.step == len { end } else { End::No } })
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        self.drawings += 1;
        match self.fault {
            Fault::RenderErr => Err(EnvError::new("planted drawing error")),
            Fault::RenderPanic => panic!("planted drawing panic"),
            _ => Frame::new(1, 1, vec![self.episode as u8, self.step as u8, self.drawings]).map(Some),
        }
    }
}

/// An environment that shows 1000 for ever.
pub(crate) struct Constant;

impl Env for Constant {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "Constant".into(),
            observation: Space::boxed(vec![0.0], vec![1e6], vec![1]).unwrap(),
            action: Space::discrete(2).unwrap(),
            max_episode_steps: None,
            action_mask: false,
        }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&[1000.0])
    }

    fn step(&mut self, _action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        obs.write(&[1000.0])?;
        Ok(Step { reward: 1.0, end: End::No })
    }
}

/// A moment of a [`Hooked`] environment's life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moment {
    Reset,
    Step,
    Drop,
}

/// A [`Counter`] that tells what is about to happen to it, and may say something else about itself.
pub(crate) struct Hooked {
    counter: Counter,
    hook: Box<dyn FnMut(Moment) + Send>,
    spec: EnvSpec,
}

impl Hooked {
    pub(crate) fn before(hook: impl FnMut(Moment) + Send + 'static) -> Self {
        let counter = Counter::of_three();
        let spec = counter.spec();
        Self { counter, hook: Box::new(hook), spec }
    }

    pub(crate) fn with_spec(change: impl FnOnce(&mut EnvSpec)) -> Self {
        let mut env = Self::before(|_| {});
        change(&mut env.spec);
        env
    }

    pub(crate) fn with_fault(mut self, fault: Fault) -> Self {
        self.counter.fault = fault;
        self
    }
}

impl Env for Hooked {
    fn spec(&self) -> EnvSpec {
        self.spec.clone()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        (self.hook)(Moment::Reset);
        self.counter.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        (self.hook)(Moment::Step);
        self.counter.step(action, obs)
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        (self.hook)(Moment::Drop);
    }
}

/// What goes wrong with a mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MaskFault {
    Nothing,
    Err,
    Panic,
    AllFalse,
}

/// Masks that environments gave, in the order in which they were asked.
pub(crate) type Masks = Arc<Mutex<Vec<Vec<bool>>>>;

/// A [`Masked`] of [`N_ACTIONS`] that writes down the masks it gives. In the state after the fourth step of
/// its life something may go wrong.
pub(crate) struct Watched {
    env: Masked,
    given: Masks,
    fault: MaskFault,
    life: u32,
}

pub(crate) const N_ACTIONS: usize = 5;

impl Watched {
    pub(crate) fn new(given: &Masks) -> Self {
        Self { env: Masked::new(N_ACTIONS, 3), given: Arc::clone(given), fault: MaskFault::Nothing, life: 0 }
    }

    pub(crate) fn with_fault(fault: MaskFault) -> Self {
        Self { fault, ..Self::new(&Masks::default()) }
    }
}

impl Env for Watched {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.life += 1;
        self.env.step(action, obs)
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        assert!(mask.iter().all(|possible| *possible), "a mask comes with everything possible");
        self.env.action_mask(mask)?;
        self.given.lock().unwrap().push(mask.to_vec());
        match self.fault {
            MaskFault::Err if self.life == 4 => return Err(EnvError::new("planted mask error")),
            MaskFault::Panic if self.life == 4 => panic!("planted mask panic"),
            MaskFault::AllFalse if self.life == 4 => mask.fill(false),
            _ => {}
        }
        Ok(())
    }
}

/// A network for [`Counter`] with one weight `w`: both logits are `0` and the value is `w` plus the sum of
/// the observation. It panics when the weight is [`PANIC`](Self::PANIC).
pub(crate) struct OneWeight {
    shape: NetworkShape,
    layout: Arc<ParamLayout>,
}

impl OneWeight {
    pub(crate) const PANIC: f32 = 1e9;

    pub(crate) fn new() -> Self {
        let spec = Counter::of_three().spec();
        let shape = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap().shape();
        Self { shape, layout: layout() }
    }
}

fn layout() -> Arc<ParamLayout> {
    Arc::new(ParamLayout::new([("w", vec![1])]))
}

pub(crate) fn params(w: f32) -> Params {
    Params::new(layout(), vec![w]).unwrap()
}

/// The weights of the default policy, and of no other.
pub(crate) fn of_default(params: Params) -> ByPolicy<Params> {
    ByPolicy::from([(default_policy(), params)])
}

pub(crate) fn weights(version: u64, w: f32) -> Versioned<ByPolicy<Params>> {
    Versioned::new(version, of_default(params(w)))
}

impl Network for OneWeight {
    fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        input.check(&self.shape)?;
        let w = params.values()[0];
        if w == Self::PANIC {
            // Without the hook, which would print it in every schedule of a model.
            std::panic::resume_unwind(Box::new("planted network panic"));
        }
        let ObsRef::F32(obs) = input.obs else { unreachable!("checked above") };
        out.logits.clear();
        out.logits.resize(2 * input.rows, 0.0);
        out.values.clear();
        out.values.extend(obs.chunks(3).map(|row| w + row.iter().sum::<f32>()));
        Ok(())
    }

    fn forward_for_learning(&mut self, _: &Params, _: &Input<'_>, _: &mut Outputs) -> Result<(), PolicyError> {
        unreachable!("workers do not learn")
    }

    fn backward(&mut self, _: &Params, _: &OutputGrads, _: &mut [f32]) -> Result<(), PolicyError> {
        unreachable!("workers do not learn")
    }
}

/// Makes workers with [`OneWeight`] in the environments of `factory`: what a run is started with.
pub(crate) fn make_workers<F: EnvFactory + 'static>(factory: F, seed: u64, links: &WorkerLinks) -> Arc<MakeWorker> {
    let (factory, links) = (Arc::new(factory), links.clone());
    Arc::new(move |seat: &WorkerSeat| {
        let factory = Arc::clone(&factory) as Arc<dyn EnvFactory>;
        let network = Box::new(OneWeight::new());
        let config = WorkerConfig { incarnation: seat.incarnation, ..config(seat.worker, seed) };
        let links = WorkerLinks { monitor: seat.monitor.clone(), slots: Arc::clone(&seat.slots), ..links.clone() };
        RolloutWorker::new(config, factory, network, links)
    })
}

/// `T` = 4 steps of `B` = 2 environments.
pub(crate) fn config(worker: u32, seed: u64) -> WorkerConfig {
    let gaussian = pronk_policy::GaussianConfig::default();
    WorkerConfig {
        worker,
        incarnation: 0,
        seed,
        num_envs_per_worker: n(2),
        rollout_fragment_length: n(4),
        gaussian,
        normalize: NormalizerConfig::default(),
    }
}

/// What a worker needs from a run, and the shutdown guard that ends it.
pub(crate) fn links() -> (WorkerLinks, StepLedger, ShutdownGuard) {
    let (shutdown, token) = shutdown();
    let steps = StepLedger::new();
    (WorkerLinks::new(Pool::new(4), steps.clone(), token), steps, shutdown)
}
