//! A recurrent network in the learner.

use super::*;

const STATE: usize = 2 * 5;

fn recurrent() -> NetworkSpec {
    NetworkSpec { lstm: Some(5), ..spec() }
}

/// Random observations and memory; column 1 is truncated at step 2, column 3 at the last step, column 0 ends at step 4.
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

/// The value of every observation of a column, one step at a time; and that of the observation after step `cut`.
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
        let obs = batch.obs().row(t * COLUMNS + b, CONTEXTS).as_f32().unwrap();
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
    let (mut recall, mut values, mut out) = (Recall::default(), Vec::new(), Outputs::default());
    // Twice: storage that was used does not show.
    for _ in 0..2 {
        recall.final_values(&mut network, &params, &batch, &mut values).unwrap();
        network.forward(&params, &recall.input(&batch, STATE), &mut out).unwrap();
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
        let once = std::num::NonZeroU64::MIN;
        let rhythm = crate::UpdateRhythm { per_train_batch: once, per_buffer: once };
        let params = recurrent().init_params(0).unwrap();
        let parts = ActorCriticParts {
            network: Box::new(CpuNetwork::new(&recurrent()).unwrap()),
            optimizer: OptimizerConfig::default().build(params.values().len()).unwrap(),
            params,
            algorithm: algorithm.build(rhythm).unwrap(),
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
