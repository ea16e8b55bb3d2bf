use pronk_policy::{Rng, Space};

use super::arithmetic::floats_between;
use super::canvas::{Canvas, Rgb};
use crate::env::{AgentSpec, Agents, EnvError, Frame, MultiAgentEnv, MultiAgentSpec, snapshot};

/// Rows and columns of the grid.
const SIZE: u64 = 5;

/// The change of row and column by each action: stay, up, down, left, right.
const MOVES: [(i64, i64); 5] = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)];

/// The side of a cell in a picture.
const CELL_PIXELS: f64 = 60.0;

/// The radius and color of each agent in a picture.
const DISCS: [(f64, Rgb); 2] = [(24.0, [204, 77, 77]), (14.0, [77, 121, 204])];

const FPS: u16 = 4;

/// A cooperative task with simultaneous moves: two agents search for each other on a 5 × 5 grid.
///
/// `agent_0` and `agent_1` begin on different cells; each stays or moves up, down, left or right, and walls
/// stop it. When both are on one cell after a step, each earns 1 and the episode terminates; swapping cells
/// does not count. Every other step costs each 0.01, and episodes are truncated after 30 steps. An agent
/// observes its own row and column and those of the other, scaled to ±1.
#[derive(Clone, Debug, Default)]
pub struct Rendezvous {
    /// The row and column of each agent.
    cells: [(i64, i64); 2],
}

impl Rendezvous {
    /// Both agents in a corner; `reset` begins an episode.
    pub fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    pub(super) fn at(cells: [(i64, i64); 2]) -> Self {
        Self { cells }
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

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        let mut canvas = Canvas::new(300, 300)?;
        canvas.grid(SIZE as u32, CELL_PIXELS);
        let n_rows = SIZE as i64;
        // The second is smaller, so that both are seen where they meet.
        for (&(row, column), (radius, color)) in self.cells.iter().zip(DISCS) {
            let middle = |cell: i64| (cell as f64 + 0.5) * CELL_PIXELS;
            canvas.disc([middle(column), middle(n_rows - 1 - row)], radius, color);
        }
        Ok(Some(canvas.frame()?.with_fps(FPS)))
    }

    fn save(&self) -> Option<Vec<u8>> {
        snapshot::to_bytes(&self.cells)
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.cells = snapshot::from_bytes(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
