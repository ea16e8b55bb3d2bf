//! Groups that go on from a saved position, or refuse a forged one.

use pronk_buffer::ObsColumn;
use pronk_metrics::RunningMoments;

use super::*;
use crate::worker::normalization::SavedMoments;
use crate::worker::seat_state::{SavedGathering, SeatState};

/// Two groups of two environments, of which one has answered early.
fn of_two_groups() -> (RolloutWorker, pronk_buffer::ShutdownGuard) {
    let (links, _steps, guard) = links();
    let groups = of_groups(4, 2, Gather::InTurn);
    let make = |_: &EnvContext| Counter::of_three();
    (RolloutWorker::gathering(groups, Arc::new(make), Box::new(OneWeight::new()), links).unwrap(), guard)
}

fn saved() -> SeatState {
    let (mut worker, _guard) = of_two_groups();
    fragments(&mut worker, &weights(0, 0.5), 2);
    worker.save().unwrap()
}

fn gathering(seat: &mut SeatState) -> &mut SavedGathering {
    match &mut seat.maker {
        SavedMaker::Gathering(saved) => saved,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_position_that_no_groups_can_be_at_is_refused() {
    type Forge = fn(&mut SavedGathering);
    let forged: [(&str, Forge); 12] = [
        ("a group less", |saved| drop(saved.groups.pop())),
        ("a recurrent state", |saved| saved.state.push(0.0)),
        ("no observations", |saved| saved.groups[0].step.obs = ObsColumn::F32(Vec::new())),
        ("observations of another type", |saved| {
            let len = saved.groups[0].step.obs.view().len();
            saved.groups[0].step.obs = ObsColumn::U8(vec![0; len]);
        }),
        ("a reward more", |saved| saved.groups[1].step.rewards.push(0.0)),
        ("a mask", |saved| saved.groups[1].step.masks.push(true)),
        ("no group is ready", |saved| saved.ready.clear()),
        ("a group is ready twice", |saved| saved.ready.push(saved.ready[0])),
        ("a group has two turns", |saved| saved.turns.push_back(saved.turns[0])),
        ("a group that is ready has a turn", |saved| saved.turns.push_back(saved.ready[0])),
        ("moments", |saved| {
            saved.groups[0].filled = Some(SavedMoments::from(&NormalizerMoments {
                observations: Some(RunningMoments::new(3)),
                returns: None,
            }));
        }),
        ("a column twice", |saved| saved.columns.push(saved.columns[0].clone())),
    ];
    for (what, forge) in forged {
        let mut seat = saved();
        forge(gathering(&mut seat));
        let refused = of_two_groups().0.load(&seat);
        assert!(matches!(refused, Err(BuildError::State { .. })), "{what}: {refused:?}");
    }
    of_two_groups().0.load(&saved()).unwrap();
}

#[test]
fn a_group_that_no_thread_has_restarted_so_often_is_refused() {
    let mut seat = saved();
    seat.check().unwrap();
    gathering(&mut seat).groups[1].incarnation = u32::MAX;
    seat.check().unwrap_err();
}
