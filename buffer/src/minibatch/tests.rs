use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::{Gate, InqueueReceiver, InqueueSender, ShutdownGuard, inqueue, shutdown};

fn ring(
    size: usize,
    num_passes: u32,
    init_num_passes: u32,
) -> (InqueueSender<u32>, MinibatchBuffer<InqueueReceiver<u32>>, ShutdownGuard) {
    let (shutdown, token) = shutdown();
    let (sender, receiver) = inqueue(256, Gate::Bounded, &token).unwrap();
    let size = NonZeroUsize::new(size).unwrap();
    (sender, MinibatchBuffer::new(receiver, size, num_passes, init_num_passes), shutdown)
}

/// `(item, pass number, given away)`, or `None` after a time-out.
fn get(buffer: &mut MinibatchBuffer<InqueueReceiver<u32>>) -> Option<(u32, u32, bool)> {
    match buffer.next(Duration::ZERO) {
        Ok(shown) => Some((*shown.pass.item(), shown.number, shown.pass.is_last())),
        Err(NextError::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn two_slots_alternate_pass_by_pass() {
    let (sender, mut buffer, _guard) = ring(2, 2, 2);
    (0..4).for_each(|n| sender.try_push(n).unwrap());
    let shown: Vec<_> = (0..8).map(|_| get(&mut buffer).unwrap()).collect();
    let first = [(0, 1, false), (1, 1, false), (0, 2, true), (1, 2, true)];
    let second = [(2, 1, false), (3, 1, false), (2, 2, true), (3, 2, true)];
    assert_eq!(shown, [first, second].concat());
}

#[test]
fn a_ring_that_is_saved_before_its_items_have_returned_is_the_same_again() {
    let (sender, mut buffer, _guard) = ring(2, 3, 3);
    (0..2).for_each(|n| sender.try_push(n).unwrap());
    for _ in 0..3 {
        get(&mut buffer).unwrap();
    }
    let (saved, items) = buffer.save();
    assert_eq!((saved.n_items(), items), (2, vec![&0, &1]));
    let (sender, mut resumed, _guard) = ring(2, 3, 3);
    resumed.resume(&saved);
    let (again, items) = resumed.save();
    assert!(items.is_empty(), "they are in the source");
    assert_eq!(again, saved);
    sender.try_push(0).unwrap();
    assert_eq!(get(&mut resumed), None, "the other has not returned");
    let (again, items) = resumed.save();
    assert_eq!((items, again), (vec![&0], saved));
}

#[test]
fn an_empty_slot_holds_up_the_ring_and_a_time_out_changes_nothing() {
    let (sender, mut buffer, _guard) = ring(2, 3, 1);
    sender.push(0).unwrap();
    sender.push(1).unwrap();
    assert_eq!(get(&mut buffer), Some((0, 1, true)));
    assert_eq!(get(&mut buffer), Some((1, 1, false)));
    for _ in 0..3 {
        assert_eq!(get(&mut buffer), None, "though the other slot has a pass left");
        assert_eq!((buffer.position(), buffer.next_load_passes()), (0, 3));
        assert_eq!(buffer.passes_left().collect::<Vec<_>>(), [0, 1]);
    }
    sender.push(2).unwrap();
    assert_eq!(get(&mut buffer), Some((2, 1, false)));
    assert_eq!(get(&mut buffer), Some((1, 2, true)));
}

#[test]
fn what_is_changed_in_one_pass_is_seen_in_the_next() {
    let (sender, mut buffer, _guard) = ring(1, 2, 2);
    sender.push(1).unwrap();
    *buffer.next(Duration::ZERO).unwrap().pass.item_mut() += 10;
    assert_eq!(get(&mut buffer), Some((11, 2, true)));
}

#[test]
fn the_last_pass_gives_the_item_away() {
    let (sender, mut buffer, _guard) = ring(1, 1, 1);
    sender.push(5).unwrap();
    let item = match buffer.next(Duration::ZERO).unwrap().pass {
        Pass::Last(item) => item,
        Pass::Again(_) => panic!("one pass is the last"),
    };
    assert_eq!(item, 5);
    assert_eq!(buffer.discard(), None, "it is not here any more");
    assert!(buffer.drain().is_empty());
}

#[test]
fn a_discarded_item_is_not_shown_again_and_its_slot_loads_the_next() {
    let (sender, mut buffer, _guard) = ring(2, 3, 3);
    (0..3).for_each(|n| sender.try_push(n).unwrap());
    assert_eq!(get(&mut buffer), Some((0, 1, false)));
    assert_eq!(buffer.discard(), Some(0));
    assert_eq!(buffer.discard(), None);
    assert_eq!(buffer.passes_left().collect::<Vec<_>>(), [0, 0]);
    assert_eq!(get(&mut buffer), Some((1, 1, false)));
    assert_eq!(get(&mut buffer), Some((2, 1, false)), "in the place of the discarded one");
    assert_eq!(get(&mut buffer), Some((1, 2, false)));
}

#[test]
fn drain_gives_items_between_passes_and_then_the_queue() {
    let (sender, mut buffer, shutdown) = ring(2, 2, 2);
    (0..4).for_each(|n| sender.try_push(n).unwrap());
    get(&mut buffer);
    get(&mut buffer);
    drop(shutdown);
    assert_eq!(get(&mut buffer), Some((0, 2, true)), "what is in the ring needs no queue");
    assert_eq!(buffer.drain(), [1, 2, 3]);
    assert!(buffer.drain().is_empty());
    assert!(matches!(buffer.next(Duration::ZERO), Err(NextError::Closed)));
}

/// The original's procedure written out with its own plain state, as the oracle.
struct Original {
    slots: Vec<(Option<u32>, i64)>,
    index: usize,
    num_passes: u32,
    next_load_passes: u32,
}

impl Original {
    fn get(&mut self, queue: &mut VecDeque<u32>) -> Option<(u32, bool)> {
        if self.slots[self.index].1 <= 0 {
            let item = queue.pop_front()?;
            self.slots[self.index] = (Some(item), i64::from(self.next_load_passes));
            if self.next_load_passes < self.num_passes {
                self.next_load_passes += 1;
            }
        }
        let (item, left) = &mut self.slots[self.index];
        let shown = (*item)?;
        *left -= 1;
        let released = *left <= 0;
        if released {
            *item = None;
        }
        self.index = (self.index + 1) % self.slots.len();
        Some((shown, released))
    }
}

proptest! {
    #[test]
    fn it_does_what_the_original_does(
        size in 1..5_usize,
        num_passes in 0..5_u32,
        init_num_passes in 0..7_u32,
        puts in prop::collection::vec(any::<bool>(), 0..120),
    ) {
        let (sender, mut buffer, _guard) = ring(size, num_passes, init_num_passes);
        let slots = vec![(None, 0); size];
        let mut original = Original { slots, index: 0, num_passes, next_load_passes: init_num_passes };
        let mut queue = VecDeque::new();
        for (n, put) in (0..).zip(puts) {
            if put {
                sender.push(n).unwrap();
                queue.push_back(n);
                continue;
            }
            let got = get(&mut buffer).map(|(item, _, last)| (item, last));
            prop_assert_eq!(got, original.get(&mut queue));
            prop_assert_eq!(buffer.position(), original.index);
            prop_assert_eq!(buffer.next_load_passes(), original.next_load_passes);
            let passes_left: Vec<i64> = original.slots.iter().map(|slot| slot.1).collect();
            prop_assert_eq!(buffer.passes_left().collect::<Vec<_>>(), passes_left);
        }
    }
}
