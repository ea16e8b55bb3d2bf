//! The layout of the shared memory, as `PROTOCOL.md` defines it.

use pronk_policy::{ObsDtype, Space};
use pronk_rollout::AgentSpec;

/// The header's magic bytes.
pub(crate) const MAGIC: [u8; 4] = *b"PRNK";

/// Bytes of the header's numbers.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const PROTOCOL: usize = 4;
    pub(crate) const ENVS: usize = 8;
    pub(crate) const AGENTS: usize = 12;
    pub(crate) const ENV: usize = 16;
    pub(crate) const CALL: usize = 20;
    pub(crate) const MESSAGE_LEN: usize = 24;
    pub(crate) const FRAME: usize = 28;
    pub(crate) const KEEP_LAST: usize = 40;
    pub(crate) const MESSAGE: usize = 64;
    pub(crate) const END: usize = 65_536;
}

/// Alignment of sections: a cache line.
const ALIGN: usize = 64;

/// Bytes of the longest frame. Memory that no frame is written to is never allocated.
pub(crate) const FRAME_BYTES: usize = 1 << 24;

/// Far above any real group of environments, and far below an overflow of sizes in bytes.
const MAX_BYTES: usize = 1 << 38;

/// The layout of the shared memory: the offsets of its sections.
#[derive(Debug, PartialEq)]
pub struct Layout {
    pub(crate) seeds: usize,
    pub(crate) agents: Vec<AgentLayout>,
    /// Of a child that draws; else the end.
    pub(crate) frame: usize,
    /// The total size.
    pub(crate) bytes: usize,
}

/// Offsets of one agent's sections. An absent section has the offset of the next one.
#[derive(Debug, PartialEq)]
pub(crate) struct AgentLayout {
    pub(crate) actions: usize,
    pub(crate) observations: usize,
    /// With autoreset.
    pub(crate) final_observations: usize,
    pub(crate) rewards: usize,
    pub(crate) ends: usize,
    /// Without autoreset.
    pub(crate) asked: usize,
    /// With action masks.
    pub(crate) masks: usize,
}

impl Layout {
    /// The size of the memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The layout for this many environments; `None` if it exceeds any machine's memory.
    pub(crate) fn of(agents: &[AgentSpec], n_envs: usize, autoreset: bool, renders: bool) -> Option<Self> {
        let mut end = header::END;
        let mut section_of = |bytes: usize| {
            let begin = end;
            end = begin.checked_add(bytes)?.checked_next_multiple_of(ALIGN).filter(|end| *end <= MAX_BYTES)?;
            Some(begin)
        };
        let mut section = |numbers: usize, size: usize| section_of(n_envs.checked_mul(numbers)?.checked_mul(size)?);
        let seeds = section(1, size_of::<u64>())?;
        let mut layouts = Vec::with_capacity(agents.len());
        for AgentSpec { observation, action, action_mask, .. } in agents {
            let obs_len = observation.obs_len();
            let obs_size = match observation.obs_dtype() {
                ObsDtype::F32 => size_of::<f32>(),
                ObsDtype::U8 => size_of::<u8>(),
            };
            layouts.push(AgentLayout {
                actions: section(action.act_len(), size_of::<u32>())?,
                observations: section(obs_len, obs_size)?,
                final_observations: section(if autoreset { obs_len } else { 0 }, obs_size)?,
                rewards: section(1, size_of::<f64>())?,
                ends: section(1, 1)?,
                asked: section(if autoreset { 0 } else { 1 }, 1)?,
                masks: section(if *action_mask { mask_len(action) } else { 0 }, 1)?,
            });
        }
        let frame = section_of(if renders { FRAME_BYTES } else { 0 })?;
        Some(Self { seeds, agents: layouts, frame, bytes: end })
    }
}

/// Elements of one environment's mask.
pub(crate) fn mask_len(action: &Space) -> usize {
    // One for each option of each choice, like the logits of a policy.
    if action.has_discrete_actions() { action.dist_len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(observation: Space, action: Space, action_mask: bool) -> AgentSpec {
        AgentSpec { name: "agent".into(), observation, action, action_mask }
    }

    #[test]
    fn sections_follow_each_other_in_the_order_of_the_protocol() {
        let boxed = Space::boxed(vec![0.0; 17], vec![1.0; 17], vec![17]).unwrap();
        let agents = [agent(boxed, Space::multi_discrete(vec![3, 2]).unwrap(), true)];
        let layout = Layout::of(&agents, 3, true, false).unwrap();
        // seeds 24, actions 24, observations and final ones 204 each, rewards 24, ends 3, masks 15
        let at = |n: usize| 65_536 + 64 * n;
        assert_eq!(layout.seeds, at(0));
        let expected = AgentLayout {
            actions: at(1),
            observations: at(2),
            final_observations: at(6),
            rewards: at(10),
            ends: at(11),
            asked: at(12),
            masks: at(12),
        };
        assert_eq!(layout.agents, [expected]);
        assert_eq!(layout.bytes, at(13));
        let drawing = Layout::of(&agents, 3, true, true).unwrap();
        assert_eq!((drawing.agents, drawing.frame), (layout.agents, at(13)));
        assert_eq!(drawing.bytes, at(13) + FRAME_BYTES, "one frame for all environments");
    }

    #[test]
    fn without_autoreset_agents_are_asked_and_there_are_no_final_observations() {
        let bytes = agent(Space::bytes(vec![65]).unwrap(), Space::discrete(2).unwrap(), false);
        let layout = Layout::of(&[bytes.clone(), bytes], 1, false, false).unwrap();
        // observations 65, all others at most 64
        let at = |n: usize| 65_536 + 64 * n;
        assert_eq!(layout.agents[0].rewards, layout.agents[0].final_observations);
        assert_eq!((layout.agents[0].asked, layout.agents[0].masks), (at(6), at(7)));
        assert_eq!((layout.agents[1].actions, layout.bytes), (at(7), at(13)));
    }

    #[test]
    fn what_no_machine_has_is_not_laid_out() {
        let huge = agent(Space::bytes(vec![1 << 28]).unwrap(), Space::discrete(2).unwrap(), false);
        assert_eq!(Layout::of(&[huge], 1 << 20, true, false), None);
    }
}
