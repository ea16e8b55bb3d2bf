use pronk_policy::Space;

use super::arithmetic::floats_between;
use super::canvas::{Canvas, Rgb};
use crate::env::{AgentSpec, Agents, EnvError, Frame, MultiAgentEnv, MultiAgentSpec, snapshot};

/// Three cells in a row, a column or a diagonal.
const LINES: [[usize; 3]; 8] = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

/// The side of a cell in a picture.
const CELL_PIXELS: f64 = 100.0;

const CROSS: Rgb = [204, 77, 77];
const NOUGHT: Rgb = [77, 121, 204];
const WHITE: Rgb = [255; 3];

const FPS: u16 = 2;

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

    #[cfg(test)]
    pub(super) fn with_board(board: [Option<usize>; 9]) -> Self {
        Self { board, turn: 0 }
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

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        let mut canvas = Canvas::new(300, 300)?;
        canvas.grid(3, CELL_PIXELS);
        for (cell, owner) in self.board.iter().enumerate() {
            let [x, y] = [cell % 3, 2 - cell / 3].map(|at| (at as f64 + 0.5) * CELL_PIXELS);
            match owner {
                Some(0) => {
                    for rise in [-30.0, 30.0] {
                        canvas.line(&[[x - 30.0, y - rise], [x + 30.0, y + rise]], 8.0, CROSS);
                    }
                }
                Some(_) => {
                    canvas.disc([x, y], 34.0, NOUGHT);
                    canvas.disc([x, y], 26.0, WHITE);
                }
                None => {}
            }
        }
        Ok(Some(canvas.frame()?.with_fps(FPS)))
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
