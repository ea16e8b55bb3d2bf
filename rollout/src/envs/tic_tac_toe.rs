use pronk_policy::Space;

use super::arithmetic::floats_between;
use crate::env::{AgentSpec, Agents, EnvError, MultiAgentEnv, MultiAgentSpec, snapshot};

/// Three cells in a row, a column or a diagonal.
const LINES: [[usize; 3]; 8] = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

/// Tic-tac-toe on a 3 × 3 board: agents `x` and `o` take turns, and `x` begins.
///
/// Three stones in a line win: 1 for the winner and −1 for the loser. A full board is a draw, 0 for both.
/// Either terminates both agents, though only one of them has just moved. Actions are the cells, row by row;
/// the mask excludes occupied ones, and choosing one is an error. An agent observes two planes of 9 flags:
/// its own stones, and the other's.
#[derive(Clone, Debug, Default)]
pub struct TicTacToe {
    /// The agent whose stone is on each cell.
    board: [Option<usize>; 9],
    /// Whose turn it is: `x` is 0, `o` is 1.
    turn: usize,
}

impl TicTacToe {
    /// An empty board.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the agent whose turn it is.
    fn ask(&self, agents: &mut Agents) -> Result<(), EnvError> {
        let stones = agents.ask(self.turn)?.f32()?;
        for (side, stones) in stones.chunks_exact_mut(self.board.len()).enumerate() {
            let owner = if side == 0 { self.turn } else { 1 - self.turn };
            for (stone, cell) in stones.iter_mut().zip(self.board) {
                *stone = if cell == Some(owner) { 1.0 } else { 0.0 };
            }
        }
        Ok(())
    }
}

impl MultiAgentEnv for TicTacToe {
    fn spec(&self) -> MultiAgentSpec {
        let agent = |name: &str| AgentSpec {
            name: name.to_owned(),
            observation: floats_between([0.0; 18], [1.0; 18]),
            action: Space::Discrete { n: 9 },
            action_mask: true,
        };
        MultiAgentSpec {
            name: "TicTacToe".to_owned(),
            agents: vec![agent("x"), agent("o")],
            // Every stone fills a cell, so nine moves end every game.
            max_episode_steps: None,
        }
    }

    fn reset(&mut self, _seed: u64, agents: &mut Agents) -> Result<(), EnvError> {
        *self = Self::new();
        self.ask(agents)
    }

    fn step(&mut self, agents: &mut Agents) -> Result<(), EnvError> {
        let mover = self.turn;
        let cell = agents.action(mover)?.discrete()? as usize;
        match self.board.get_mut(cell) {
            Some(free @ None) => *free = Some(mover),
            _ => return Err(EnvError::new(format!("cell {cell} is not free: the board is {:?}", self.board))),
        }
        if LINES.iter().any(|line| line.iter().all(|&cell| self.board[cell] == Some(mover))) {
            agents.reward(mover, 1.0)?;
            agents.reward(1 - mover, -1.0)?;
            return agents.terminate_all();
        }
        if self.board.iter().all(Option::is_some) {
            return agents.terminate_all();
        }
        self.turn = 1 - mover;
        self.ask(agents)
    }

    fn action_mask(&self, _agent: usize, mask: &mut [bool]) -> Result<(), EnvError> {
        for (possible, cell) in mask.iter_mut().zip(self.board) {
            *possible = cell.is_none();
        }
        Ok(())
    }

    fn save(&self) -> Option<Vec<u8>> {
        snapshot::to_bytes(&(self.board, self.turn))
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        let (board, turn): ([Option<usize>; 9], usize) = snapshot::from_bytes(state)?;
        if turn > 1 || board.iter().flatten().any(|agent| *agent > 1) {
            return Err(EnvError::new("the saved state has an agent besides `x` and `o`"));
        }
        (self.board, self.turn) = (board, turn);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
