//! The pictures of native environments.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::canvas::{BLACK, Rgb, YELLOW};
use super::*;
use crate::env::{Env, Frame, MultiAgentEnv};

const WHITE: Rgb = [255; 3];
const POLE: Rgb = [202, 152, 101];
const LINK: Rgb = [0, 204, 204];
const ROD: Rgb = [204, 77, 77];

fn drawn(mut env: impl Env) -> Frame {
    env.render().unwrap().expect("a picture")
}

/// The pixel at `x` from the left and `y` from the top.
fn pixel(frame: &Frame, x: u32, y: u32) -> Rgb {
    let at = (y * frame.width() + x) as usize * 3;
    frame.rgb()[at..at + 3].try_into().unwrap()
}

#[test]
fn equal_states_have_equal_pictures_and_others_other_ones() {
    fn check<S: Copy, E: Env>(name: &str, from_state: fn(S) -> E, [one, other]: [S; 2], size: (u32, u32), fps: u16) {
        let frame = drawn(from_state(one));
        assert_eq!((frame.width(), frame.height(), frame.fps()), (size.0, size.1, fps), "{name}");
        assert!(frame == drawn(from_state(one)), "{name}");
        assert!(frame != drawn(from_state(other)), "{name}");
    }
    let swinging = [[0.1, 0.0, 0.1, 0.0], [0.1, 0.0, 0.12, 0.0]];
    check("CartPole", CartPole::from_state, swinging, (600, 400), 50);
    check("Acrobot", Acrobot::from_state, [[0.3, 1.0, 0.0, 0.0], [0.3, 1.1, 0.0, 0.0]], (500, 500), 15);
    let rolling = [[-0.5, 0.0], [-0.49, 0.0]];
    check("Pendulum", Pendulum::from_state, rolling, (500, 500), 30);
    check("MountainCar", MountainCar::from_state, rolling, (600, 400), 30);
    check("MountainCarContinuous", MountainCarContinuous::from_state, rolling, (600, 400), 30);
}

#[test]
fn cart_and_pole_stand_where_the_state_says() {
    // A metre to the right is 125 pixels; the track is 100 above the bottom.
    let upright = drawn(CartPole::from_state([1.0, 0.0, 0.0, 0.0]));
    assert_eq!([405, 425, 445].map(|x| pixel(&upright, x, 310)), [BLACK; 3], "the cart");
    assert_eq!([395, 455].map(|x| pixel(&upright, x, 290)), [WHITE; 2], "beside the cart");
    assert_eq!([180, 250].map(|y| pixel(&upright, 425, y)), [POLE; 2], "the pole");
    // A positive angle leans to the right.
    let leaning = drawn(CartPole::from_state([1.0, 0.0, 0.2, 0.0]));
    assert_eq!([405, 425, 445].map(|x| pixel(&leaning, x, 190)), [WHITE, WHITE, POLE]);
}

#[test]
fn links_and_rods_point_where_the_state_says() {
    let hanging = drawn(Acrobot::new());
    assert_eq!([300, 400].map(|y| pixel(&hanging, 250, y)), [LINK; 2]);
    assert_eq!([250, 364].map(|y| pixel(&hanging, 250, y)), [YELLOW; 2], "the joints");
    // The first link to the right, the second straight up from there.
    let bent = drawn(Acrobot::from_state([std::f64::consts::FRAC_PI_2, std::f64::consts::FRAC_PI_2, 0.0, 0.0]));
    assert_eq!([(300, 250), (364, 180)].map(|(x, y)| pixel(&bent, x, y)), [LINK; 2]);

    let upright = drawn(Pendulum::from_state([0.0, 0.0]));
    let left = drawn(Pendulum::from_state([std::f64::consts::FRAC_PI_2, 0.0]));
    let ends = |frame: &Frame| [(250, 150), (150, 250), (350, 250)].map(|(x, y)| pixel(frame, x, y));
    assert_eq!(ends(&upright), [ROD, WHITE, WHITE]);
    assert_eq!(ends(&left), [WHITE, ROD, WHITE]);
}

#[test]
fn agents_stand_in_their_cells_and_stones_on_theirs() {
    let [first, second, cross, nought] = [[204, 77, 77], [77, 121, 204], [204, 77, 77], [77, 121, 204]];
    // Both in the top left corner, the second one in front.
    let corner = Rendezvous::new().render().unwrap().unwrap();
    assert_eq!([(30, 30), (30, 12), (90, 30)].map(|(x, y)| pixel(&corner, x, y)), [second, first, WHITE]);
    let apart = Rendezvous::at([(0, 1), (4, 3)]).render().unwrap().unwrap();
    assert_eq!([(90, 30), (210, 270), (30, 30)].map(|(x, y)| pixel(&apart, x, y)), [first, second, WHITE]);

    // A cross in the first row, a nought in the last.
    let board = [Some(0), None, None, None, None, None, None, None, Some(1)];
    let stones = TicTacToe::with_board(board).render().unwrap().unwrap();
    let seen = [(50, 50), (250, 220), (250, 250), (150, 150)].map(|(x, y)| pixel(&stones, x, y));
    assert_eq!(seen, [cross, nought, WHITE, WHITE]);
    assert_eq!((stones.width(), stones.height(), stones.fps(), corner.fps()), (300, 300, 2, 4));
}

#[test]
fn each_flag_stands_at_its_own_goal() {
    let flag = |frame: &Frame| {
        let columns = (500..600).filter(|x| (0..100).any(|y| pixel(frame, *x, y) == YELLOW));
        columns.clone().min().zip(columns.max()).unwrap()
    };
    let (discrete, continuous) = (drawn(MountainCar::new()), drawn(MountainCarContinuous::new()));
    // Positions 0.5 and 0.45 of -1.2 to 0.6.
    assert_eq!((flag(&discrete).0, flag(&continuous).0), (566, 550));
}
