#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{ObsDtype, Space};

fn cartpole() -> Space {
    let (inf, four) = (f32::INFINITY, vec![4]);
    Space::boxed(vec![-4.8, -inf, -0.418, -inf], vec![4.8, inf, 0.418, inf], four).unwrap()
}

fn refusal(space: Result<Space, crate::PolicyError>) -> String {
    space.unwrap_err().to_string()
}

#[test]
fn lengths_follow_from_the_space() {
    let lens = |space: &Space| (space.obs_len(), space.act_len(), space.dist_len(), space.has_discrete_actions());
    assert_eq!(lens(&Space::discrete(5).unwrap()), (5, 1, 5, true));
    assert_eq!(lens(&Space::multi_discrete(vec![2, 3]).unwrap()), (5, 2, 5, true));
    assert_eq!(lens(&Space::boxed(vec![0.0; 6], vec![1.0; 6], vec![2, 3]).unwrap()), (6, 6, 12, false));
    let pixels = Space::bytes(vec![84, 84, 4]).unwrap();
    assert_eq!((pixels.obs_len(), pixels.obs_dtype()), (28_224, ObsDtype::U8));
}

#[test]
fn a_space_that_contradicts_itself_is_refused_with_the_reason() {
    assert_eq!(refusal(Space::discrete(0)), "space Discrete(0): a choice needs at least one thing to choose");
    assert!(refusal(Space::multi_discrete(vec![])).contains("no choice to make"));
    assert!(refusal(Space::multi_discrete(vec![2, 0])).contains("choice 1"));
    assert!(refusal(Space::multi_discrete(vec![usize::MAX, 2])).contains("more than"));
    assert!(refusal(Space::boxed(vec![], vec![], vec![0])).contains("no number"));
    let bounds = refusal(Space::boxed(vec![0.0; 3], vec![1.0; 4], vec![4]));
    assert!(bounds.ends_with("the shape holds 4 numbers, but there are 3 low and 4 high bounds"), "{bounds}");
    assert!(refusal(Space::boxed(vec![2.0], vec![1.0], vec![1])).contains("low bound 2 and high bound 1"));
    assert!(refusal(Space::boxed(vec![f32::NAN], vec![1.0], vec![1])).contains("low bound NaN"));
    assert!(refusal(Space::bytes(vec![usize::MAX, 2])).contains("more than"));
    let byte = Space::Box { low: vec![0.0], high: vec![256.0], shape: vec![1], dtype: ObsDtype::U8 };
    assert!(byte.check().unwrap_err().to_string().contains("is a byte"));
}

#[test]
fn membership_is_exact_at_the_bounds() {
    let space = cartpole();
    assert!(space.contains_f32(&[4.8, 1e30, -0.418, f32::INFINITY]));
    assert!(!space.contains_f32(&[4.9, 0.0, 0.0, 0.0]));
    assert!(!space.contains_f32(&[0.0, f32::NAN, 0.0, 0.0]));
    assert!(!space.contains_f32(&[0.0; 3]));
    assert!(!space.contains_u8(&[0; 4]));
    assert!(space.contains_continuous(&[0.0; 4]) && !space.contains_discrete(&[0]));

    let bytes = Space::bytes(vec![2]).unwrap();
    assert!(bytes.contains_u8(&[0, 255]) && !bytes.contains_u8(&[0]) && !bytes.contains_f32(&[0.0, 1.0]));

    let discrete = Space::discrete(3).unwrap();
    assert!(discrete.contains_discrete(&[2]) && !discrete.contains_discrete(&[3]) && !discrete.contains_discrete(&[]));
    assert!(discrete.contains_f32(&[0.0, 1.0, 0.0]) && !discrete.contains_f32(&[0.0, 0.5, 0.5]));
    assert!(!discrete.contains_f32(&[0.0; 3]) && !discrete.contains_f32(&[1.0, 1.0, 0.0]));

    let multi = Space::multi_discrete(vec![2, 3]).unwrap();
    assert!(multi.contains_discrete(&[1, 2]) && !multi.contains_discrete(&[2, 1]) && !multi.contains_discrete(&[1]));
    assert!(multi.contains_f32(&[0.0, 1.0, 1.0, 0.0, 0.0]) && !multi.contains_f32(&[1.0, 1.0, 0.0, 0.0, 0.0]));
    assert!(!multi.contains_f32(&[0.0, 1.0, 1.0, 0.0, 0.0, 0.0]));
}

#[test]
fn spaces_survive_json_infinite_bounds_included() {
    let multi = Space::multi_discrete(vec![2, 3]).unwrap();
    for space in [cartpole(), Space::bytes(vec![2, 2]).unwrap(), Space::discrete(2).unwrap(), multi] {
        let text = serde_json::to_string(&space).unwrap();
        assert_eq!(serde_json::from_str::<Space>(&text).unwrap(), space, "{text}");
    }
    assert!(serde_json::to_string(&cartpole()).unwrap().contains("\"-inf\""));
}

#[test]
fn spaces_print_like_a_line_of_documentation() {
    assert_eq!(Space::discrete(2).unwrap().to_string(), "Discrete(2)");
    assert_eq!(Space::bytes(vec![84, 84, 4]).unwrap().to_string(), "Box(0..=255, [84, 84, 4], u8)");
    assert_eq!(cartpole().to_string(), "Box(-inf..=inf, [4], f32)");
}

#[test]
fn only_bytes_of_several_images_are_stacks_of_frames() {
    let frame = |shape: &[usize]| Space::bytes(shape.to_vec()).unwrap().frame_len();
    assert_eq!((frame(&[4, 84, 84]), frame(&[2, 3, 5])), (Some(84 * 84), Some(15)));
    for shape in [&[1, 84, 84][..], &[84, 84], &[6], &[2, 2, 3, 3]] {
        assert_eq!(frame(shape), None, "{shape:?}");
    }
    let floats = Space::boxed(vec![0.0; 8], vec![1.0; 8], vec![2, 2, 2]).unwrap();
    assert_eq!((floats.frame_len(), Space::discrete(4).unwrap().frame_len()), (None, None));
}
