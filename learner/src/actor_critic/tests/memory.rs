//! A recurrent network in the learner.

use super::*;

const STATE: usize = 2 * 5;

fn recurrent() -> NetworkSpec {
    NetworkSpec { lstm: Some(5), ..spec() }
}

/// Random observations and memory; column 1 is truncated at step 2, column 3 at the last step, column 0 ends
/// at step 4.
fn batch(rng: &mut Rng) -> SampleBatch {
    let mut batch = SampleBatch::blank(BatchShape { state_len: STATE, ..shape() }, Tag::default());
    let mut fill = |numbers: &mut [f32]| numbers.iter_mut().for_each(|x| *x = rng.normal() as f32);
    fill(batch.obs_mut().into_f32().unwrap());
    fill(batch.state_in_mut());
    fill(batch.rewards_mut());
    batch.behaviour_logp_mut().fill(-1.0);
    batch.ends_mut()[4 * COLUMNS] = End::Terminated;
    let mut row = [0.0; CONTEXTS];
    for (t, b) in [(STEPS - 1, 3), (2, 1)] {
        batch.ends_mut()[t * COLUMNS + b] = End::Truncated;
        fill(&mut row);
        batch.final_obs_mut().push(t, b, &row[..]).unwrap();
    }
    batch.check_ends().unwrap();
    batch
}

/// The value of every observation of a column, one step at a time; and that of the observation after step
/// `cut`.
fn step_by_step(batch: &SampleBatch, params: &Params, b: usize, cut: Option<(usize, &[f32])>) -> (Vec<f32>, f32) {
    let mut network = CpuNetwork::new(&recurrent()).unwrap();
    let mut state = batch.state_in()[b * STATE..(b + 1) * STATE].to_vec();
    let mut out = Outputs::default();
    let (mut values, mut of_cut) = (Vec::new(), f32::NAN);
    let mut look = |obs: &[f32], state: &[f32]| {
        let memory = pronk_policy::Memory { state, starts: &[false] };
        network.forward(params, &Input::new(ObsRef::F32(obs), 1).with_memory(memory), &mut out).unwrap();
        (out.values[0], out.state.clone())
    };
    for t in 0..=STEPS {
        let obs = batch.obs().row(t * COLUMNS + b).as_f32().unwrap();
        let (value, after) = look(obs, &state);
        values.push(value);
        state = after;
        if let Some((_, obs)) = cut.filter(|(at, _)| *at == t) {
            of_cut = look(obs, &state).0;
        }
        if t < STEPS && batch.ends()[t * COLUMNS + b] != End::No {
            state.fill(0.0);
        }
    }
    (values, of_cut)
}

fn assert_close(got: f32, want: f32, what: &str) {
    assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{what}: {got}, not {want}");
}

#[test]
fn memory_goes_through_a_batch_and_to_its_final_observations() {
    let mut rng = Rng::seed_from(4);
    let (batch, params) = (batch(&mut rng), recurrent().init_params(3).unwrap());
    let mut network = CpuNetwork::new(&recurrent()).unwrap();
    let (mut sequence_input, mut values, mut out) = (SequenceInput::default(), Vec::new(), Outputs::default());
    // Twice: storage that was used does not show.
    for _ in 0..2 {
        sequence_input.final_values(&mut network, &params, &batch, batch.state_in(), &mut values).unwrap();
        network.forward(&params, &sequence_input.input(&batch, batch.state_in(), true), &mut out).unwrap();
    }
    assert_eq!(values.len(), 2);
    for b in 0..COLUMNS {
        let finals = batch.final_obs();
        let entry = finals.index().iter().position(|&(_, column)| column as usize == b);
        let cut =
            entry.map(|i| (finals.index()[i].0 as usize, finals.rows().view().row(i, CONTEXTS).as_f32().unwrap()));
        let (want, of_cut) = step_by_step(&batch, &params, b, cut);
        for (t, want) in want.into_iter().enumerate() {
            assert_close(out.values[t * COLUMNS + b], want, &format!("step {t} of column {b}"));
        }
        if let Some(i) = entry {
            assert_close(values[i], of_cut, &format!("final observation of column {b}"));
        }
    }
}

#[test]
fn every_algorithm_learns_from_batches_with_memory_and_refuses_those_without() {
    for (name, algorithm) in super::algorithms::every_algorithm() {
        let params = recurrent().init_params(0).unwrap();
        let parts = ActorCriticParts {
            network: Box::new(CpuNetwork::new(&recurrent()).unwrap()),
            optimizer: OptimizerConfig::default().build(params.values().len()).unwrap(),
            params,
            algorithm: super::algorithms::of_single_updates(&algorithm),
            ..parts(0)
        };
        let config = ActorCriticConfig { sgd_minibatch_size: NonZeroUsize::new(2 * STEPS), ..config() };
        let mut learner = ActorCriticLearner::new(parts, config).unwrap();
        let before = learner.params().values().to_vec();
        learner.learn((&MultiAgentBatch::single(batch(&mut Rng::seed_from(1)))).into()).unwrap();
        assert_ne!(learner.params().values(), before, "{name}");

        let forgetful = SampleBatch::blank(shape(), Tag::default());
        let error = learner.learn((&MultiAgentBatch::single(forgetful)).into()).unwrap_err().to_string();
        assert!(error.contains("state_in") && error.contains("state_len"), "{name}: {error}");
    }
}

/// The memory that a batch's column begins step `burn_in` with, one step at a time.
fn memory_after(batch: &SampleBatch, params: &Params, b: usize, initial: InitialState, burn_in: usize) -> Vec<f32> {
    let mut network = CpuNetwork::new(&recurrent()).unwrap();
    let mut state = batch.state_in()[b * STATE..(b + 1) * STATE].to_vec();
    if initial == InitialState::Zero {
        state.fill(0.0);
    }
    let mut out = Outputs::default();
    for t in 0..burn_in {
        let obs = batch.obs().row(t * COLUMNS + b).as_f32().unwrap();
        let memory = pronk_policy::Memory { state: &state, starts: &[false] };
        network.forward(params, &Input::new(ObsRef::F32(obs), 1).with_memory(memory), &mut out).unwrap();
        state.copy_from_slice(&out.state);
        if batch.ends()[t * COLUMNS + b] != End::No {
            state.fill(0.0);
        }
    }
    state
}

#[test]
fn burnt_in_steps_leave_their_memory_and_nothing_else() {
    let (batch, params) = (batch(&mut Rng::seed_from(8)), recurrent().init_params(3).unwrap());
    for initial in [InitialState::Stored, InitialState::Zero] {
        for burn_in in [0, 1, 3, STEPS - 1] {
            let mut network = CpuNetwork::new(&recurrent()).unwrap();
            let mut first = super::super::burn_in::BurnIn::new(initial, burn_in);
            for _ in 0..2 {
                let left = first.begin(&mut network, &params, &batch).unwrap();
                assert_eq!(left.is_none(), burn_in == 0);
                let rest = left.as_ref().unwrap_or(&batch);
                assert_eq!(
                    (rest.shape().steps, rest.rewards()),
                    (STEPS - burn_in, &batch.rewards()[burn_in * COLUMNS..])
                );
                assert_eq!(rest.ends(), &batch.ends()[burn_in * COLUMNS..]);
                rest.check_ends().unwrap();
                for b in 0..COLUMNS {
                    let want = memory_after(&batch, &params, b, initial, burn_in);
                    for (got, want) in first.state()[b * STATE..(b + 1) * STATE].iter().zip(want) {
                        assert_close(*got, want, &format!("{initial:?}, burn-in {burn_in}, column {b}"));
                    }
                }
            }
        }
    }
}

#[test]
fn burn_in_changes_what_is_learned_and_is_refused_without_a_memory() {
    let learned = |initial_state, burn_in| {
        let params = recurrent().init_params(0).unwrap();
        let parts = ActorCriticParts {
            network: Box::new(CpuNetwork::new(&recurrent()).unwrap()),
            optimizer: OptimizerConfig::default().build(params.values().len()).unwrap(),
            params,
            ..parts(0)
        };
        let mut learner =
            ActorCriticLearner::new(parts, ActorCriticConfig { initial_state, burn_in, ..config() }).unwrap();
        learner.learn((&MultiAgentBatch::single(batch(&mut Rng::seed_from(1)))).into()).unwrap();
        learner.params().values().to_vec()
    };
    let stored = learned(InitialState::Stored, 0);
    assert_eq!(stored, learned(InitialState::Stored, 0));
    for (initial, burn_in) in [(InitialState::Zero, 0), (InitialState::Stored, 2), (InitialState::Zero, 2)] {
        assert_ne!(stored, learned(initial, burn_in), "{initial:?} {burn_in}");
    }
    let error = ActorCriticLearner::new(parts(0), ActorCriticConfig { burn_in: 1, ..config() }).map(drop).unwrap_err();
    assert!(error.to_string().contains("burn_in") && error.to_string().contains("recurrent network"), "{error}");
}
