use super::*;
use crate::Memory;

const WIDTH: usize = 4;
const COLUMNS: usize = 3;

fn recurrent(torso: Torso) -> NetworkSpec {
    NetworkSpec { lstm: Some(WIDTH), ..small(Activation::Tanh, torso) }
}

fn torsos() -> [Torso; 2] {
    [Torso::Shared, Torso::Separate]
}

/// A batch with its memory.
struct Steps {
    batch: Batch,
    state: Vec<f32>,
    starts: Vec<bool>,
}

impl Steps {
    fn new(spec: &NetworkSpec, steps: usize, seed: u64) -> Self {
        let state = normals(&mut Rng::stream(seed, &[7]), COLUMNS * spec.state_len());
        let batch = Batch::new(spec, steps * COLUMNS, seed);
        Self { batch, state, starts: vec![false; steps * COLUMNS] }
    }

    fn with_start(mut self, step: usize, column: usize) -> Self {
        self.starts[step * COLUMNS + column] = true;
        self
    }

    fn input(&self) -> Input<'_> {
        self.batch.input().with_memory(Memory { state: &self.state, starts: &self.starts })
    }

    /// Some of the steps, to go on from another state.
    fn part(&self, steps: std::ops::Range<usize>, state: &[f32]) -> Self {
        let rows = steps.start * COLUMNS..steps.end * COLUMNS;
        let cut = |numbers: &[f32], width: usize| numbers[rows.start * width..rows.end * width].to_vec();
        let (obs_len, dist_len) = (self.batch.obs.len() / self.starts.len(), 3);
        let grads =
            OutputGrads { logits: cut(&self.batch.grads.logits, dist_len), values: cut(&self.batch.grads.values, 1) };
        let batch = Batch { obs: cut(&self.batch.obs, obs_len), grads, rows: rows.len() };
        Self { batch, state: state.to_vec(), starts: self.starts[rows].to_vec() }
    }

    fn act(&self, network: &mut CandleNetwork, params: &Params) -> Outputs {
        let mut out = Outputs::default();
        network.forward(params, &self.input(), &mut out).unwrap();
        out
    }

    fn learn(&self, network: &mut CandleNetwork, params: &Params) -> (Outputs, Vec<f32>) {
        let (mut out, mut grad) = (Outputs::default(), vec![f32::NAN; params.layout().len()]);
        network.forward_for_learning(params, &self.input(), &mut out).unwrap();
        network.backward(params, &self.batch.grads, &mut grad).unwrap();
        (out, grad)
    }
}

#[track_caller]
fn assert_near(got: &[f32], want: &[f32]) {
    let want: Vec<f64> = want.iter().map(|&x| x.into()).collect();
    assert!(distance(got, &want) < ROUNDING, "got {got:?}, expected {want:?}");
}

#[test]
fn a_sequence_is_the_same_as_its_steps_one_by_one_with_the_state_carried_on() {
    for torso in torsos() {
        let spec = recurrent(torso);
        let params = trained_params(&spec, 1);
        let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
        let whole = Steps::new(&spec, 5, 2).with_start(0, 1).with_start(2, 0).with_start(2, 2).with_start(4, 1);
        let want = whole.act(&mut network, &params);
        let (learned, _) = whole.learn(&mut network, &params);
        assert_eq!((&learned.logits, &learned.state), (&want.logits, &want.state));

        let (mut logits, mut values, mut state) = (vec![], vec![], whole.state.clone());
        for step in 0..5 {
            let out = whole.part(step..step + 1, &state).act(&mut network, &params);
            logits.extend(out.logits);
            values.extend(out.values);
            state = out.state;
        }
        assert_near(&logits, &want.logits);
        assert_near(&values, &want.values);
        assert_near(&state, &want.state);
    }
}

#[test]
fn an_episode_starts_from_zero_whatever_came_before() {
    for torso in torsos() {
        let spec = recurrent(torso);
        let params = trained_params(&spec, 1);
        let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
        let mut steps = Steps::new(&spec, 2, 2).with_start(0, 1);
        // What is forgotten may even be NaN.
        steps.state[spec.state_len()..2 * spec.state_len()].fill(f32::NAN);
        let (out, grad) = steps.learn(&mut network, &params);
        let mut fresh = steps.part(0..2, &steps.state);
        fresh.starts.fill(false);
        fresh.state[spec.state_len()..2 * spec.state_len()].fill(0.0);
        let (fresh_out, fresh_grad) = fresh.learn(&mut network, &params);
        assert_eq!((out.logits, out.values, out.state), (fresh_out.logits, fresh_out.values, fresh_out.state));
        assert_eq!(grad, fresh_grad);
    }
}

#[test]
fn no_gradient_goes_back_through_a_start_or_into_another_batch() {
    for torso in torsos() {
        let spec = recurrent(torso);
        let params = trained_params(&spec, 1);
        let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
        let mut whole = Steps::new(&spec, 4, 2);
        (0..COLUMNS).for_each(|column| whole.starts[2 * COLUMNS + column] = true);
        let (_, grad) = whole.learn(&mut network, &params);
        let (_, first) = whole.part(0..2, &whole.state).learn(&mut network, &params);
        let (_, second) = whole.part(2..4, &whole.state).learn(&mut network, &params);
        let sum: Vec<f32> = first.iter().zip(&second).map(|(a, b)| a + b).collect();
        assert_near(&grad, &sum);
        // Without the start, the first two steps hear of the last two.
        whole.starts.fill(false);
        assert!(whole.learn(&mut network, &params).1.iter().zip(&sum).any(|(a, b)| (a - b).abs() > 1e-3));
    }
}

#[test]
fn gradients_through_time_agree_with_finite_differences() {
    for torso in torsos() {
        let spec = recurrent(torso);
        let steps = Steps::new(&spec, 3, 4).with_start(1, 0);
        let mut params = trained_params(&spec, 3);
        let mut network = CandleNetwork::cpu(spec).unwrap();
        let (_, grad) = steps.learn(&mut network, &params);
        let values = params.values().to_vec();
        let mut loss_at = |i: usize, value: f32| {
            params.values_mut()[i] = value;
            let out = steps.act(&mut network, &params);
            let terms = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            terms(&out.logits, &steps.batch.grads.logits) + terms(&out.values, &steps.batch.grads.values)
        };
        for (i, &value) in values.iter().enumerate() {
            let slope = (loss_at(i, value + 1e-2) - loss_at(i, value - 1e-2)) / 2e-2;
            loss_at(i, value);
            assert!((slope - f64::from(grad[i])).abs() < 2e-3, "parameter {i}: got {}, slope {slope}", grad[i]);
        }
    }
}

/// One step in double precision, number by number: output and cell.
fn lstm_by_hand(params: &Params, name: &str, x: &[f64], hidden: &[f64], cell: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let tensor = |part: &str| params.get(&format!("{name}.{part}")).unwrap();
    let (input_weight, hidden_weight, bias) = (tensor("input.weight"), tensor("hidden.weight"), tensor("bias"));
    let product = |x: &[f64], weight: &[f32], j: usize| {
        x.iter().enumerate().map(|(i, x)| x * f64::from(weight[i * 4 * WIDTH + j])).sum::<f64>()
    };
    let gate = |gate: usize, unit: usize| {
        let j = gate * WIDTH + unit;
        f64::from(bias[j]) + product(x, input_weight, j) + product(hidden, hidden_weight, j)
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let cell: Vec<f64> =
        (0..WIDTH).map(|u| sigmoid(gate(1, u)) * cell[u] + sigmoid(gate(0, u)) * gate(2, u).tanh()).collect();
    ((0..WIDTH).map(|u| sigmoid(gate(3, u)) * cell[u].tanh()).collect(), cell)
}

#[test]
fn an_lstm_computes_its_formula_and_keeps_each_towers_state_in_its_place() {
    for torso in torsos() {
        // No encoder, so that the LSTM sees the observation itself.
        let linear = Encoder::Mlp { hidden: vec![], activation: Activation::Tanh };
        let spec = NetworkSpec { encoder: linear, ..recurrent(torso) };
        let params = trained_params(&spec, 1);
        let steps = Steps::new(&spec, 1, 2);
        let out = steps.act(&mut CandleNetwork::cpu(spec.clone()).unwrap(), &params);
        let names = if torso == Torso::Shared { &["torso"][..] } else { &["policy_torso", "value_torso"] };
        let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let mut want = vec![];
        for column in 0..COLUMNS {
            let state = wide(&steps.state[column * spec.state_len()..(column + 1) * spec.state_len()]);
            for (name, state) in names.iter().zip(state.chunks(2 * WIDTH)) {
                let x = wide(&steps.batch.obs[column * 4..(column + 1) * 4]);
                let (hidden, cell) =
                    lstm_by_hand(&params, &format!("{name}.lstm"), &x, &state[..WIDTH], &state[WIDTH..]);
                want.extend(hidden.into_iter().chain(cell));
            }
        }
        assert!(distance(&out.state, &want) < ROUNDING);
    }
}

#[test]
fn the_memory_of_the_value_tower_does_not_reach_the_policy() {
    let spec = recurrent(Torso::Separate);
    let params = trained_params(&spec, 1);
    let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
    let mut steps = Steps::new(&spec, 2, 2);
    let before = steps.act(&mut network, &params);
    steps.state.chunks_mut(4 * WIDTH).for_each(|state| state[2 * WIDTH..].fill(0.1));
    let after = steps.act(&mut network, &params);
    assert_eq!(before.logits, after.logits);
    assert_ne!(before.values, after.values);
}

#[test]
fn no_steps_leave_the_state_as_it_was() {
    let spec = recurrent(Torso::Shared);
    let params = trained_params(&spec, 1);
    let steps = Steps::new(&spec, 0, 2);
    let (out, grad) = steps.learn(&mut CandleNetwork::cpu(spec).unwrap(), &params);
    assert_eq!((out.logits.len(), out.state), (0, steps.state));
    assert!(grad.iter().all(|&g| g == 0.0));
}

#[test]
fn memory_is_asked_for_where_it_is_needed_and_refused_where_it_is_not() {
    let (plain, recurrent) = (small(Activation::Tanh, Torso::Shared), recurrent(Torso::Shared));
    let steps = Steps::new(&recurrent, 2, 2);
    let refusal = |spec: &NetworkSpec, input: Input<'_>| {
        let (params, mut out) = (spec.init_params(0).unwrap(), Outputs::default());
        CandleNetwork::cpu(spec.clone()).unwrap().forward(&params, &input, &mut out).unwrap_err().to_string()
    };
    assert!(refusal(&recurrent, steps.batch.input()).contains("has no state"));
    assert!(refusal(&plain, steps.input()).contains("leave it out"));
}
