//! Agents that go on from a saved position, or refuse a forged one.

use pronk_buffer::ShutdownGuard;
use pronk_metrics::Steps;

use super::*;
use crate::worker::seat_state::SeatState;

fn worker() -> (RolloutWorker, ShutdownGuard) {
    let (policies, mapping) = three_policies();
    let (links, _steps, guard) = links();
    let diary = Diary::default();
    let factory = move |context: &crate::env::EnvContext| Script::new(context, &diary, Manner::Together);
    (RolloutWorker::multi_agent(config(policies, mapping), Arc::new(factory), links).unwrap(), guard)
}

fn saved() -> SeatState {
    let (mut worker, _guard) = worker();
    for _ in 0..3 {
        worker.sample(&weights(0, &["a", "b"], 0.5), &mut clock()).unwrap();
    }
    worker.save().unwrap()
}

#[test]
fn a_position_that_no_agents_can_be_at_is_refused() {
    type Forge = fn(&mut SavedMultiAgent);
    let forged: [(&str, Forge); 4] = [
        ("an agent less", |saved| drop(saved.players.pop())),
        ("a policy more", |saved| saved.columns.push(Vec::new())),
        ("an unknown policy", |saved| saved.players[0].actor = 3),
        ("a recurrent state", |saved| saved.players[1].state.push(0.0)),
    ];
    for (what, forge) in forged {
        let mut seat = saved();
        let SavedMaker::MultiAgent(saved) = &mut seat.maker else { panic!("it is another maker") };
        forge(saved);
        let refused = worker().0.load(&seat);
        assert!(matches!(refused, Err(BuildError::State { .. })), "{what}: {refused:?}");
    }
    let mut seat = saved();
    seat.made = Steps::default();
    assert!(worker().0.load(&seat).unwrap_err().to_string().contains("its columns have"));
    worker().0.load(&saved()).unwrap();
}
