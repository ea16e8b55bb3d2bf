//! [`Shared`]: what a parent writes into the memory that it shares with a child, and what it reads there.

use std::io;
use std::ops::Range;

use pronk_policy::ObsDtype;
use pronk_rollout::{ActionRef, AgentSpec, End, EnvError, Frame, MultiAgentSpec, ObsMut};

use crate::greeting::PROTOCOL;
use crate::layout::{FRAME_BYTES, Layout, MAGIC, header, mask_len};
use crate::memory::{Memory, Unmapped};

/// What a child writes as an end where a life was lost and the episode goes on.
const LIFE_LOST: u8 = 3;

/// The shared memory of one process, laid out for its environments.
///
/// A child may write anything at any time, so all that is read is a copy, and checked.
pub struct Shared {
    memory: Memory,
    layout: Layout,
    spec: MultiAgentSpec,
    n_envs: usize,
}

/// What the child broke the protocol with, and for which environment.
#[derive(Debug)]
pub struct Broken {
    /// Its index within the process.
    pub env: usize,
    /// What it wrote, and what was due.
    pub what: String,
}

impl Shared {
    /// Sets the size of the memory, and writes its header.
    ///
    /// # Errors
    /// The system's, or a child that changes the size meanwhile.
    pub fn map(memory: Unmapped, spec: MultiAgentSpec, layout: Layout, n_envs: usize) -> io::Result<Self> {
        let memory = memory.map(layout.bytes)?;
        memory.write(header::MAGIC, &MAGIC);
        memory.write(header::PROTOCOL, &[PROTOCOL]);
        memory.write(header::ENVS, &[n_envs as u32]);
        memory.write(header::AGENTS, &[spec.agents.len() as u32]);
        Ok(Self { memory, layout, spec, n_envs })
    }

    /// Its environments.
    pub fn spec(&self) -> &MultiAgentSpec {
        &self.spec
    }

    /// How many they are.
    pub fn n_envs(&self) -> usize {
        self.n_envs
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Sets the seed of an environment's next episode.
    pub fn set_seed(&self, env: usize, seed: u64) {
        self.memory.write(self.layout.seeds + env * size_of::<u64>(), &[seed]);
    }

    /// Names the environment of an order and the call, until the child does.
    pub fn set_call(&self, env: usize, call: u32) {
        self.memory.write(header::ENV, &[env as u32, call]);
    }

    /// The environment that is called, or the first if there is none such, and the call.
    pub fn call(&self) -> (usize, u32) {
        let env = self.memory.get::<u32>(header::ENV) as usize;
        (if env < self.n_envs { env } else { 0 }, self.memory.get(header::CALL))
    }

    /// Has the child draw from now on the state in which each episode of an environment ends.
    pub fn keep_last_frames(&self, env: usize) {
        self.memory.write(header::KEEP_LAST, &[env as u32 + 1]);
    }

    /// Reads the frame that the child drew last; `None` if the environment `env` drew none.
    ///
    /// # Errors
    /// A frame without pixels, or of more than a frame has at most.
    pub fn frame(&self, env: usize) -> Result<Option<Frame>, Broken> {
        let broken = |what| Broken { env, what };
        let mut told = [0u32; 3];
        self.memory.read(header::FRAME, &mut told);
        let [width, height, fps] = told;
        if (width, height) == (0, 0) {
            return Ok(None);
        }
        let bytes = (u64::from(width) * u64::from(height)).saturating_mul(3);
        if bytes > FRAME_BYTES as u64 {
            return Err(broken(format!(
                "it drew {width} × {height} pixels, {bytes} bytes, and a frame has {FRAME_BYTES} at most"
            )));
        }
        let mut rgb = vec![0; bytes as usize];
        self.memory.read(self.layout.frame, &mut rgb);
        let fps = if fps == 0 { Frame::DEFAULT_FPS } else { fps.try_into().unwrap_or(u16::MAX) };
        let frame = Frame::new(width, height, rgb).map_err(|error| broken(error.to_string()))?;
        Ok(Some(frame.with_fps(fps)))
    }

    /// Writes the actions of these environments; rows of agents that do not act are ignored.
    ///
    /// # Errors
    /// Actions of another space, or of another number.
    pub fn act(&self, agent: usize, envs: Range<usize>, actions: ActionRef<'_>) -> Result<(), EnvError> {
        let (at, space) = (self.layout.agents[agent].actions, &self.spec.agents[agent].action);
        // An action is a u32 or an f32.
        let at = at + envs.start * space.act_len() * size_of::<u32>();
        let due = envs.len() * space.act_len();
        match (actions, space.has_discrete_actions()) {
            (ActionRef::Discrete(indices), true) if indices.len() == due => self.memory.write(at, indices),
            (ActionRef::Continuous(values), false) if values.len() == due => self.memory.write(at, values),
            (other, _) => return Err(EnvError::new(format!("{due} numbers of {space} are due, got {other:?}"))),
        }
        Ok(())
    }

    /// Reads observations from environment `first` on, as many as fit.
    ///
    /// # Errors
    /// Observations of another space, or more than there are.
    pub fn observe(&self, agent: usize, first: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.copy_obs(self.layout.agents[agent].observations, agent, first, obs)
    }

    /// Reads the final observation of the episode that an environment ended.
    ///
    /// # Errors
    /// As [`observe`](Self::observe).
    pub fn final_observation(&self, env: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.copy_obs(self.layout.agents[0].final_observations, 0, env, obs)
    }

    /// Reads the rewards of an agent from environment `first` on, as many as fit.
    pub fn rewards(&self, agent: usize, first: usize, into: &mut [f64]) {
        self.memory.read(self.layout.agents[agent].rewards + first * size_of::<f64>(), into);
    }

    /// Reads how the step ended an agent's episodes, from environment `first` on, as many as fit. A lost life
    /// ends none.
    ///
    /// # Errors
    /// A number that is no end.
    pub fn ends(&self, agent: usize, first: usize, into: &mut [End]) -> Result<(), Broken> {
        let at = self.layout.agents[agent].ends;
        for (env, end) in (first..).zip(into) {
            *end = match self.memory.get::<u8>(at + env) {
                0 => End::No,
                1 => End::Terminated,
                2 => End::Truncated,
                LIFE_LOST => End::No,
                other => {
                    let what = format!("it wrote {other} where an end was due: 0 to {LIFE_LOST}");
                    return Err(Broken { env, what });
                }
            };
        }
        Ok(())
    }

    /// Whether the step cost a life in an episode that goes on.
    pub fn life_lost(&self, agent: usize, env: usize) -> bool {
        self.memory.get::<u8>(self.layout.agents[agent].ends + env) == LIFE_LOST
    }

    /// Whether an agent acts in the next step; without autoreset only.
    pub fn is_asked(&self, agent: usize, env: usize) -> bool {
        self.memory.get::<u8>(self.layout.agents[agent].asked + env) != 0
    }

    /// Reads the action masks of an agent, `[n, dist_len]`.
    ///
    /// # Errors
    /// Another number of elements.
    pub fn masks(&self, agent: usize, masks: &mut [bool]) -> Result<(), EnvError> {
        let AgentSpec { action_mask, action, .. } = &self.spec.agents[agent];
        if !action_mask {
            masks.fill(true);
            return Ok(());
        }
        let due = self.n_envs * mask_len(action);
        if masks.len() != due {
            return Err(EnvError::new(format!("a mask has {due} elements, {} are to be written", masks.len())));
        }
        let (mut at, mut bytes) = (self.layout.agents[agent].masks, [0u8; 64]);
        for some in masks.chunks_mut(bytes.len()) {
            let bytes = &mut bytes[..some.len()];
            self.memory.read(at, bytes);
            some.iter_mut().zip(&*bytes).for_each(|(possible, byte)| *possible = *byte != 0);
            at += some.len();
        }
        Ok(())
    }

    /// The message of an exception that the child reported.
    #[cold]
    ///
    /// # Errors
    /// A message that is longer than its place.
    pub fn message(&self) -> Result<String, String> {
        let len = self.memory.get::<u32>(header::MESSAGE_LEN) as usize;
        if len > header::END - header::MESSAGE {
            return Err(format!("its message is said to have {len} bytes"));
        }
        let mut text = vec![0u8; len];
        self.memory.read(header::MESSAGE, &mut text);
        Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    fn copy_obs(&self, section: usize, agent: usize, first: usize, obs: ObsMut<'_>) -> Result<(), EnvError> {
        let space = &self.spec.agents[agent].observation;
        let (before, there) = (first * space.obs_len(), (self.n_envs - first) * space.obs_len());
        let fits = obs.len() <= there && obs.len().is_multiple_of(space.obs_len());
        match (obs, space.obs_dtype()) {
            (ObsMut::F32(rows), ObsDtype::F32) if fits => {
                self.memory.read(section + before * size_of::<f32>(), rows);
            }
            (ObsMut::U8(rows), ObsDtype::U8) if fits => self.memory.read(section + before, rows),
            (rows, _) => {
                let kind = if matches!(rows, ObsMut::F32(_)) { "f32" } else { "u8" };
                let text = format!("observations of {space} do not fit into {} numbers of {kind}", rows.len());
                return Err(EnvError::new(text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;

    use pronk_policy::Space;

    use super::*;

    /// The memory of one environment that draws, and the child's end of it.
    fn shared() -> (Shared, std::fs::File) {
        let space = Space::discrete(2).unwrap();
        let agent = AgentSpec { name: "agent".into(), observation: space.clone(), action: space, action_mask: false };
        let spec = MultiAgentSpec { name: "Drawn".to_owned(), agents: vec![agent], max_episode_steps: None };
        let (memory, theirs): (_, OwnedFd) = Unmapped::create().unwrap();
        let layout = Layout::of(&spec.agents, 1, true, true).unwrap();
        (Shared::map(memory, spec, layout, 1).unwrap(), theirs.into())
    }

    #[test]
    fn a_frame_that_no_memory_holds_is_refused_whatever_its_size() {
        let (shared, theirs) = shared();
        for (width, height) in [(u32::MAX, u32::MAX), (1 << 24, 1), (0, 7)] {
            let size: Vec<u8> = [width, height, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
            theirs.write_all_at(&size, header::FRAME as u64).unwrap();
            let broken = shared.frame(0).unwrap_err();
            assert!(broken.what.contains(&format!("{width} × {height}")), "{}", broken.what);
        }
    }
}
