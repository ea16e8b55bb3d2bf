use pronk_policy::{Rng, Space};

use super::arithmetic::floats_between;
use crate::env::{AgentSpec, Agents, EnvError, MultiAgentEnv, MultiAgentSpec};

/// Rows and columns of the grid.
const SIZE: u64 = 5;

/// Steps to the row and to the column of each action: to stay, and to go up, down, left or right.
const MOVES: [(i64, i64); 5] = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)];

/// Two agents on a grid of 5 × 5 look for each other: both move at once, and both earn when they meet.
///
/// `agent_0` and `agent_1` begin on different cells and each stay or go up, down, left or right; a wall stops them. When they
/// stand on the same cell after a move, both get 1 and the episode ends; to swap cells is not to meet. Every other step costs
/// both 0.01, and after 30 steps they are cut off. Each sees its own row and column, then those of the other, all from −1 to 1.
///
/// ```
/// use pronk_rollout::{Rendezvous, check_multi_agent_env};
///
/// check_multi_agent_env(Rendezvous::new(), 0)?;
/// # Ok::<(), pronk_rollout::EnvCheckError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rendezvous {
    /// Row and column of each.
    cells: [(i64, i64); 2],
}

impl Rendezvous {
    /// Both in a corner, until the first reset.
    pub fn new() -> Self {
        Self::default()
    }

    fn observe(&self, agents: &mut Agents) -> Result<(), EnvError> {
        let scaled = |place: i64| place as f32 / 2.0 - 1.0;
        for agent in 0..2 {
            let ((row, column), (other_row, other_column)) = (self.cells[agent], self.cells[1 - agent]);
            agents.ask(agent)?.write(&[row, column, other_row, other_column].map(scaled))?;
        }
        Ok(())
    }
}

impl MultiAgentEnv for Rendezvous {
    fn spec(&self) -> MultiAgentSpec {
        let agent = |name: &str| AgentSpec {
            name: name.to_owned(),
            observation: floats_between([-1.0; 4], [1.0; 4]),
            action: Space::Discrete { n: MOVES.len() },
            action_mask: false,
        };
        MultiAgentSpec {
            name: "Rendezvous".to_owned(),
            agents: vec![agent("agent_0"), agent("agent_1")],
            max_episode_steps: Some(30),
        }
    }

    fn reset(&mut self, seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        let mut rng = Rng::seed_from(seed);
        let n_cells = SIZE * SIZE;
        let first = rng.below(n_cells);
        let second = (first + 1 + rng.below(n_cells - 1)) % n_cells;
        self.cells = [first, second].map(|cell| ((cell / SIZE) as i64, (cell % SIZE) as i64));
        self.observe(agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        for (agent, (row, column)) in self.cells.iter_mut().enumerate() {
            let action = agents.action(agent)?.discrete()?;
            let Some((down, right)) = MOVES.get(action as usize) else {
                return Err(EnvError::new(format!("Rendezvous has {} actions, got {action}", MOVES.len())));
            };
            *row = (*row + down).clamp(0, SIZE as i64 - 1);
            *column = (*column + right).clamp(0, SIZE as i64 - 1);
        }
        self.observe(agents)?;
        let have_met = self.cells[0] == self.cells[1];
        for agent in 0..2 {
            agents.reward(agent, if have_met { 1.0 } else { -0.01 })?;
        }
        if have_met { agents.terminate_all() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
