#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;

use super::*;
use crate::check::check_multi_agent_env;
use crate::env::{ActionRef, EnvFailureCause};
use crate::vector::MultiAgentSlot;

/// Plays cells in turns, `x` first, as far as it goes: the game, and whether it is over.
fn play(cells: &[u32]) -> Result<(MultiAgentSlot, bool), EnvFailureCause> {
    let spec = TicTacToe::new().spec();
    let mut slot = MultiAgentSlot::new(Box::new(TicTacToe::new()), &spec);
    slot.reset(0)?;
    let mut is_over = false;
    for (turn, cell) in cells.iter().enumerate() {
        assert!(!is_over, "a move after the end");
        let mover = turn % 2;
        assert_eq!([0, 1].map(|agent| slot.agents().states()[agent].acts_next), [mover == 0, mover == 1]);
        slot.agents_mut().set_action(mover, ActionRef::Discrete(std::slice::from_ref(cell))).unwrap();
        is_over = slot.step(None)?;
    }
    Ok((slot, is_over))
}

fn rewards(slot: &MultiAgentSlot) -> [f32; 2] {
    [0, 1].map(|agent| slot.agents().states()[agent].reward)
}

#[test]
fn tic_tac_toe_keeps_the_rules_of_an_environment() {
    check_multi_agent_env(TicTacToe::new(), 1).unwrap();
}

#[test]
fn every_line_wins_for_either_side_and_ends_the_game_for_both() {
    for line in LINES {
        let free: Vec<u32> = (0..9).filter(|cell| !line.contains(&(*cell as usize))).collect();
        let line = line.map(|cell| cell as u32);
        // The other side's stones lie where they make no line.
        let others = free.iter().flat_map(|a| free.iter().map(move |b| (*a, *b))).find(|(a, b)| a != b).unwrap();
        let (slot, is_over) = play(&[line[0], others.0, line[1], others.1, line[2]]).unwrap();
        assert!(is_over, "{line:?}");
        assert_eq!(rewards(&slot), [1.0, -1.0], "{line:?}");
        assert_eq!([0, 1].map(|agent| slot.agents().states()[agent].end), [End::Terminated; 2]);

        let third = *free
            .iter()
            .find(|third| {
                let mut stones = [others.0, others.1, **third].map(|cell| cell as usize);
                stones.sort_unstable();
                ![others.0, others.1].contains(third) && !LINES.contains(&stones)
            })
            .unwrap();
        let (slot, is_over) = play(&[others.0, line[0], others.1, line[1], third, line[2]]).unwrap();
        assert!(is_over, "{line:?}");
        assert_eq!(rewards(&slot), [-1.0, 1.0], "{line:?}");
    }
}

#[test]
fn a_full_board_without_a_line_is_a_draw() {
    let (slot, is_over) = play(&[0, 1, 2, 4, 3, 5, 7, 6, 8]).unwrap();
    assert!(is_over);
    assert_eq!(rewards(&slot), [0.0, 0.0]);
    let (slot, is_over) = play(&[0, 1, 2, 4, 3, 5, 7, 6]).unwrap();
    assert!(!is_over);
    assert_eq!(rewards(&slot), [0.0, 0.0]);
}

#[test]
fn each_sees_its_own_stones_first_and_the_mask_knows_what_is_taken() {
    let spec = TicTacToe::new().spec();
    let (slot, _) = play(&[4, 0, 8]).unwrap();
    let mut expected = [0.0; 18];
    expected[0] = 1.0;
    (expected[9 + 4], expected[9 + 8]) = (1.0, 1.0);
    assert_eq!(slot.agents().states()[1].obs.view().as_f32().unwrap(), expected);
    let mut mask = [true; 9];
    slot.mask(1, &spec, &mut mask).unwrap();
    assert_eq!(mask, [false, true, true, true, false, true, true, true, false]);
}

#[test]
fn a_cell_that_is_taken_or_not_there_is_an_error() {
    for cell in [4, 9] {
        let Err(EnvFailureCause::Error(error)) = play(&[4, cell]) else { panic!("cell {cell} was taken") };
        assert!(error.to_string().contains(&format!("cell {cell} is not free")), "{error}");
    }
}
