#![allow(clippy::unwrap_used)]

use pronk_buffer::{ActionKind, ActionView, FinalObs, ObsKind, Pool, Tag};
use pronk_policy::Rng;

use super::*;

const STEPS: usize = 3;

const SEATS: usize = 5;

impl Home {
    fn slot(self) -> Option<usize> {
        match self {
            Home::NotYet => None,
            Home::Free(slot) | Home::Taken(slot) => Some(slot),
        }
    }
}

fn shape(columns: usize) -> BatchShape {
    BatchShape {
        steps: STEPS,
        columns,
        obs_len: 2,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: 3,
        state_len: 1,
    }
}

/// The `number`th step of a seat, with numbers that tell where they belong.
fn begin(columns: &mut Columns, seat: usize, number: usize) {
    let (tell, n) = ((10_000 * seat + number) as f32, number as u32);
    let step = NewStep {
        obs: ObsView::F32(&[tell, -tell]),
        action: ActionView::U32(&[n]),
        logp: tell + 0.25,
        inputs: &[tell, tell + 1.0, tell + 2.0],
        value: tell + 0.5,
        state: &[tell + 0.75],
        version: number as u64,
    };
    columns.begin(seat, &step).unwrap();
    columns.pay(seat, tell + 0.125);
}

#[test]
fn what_was_done_is_where_it_belongs_and_seats_fill_slots_of_their_own() {
    let (mut columns, mut rng) = (Columns::new(shape(1), SEATS), Rng::seed_from(3));
    let (mut steps_of, mut columns_of) = ([0; SEATS], [0; SEATS]);
    let mut slots_of = vec![Vec::new(); SEATS];
    for _ in 0..300 {
        while columns.n_full() < SEATS {
            // Nobody is more than a column ahead, in no order.
            let seat = rng.below(SEATS as u64) as usize;
            if steps_of[seat] > steps_of.iter().min().unwrap() + STEPS {
                continue;
            }
            let tell = (10_000 * seat + steps_of[seat]) as f32;
            columns.ask(seat, ObsView::F32(&[tell, -tell]), tell + 0.5).unwrap();
            begin(&mut columns, seat, steps_of[seat]);
            slots_of[seat].extend(columns.filling[seat]);
            steps_of[seat] += 1;
            if rng.below(4) == 0 {
                columns.end(seat, End::Terminated, ObsView::F32(&[])).unwrap();
            }
        }
        let mut batch = Pool::new(1).take(shape(SEATS), Tag { worker: 1, ..Tag::default() });
        columns.write(&mut batch).unwrap();
        for b in 0..SEATS {
            let seat = batch.behaviour_logp()[b] as usize / 10_000;
            for t in 0..STEPS {
                let (row, number) = (t * SEATS + b, columns_of[seat] * STEPS + t);
                let tell = (10_000 * seat + number) as f32;
                assert_eq!(batch.obs().as_f32().unwrap()[2 * row..2 * row + 2], [tell, -tell]);
                assert_eq!(batch.rewards()[row], tell + 0.125);
                assert_eq!(batch.behaviour_logp()[row], tell + 0.25);
                assert_eq!(batch.behaviour_inputs()[3 * row..3 * row + 3], [tell, tell + 1.0, tell + 2.0]);
                assert_eq!(batch.behaviour_values()[row], tell + 0.5);
                assert_eq!(batch.versions()[row], number as u64);
            }
            assert_eq!(batch.state_in()[b], (10_000 * seat + columns_of[seat] * STEPS) as f32 + 0.75);
            columns_of[seat] += 1;
        }
    }
    // A seat that is ahead has two full columns and fills a third, and it is not handed the slots of others
    // for good.
    let n_slots = columns.slots.progress.len();
    assert!(n_slots <= 3 * SEATS, "{n_slots}");
    let homes: Vec<_> = (0..SEATS).map(|seat| columns.homes[seat].map(Home::slot)).collect();
    for (seat, slots) in slots_of.iter().enumerate() {
        let others = homes.iter().enumerate().filter(|(other, _)| *other != seat).flat_map(|(_, homes)| *homes);
        assert!(others.flatten().all(|home| !slots.contains(&home)), "{seat}: {homes:?}");
    }
}

#[test]
fn saved_columns_that_no_seat_can_fill_are_refused() {
    let mut columns = Columns::new(shape(1), SEATS);
    for number in 0..2 * STEPS {
        columns.ask(0, ObsView::F32(&[0.0, 0.0]), 0.0).unwrap();
        begin(&mut columns, 0, number);
    }
    // One whose last step is incomplete, and a full one.
    let saved = columns.save();
    let load = |saved: &[SavedColumn]| Columns::new(shape(1), SEATS).load(saved);
    load(&saved).unwrap();
    let forged: [fn(&mut Vec<SavedColumn>); 5] = [
        |saved| saved[0].is_open = false,
        |saved| saved[1].is_open = true,
        |saved| saved[0].seat = SEATS,
        |saved| saved[0].final_obs = FinalObs::new(ObsKind::F32, 3),
        |saved| saved.push(saved[0].clone()),
    ];
    for (n, forge) in forged.into_iter().enumerate() {
        let mut forged = saved.clone();
        forge(&mut forged);
        assert!(load(&forged).is_err(), "{n}");
    }
}
