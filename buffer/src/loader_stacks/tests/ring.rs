//! The minibatch buffer over stacks, as RLlib's multi-GPU learner has it: there it warms up.

use super::*;

/// What RLlib 2.2 did, step by step: `L3@0` loads batch 3, which came into stack 0; `3@0` learns from it,
/// `3@0!` for the last time; `-` finds nothing ready.
const SEQUENCES: [(usize, u32, &str); 3] = [
    (
        1,
        1,
        "- L0@0 0@0! - L1@0 1@0! L2@0 2@0! - - L3@0 3@0! - - L4@0 4@0! - - - - L5@0 5@0! L6@0 6@0! - - L7@0 7@0! - -",
    ),
    (
        3,
        3,
        "- - - L0@0 L1@1 L2@2 0@0! 1@1 2@2 - - - - L3@0 3@0 1@1! L4@1 2@2 3@0 4@1 2@2! 3@0! L5@2 4@1 L6@0 5@2 6@0 4@1! \
         L7@1 5@2 6@0 7@1 5@2! 6@0! L8@2 7@1 L9@0 8@2 9@0 7@1! L10@1 8@2 9@0 10@1 8@2! L11@2 9@0! L12@0 10@1 11@2 \
         12@0 10@1! L13@1 11@2 12@0 13@1 11@2! 12@0! L14@2 L15@0",
    ),
    (
        2,
        2,
        "L0@0 L1@1 0@0! 1@1 - - L2@0 2@0 1@1! L3@1 2@0! L4@0 3@1 4@0 3@1! 4@0! - L5@1 L6@0 5@1 6@0 5@1! 6@0! - L7@1 \
         7@1 - L8@0 8@0 7@1! L9@1 8@0! 9@1 L10@0 10@0 9@1! 10@0! L11@1 L12@0 11@1",
    ),
];

#[test]
fn the_ring_over_stacks_warms_up_and_recycles_as_the_original() {
    for (n_stacks, num_sgd_iter, sequence) in SEQUENCES {
        let (loaded, was_loaded) = mpsc::sync_channel(64);
        let (bench, stacks) = set_up(1, n_stacks, 64, move |n| Ok(loaded.send(n)?));
        let size = NonZeroUsize::new(n_stacks).unwrap();
        let mut ring = MinibatchBuffer::new(stacks, size, num_sgd_iter, 1);
        for (at, op) in sequence.split_whitespace().enumerate() {
            let at = format!("op {at}, {op}, of {n_stacks} stacks");
            if let Some(load) = op.strip_prefix('L') {
                let number: u64 = load.split('@').next().unwrap().parse().unwrap();
                bench.sender.push(number.into()).unwrap();
                assert_eq!(was_loaded.recv_timeout(LONG), Ok(number), "{at}");
            } else if op == "-" {
                assert!(matches!(ring.next(Duration::ZERO), Err(NextError::TimedOut)), "{at}");
            } else {
                // The loader may not have passed on yet what it has loaded.
                let shown = ring.next(LONG).unwrap();
                let last = if shown.pass.is_last() { "!" } else { "" };
                let place = shown.pass.item();
                assert_eq!(format!("{}@{}{last}", place.number, place.stack), op, "{at}");
            }
        }
    }
}
