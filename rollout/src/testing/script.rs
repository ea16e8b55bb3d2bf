//! An environment in which anything may happen, and which writes down all that did.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pronk_buffer::End;
use pronk_policy::{Rng, Space};

use crate::env::{AgentSpec, Agents, EnvContext, EnvError, MultiAgentEnv, MultiAgentSpec};

pub(crate) const N_AGENTS: usize = 3;

/// What one call did, in the environment's own words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    /// Of a reset.
    pub(crate) episode_seed: Option<u64>,
    /// The version of the weights at that time.
    pub(crate) version: u64,
    pub(crate) acted: Vec<(usize, u32)>,
    pub(crate) paid: Vec<(usize, f32)>,
    pub(crate) shown: Vec<(usize, [f32; 3])>,
    pub(crate) asked: Vec<usize>,
    pub(crate) ended: Vec<(usize, End)>,
}

/// What all environments of a worker wrote down, environment by environment, and what they count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diary {
    pub(crate) calls: Arc<Mutex<Vec<Vec<Call>>>>,
    pub(crate) version: Arc<AtomicU64>,
    pub(crate) env_steps: Arc<AtomicU64>,
    pub(crate) agent_steps: Arc<AtomicU64>,
}

/// What goes wrong in the given step of an environment's life, from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mishap {
    Err,
    Panic,
    NanObs,
    InfReward,
    NobodyAsked,
    AskedAfterItsEnd,
    /// In the first reset that follows the step.
    ResetErr,
    ResetPanic,
    ResetNan,
    /// In the masks that follow the step.
    MaskErr,
    MaskPanic,
    NoWay,
}

impl Mishap {
    /// Whether the step was made all the same.
    fn spares_the_step(self) -> bool {
        use Mishap::*;
        matches!(self, ResetErr | ResetPanic | ResetNan | MaskErr | MaskPanic | NoWay)
    }
}

/// How the agents take part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    /// All that have not ended, all the time.
    Together,
    /// One after the other.
    InTurns,
    /// Anybody; some come late, some leave early, all are paid at any time.
    AtRandom,
}

/// Three agents. Each sees `[which it is, episode, step]`, all of them different numbers in the whole worker.
pub(crate) struct Script {
    pub(crate) diary: Diary,
    pub(crate) manner: Manner,
    pub(crate) limit: Option<u32>,
    pub(crate) mishap: Option<(u32, Mishap)>,
    pub(crate) masked: bool,
    index: usize,
    rng: Rng,
    episode: u32,
    step: u32,
    life: u32,
    ended: [bool; N_AGENTS],
    joined: [u32; N_AGENTS],
}

impl Script {
    pub(crate) fn new(context: &EnvContext, diary: &Diary, manner: Manner) -> Self {
        let index = context.index as usize;
        let mut calls = diary.calls.lock().unwrap();
        let n_envs = calls.len().max(index + 1);
        calls.resize_with(n_envs, Vec::new);
        // An environment that is made anew begins a new diary.
        calls[index].clear();
        drop(calls);
        Self {
            diary: diary.clone(),
            manner,
            limit: Some(17),
            mishap: None,
            masked: false,
            index,
            rng: Rng::seed_from(0),
            episode: 0,
            step: 0,
            life: 0,
            ended: [false; N_AGENTS],
            joined: [0; N_AGENTS],
        }
    }

    fn has(&self, mishap: Mishap) -> bool {
        self.mishap == Some((self.life, mishap))
    }

    fn has_come(&self, mishap: Mishap) -> bool {
        self.mishap.is_some_and(|(life, planted)| planted == mishap && self.life >= life)
    }

    fn obs(&self, agent: usize) -> [f32; 3] {
        [(10 * self.index + agent) as f32, self.episode as f32, self.step as f32]
    }

    /// Shows everybody something whose end was not before, and asks some of those who go on.
    fn show(&mut self, before: [bool; N_AGENTS], agents: &mut Agents, call: &mut Call) -> Result<(), EnvError> {
        let on: Vec<_> = (0..N_AGENTS).filter(|&agent| !self.ended[agent]).collect();
        let turn = on.get(self.step as usize % on.len().max(1)).copied();
        let mut asked: Vec<_> = on.iter().map(|&agent| self.asks(agent, turn)).collect();
        if !asked.contains(&true) && !asked.is_empty() {
            asked[0] = true;
        }
        call.asked = on.into_iter().zip(asked).filter(|(_, asked)| *asked).map(|(agent, _)| agent).collect();
        if self.has(Mishap::NobodyAsked) {
            call.asked.clear();
        }
        for agent in (0..N_AGENTS).filter(|&agent| !before[agent]) {
            let is_asked = call.asked.contains(&agent);
            let row = if is_asked { agents.ask(agent) } else { agents.show(agent) }?;
            let obs = self.obs(agent);
            row.write(&if self.has(Mishap::NanObs) { [0.0, f32::NAN, 0.0] } else { obs })?;
            call.shown.push((agent, obs));
        }
        Ok(())
    }

    fn asks(&mut self, agent: usize, turn: Option<usize>) -> bool {
        match self.manner {
            Manner::Together => true,
            Manner::InTurns => Some(agent) == turn,
            Manner::AtRandom => self.step >= self.joined[agent] && self.rng.below(2) == 0,
        }
    }

    fn pay(&mut self, agents: &mut Agents, call: &mut Call) -> Result<(), EnvError> {
        for agent in 0..N_AGENTS {
            if self.ended[agent] || self.rng.below(3) == 0 {
                continue;
            }
            let reward = 1.0 + self.rng.below(100) as f32;
            agents.reward(agent, reward)?;
            call.paid.push((agent, reward));
        }
        Ok(())
    }

    /// Who ends with this step, and how.
    fn draw_ends(&mut self, call: &mut Call) {
        let (early, all) = match self.manner {
            Manner::Together => (0, 9),
            Manner::InTurns => (0, 13),
            Manner::AtRandom => (12, 25),
        };
        let everybody = self.rng.below(all) == 0;
        for agent in 0..N_AGENTS {
            let this_one = early > 0 && self.rng.below(early) == 0;
            if !self.ended[agent] && (everybody || this_one) {
                call.ended.push((agent, if self.rng.below(2) == 0 { End::Terminated } else { End::Truncated }));
                self.ended[agent] = true;
            }
        }
    }

    /// The time limit is the library's affair, but the diary tells of it.
    fn note_limit(&mut self, call: &mut Call) {
        if self.limit == Some(self.step) {
            call.asked.clear();
            let cut_off = (0..N_AGENTS).filter(|&agent| !self.ended[agent]);
            call.ended.extend(cut_off.map(|agent| (agent, End::Truncated)));
        }
    }

    fn write_down(&self, call: Call) {
        self.diary.calls.lock().unwrap()[self.index].push(call);
    }
}

impl MultiAgentEnv for Script {
    fn spec(&self) -> MultiAgentSpec {
        let agent = |name: &str| AgentSpec {
            name: name.into(),
            observation: Space::boxed(vec![0.0; 3], vec![1e6; 3], vec![3]).unwrap(),
            action: Space::discrete(2).unwrap(),
            action_mask: self.masked,
        };
        MultiAgentSpec {
            name: "Script".into(),
            agents: vec![agent("first"), agent("second"), agent("third")],
            max_episode_steps: self.limit,
        }
    }

    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        if self.has_come(Mishap::ResetErr) {
            return Err(EnvError::new("planted reset error"));
        }
        assert!(!self.has_come(Mishap::ResetPanic), "planted reset panic");
        self.rng = Rng::seed_from(seed);
        self.episode += 1;
        self.step = 0;
        self.ended = [false; N_AGENTS];
        self.joined = [0, self.rng.below(6) as u32, self.rng.below(12) as u32];
        let mut call = Call { episode_seed: Some(seed), ..Call::default() };
        self.show([false; N_AGENTS], agents, &mut call)?;
        if self.has_come(Mishap::ResetNan) {
            agents.show(1)?.write(&[f32::NAN; 3])?;
        }
        self.write_down(call);
        Ok(())
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        self.step += 1;
        self.life += 1;
        if self.has(Mishap::Err) {
            return Err(EnvError::new("planted step error"));
        }
        assert!(!self.has(Mishap::Panic), "planted step panic");
        let mut call = Call { version: self.diary.version.load(Ordering::SeqCst), ..Call::default() };
        for agent in (0..N_AGENTS).filter(|&agent| agents.acts(agent)) {
            call.acted.push((agent, agents.action(agent)?.discrete()?));
        }
        self.pay(agents, &mut call)?;
        let before = self.ended;
        self.draw_ends(&mut call);
        self.show(before, agents, &mut call)?;
        for &(agent, how) in &call.ended {
            if how == End::Terminated { agents.terminate(agent) } else { agents.truncate(agent) }?;
        }
        if self.has(Mishap::InfReward) {
            agents.reward(before.iter().position(|ended| !ended).unwrap(), f32::INFINITY)?;
        }
        if self.has(Mishap::AskedAfterItsEnd) {
            agents.terminate_all()?;
            agents.ask(2)?;
        }
        self.note_limit(&mut call);
        if !self.mishap.is_some_and(|(life, mishap)| life == self.life && !mishap.spares_the_step()) {
            self.diary.env_steps.fetch_add(1, Ordering::SeqCst);
            self.diary.agent_steps.fetch_add(call.acted.len() as u64, Ordering::SeqCst);
        }
        self.write_down(call);
        Ok(())
    }

    fn action_mask(&self, _agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        if self.has(Mishap::MaskErr) {
            return Err(EnvError::new("planted mask error"));
        }
        assert!(!self.has(Mishap::MaskPanic), "planted mask panic");
        mask.fill(!self.has(Mishap::NoWay));
        Ok(())
    }
}
