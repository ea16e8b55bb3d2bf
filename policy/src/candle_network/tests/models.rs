use candle_core::{Result, Tensor};

use super::*;
use crate::{CandleInput, CandleModel, CandleOutput, CandleWeights, Memory, NetworkShape, ParamLayout};

/// What a test lets a model do.
type Say = fn(&CandleWeights, &CandleInput<'_>) -> Result<CandleOutput>;

/// Four numbers to two logits and a value, and a parameter that nothing depends on.
struct Model {
    names: [&'static str; 3],
    say: Say,
}

impl CandleModel for Model {
    fn layout(&self) -> ParamLayout {
        ParamLayout::new(self.names.into_iter().zip([vec![4, 2], vec![4, 1], vec![3]]))
    }

    fn forward(&self, weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput> {
        (self.say)(weights, input)
    }
}

fn linear(weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput> {
    let logits = input.obs.matmul(weights.get("policy.weight")?)?;
    let values = input.obs.matmul(weights.get("value.weight")?)?.squeeze(1)?;
    Ok(CandleOutput { logits, values, state: None })
}

const NAMES: [&str; 3] = ["policy.weight", "value.weight", "idle"];

fn shape(state_len: usize) -> NetworkShape {
    NetworkShape { obs: Space::boxed(vec![-9.0; 4], vec![9.0; 4], vec![4]).unwrap(), dist_len: 2, state_len }
}

fn network(state_len: usize, say: Say) -> CandleNetwork {
    CandleNetwork::with_model(shape(state_len), Box::new(Model { names: NAMES, say }), Device::Cpu).unwrap()
}

fn params(network: &CandleNetwork) -> Params {
    let mut params = Init::Orthogonal.params(Arc::clone(network.layout()), 1);
    params.values_mut()[12..].fill(5.0);
    params
}

#[test]
fn a_model_of_ones_own_acts_and_learns_as_a_network() {
    let mut network = network(0, linear);
    let params = params(&network);
    let obs = [1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.0, 2.0];
    let grads = OutputGrads { logits: vec![1.0, 0.0, 0.0, 2.0], values: vec![3.0, -1.0] };
    let (out, grad) = learn(&mut network, &params, &Batch { obs: obs.to_vec(), grads, rows: 2 });
    let weight = params.get("value.weight").unwrap();
    let want = |row: usize| (0..4).map(|i| f64::from(obs[row * 4 + i] * weight[i])).sum::<f64>();
    assert!(distance(&out.values, &[want(0), want(1)]) < ROUNDING);
    assert_eq!(grad[..8], [1.0, -2.0, 2.0, 1.0, 3.0, 0.0, 4.0, 4.0]);
    assert_eq!(grad[8..12], [4.0, 5.5, 9.0, 10.0]);
    assert_eq!(grad[12..], [0.0; 3], "nothing depends on it");
}

/// Remembers the sum of the first observations of an episode.
fn counting(weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput> {
    let memory = input.memory.as_ref().expect("the shape has a state");
    let CandleOutput { logits, values, .. } = linear(weights, input)?;
    let mut state = memory.state.clone();
    for step in 0..memory.steps {
        let seen = input.obs.narrow(0, step * memory.columns, memory.columns)?.narrow(1, 0, 1)?;
        state = (memory.before_step(step, &state)? + seen)?;
    }
    Ok(CandleOutput { logits, values, state: Some(state) })
}

#[test]
fn a_model_of_ones_own_may_remember() {
    let mut network = network(1, counting);
    let (params, mut out) = (params(&network), Outputs::default());
    // Three steps of two columns; the second column starts again at the last step.
    let obs: Vec<f32> = (0..6).flat_map(|row| [row as f32, 0.0, 0.0, 0.0]).collect();
    let memory = Memory { state: &[100.0, 200.0], starts: &[false, false, false, false, false, true] };
    network.forward(&params, &Input::new(ObsRef::F32(&obs), 6).with_memory(memory), &mut out).unwrap();
    assert_eq!(out.state, [100.0 + 0.0 + 2.0 + 4.0, 5.0]);
}

#[test]
fn a_model_that_puts_out_something_else_is_refused_by_what_it_is() {
    let refusal = |state_len, say: Say| {
        let mut network = network(state_len, say);
        let (params, mut out) = (params(&network), Outputs::default());
        let memory = Memory { state: &[0.0; 2], starts: &[false; 2] };
        let plain = Input::new(ObsRef::F32(&[1.0; 8]), 2);
        let input = if state_len == 0 { plain } else { plain.with_memory(memory) };
        let error = network.forward_for_learning(&params, &input, &mut out).unwrap_err();
        match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }
    };
    let wide: Say = |weights, input| Ok(CandleOutput { logits: input.obs.clone(), ..linear(weights, input)? });
    assert_eq!(refusal(0, wide), "the model's logits: expected shape [2, 2], got shape [2, 4]");
    let square: Say = |weights, input| {
        let output = linear(weights, input)?;
        Ok(CandleOutput { values: output.values.unsqueeze(1)?, ..output })
    };
    assert_eq!(refusal(0, square), "the model's values: expected shape [2], got shape [2, 1]");
    assert_eq!(refusal(1, linear), "the model's state: expected shape [2, 1], got none");
    let remembering: Say = |weights, input| {
        let state = Some(Tensor::zeros((2, 1), candle_core::DType::F32, &Device::Cpu)?);
        Ok(CandleOutput { state, ..linear(weights, input)? })
    };
    assert_eq!(refusal(0, remembering), "the model's state: expected none, got shape [2, 1]");
    let misspelt: Say = |weights, input| {
        weights.get("polcy.weight")?;
        linear(weights, input)
    };
    assert!(refusal(0, misspelt).contains("has no tensor `polcy.weight`"));
}

#[test]
fn a_model_that_cannot_be_a_network_is_refused_with_the_reason() {
    let refusal = |shape, names| {
        let model = Box::new(Model { names, say: linear });
        CandleNetwork::with_model(shape, model, Device::Cpu).map(drop).unwrap_err().to_string()
    };
    assert!(refusal(NetworkShape { dist_len: 0, ..shape(0) }, NAMES).contains("dist_len is 0"));
    assert!(refusal(NetworkShape { obs: Space::Discrete { n: 0 }, ..shape(0) }, NAMES).contains("at least one thing"));
    assert!(refusal(shape(0), ["w", "v", "w"]).contains("two parameters have the name `w`"));
}
