//! A network of your own: candle operations become a `Network`, gradients included.
//!
//! This one has what no `NetworkSpec` offers: its layer is normalised, and its output is added to what went in. For a
//! start it learns by heart which of two numbers is larger, and by how much.
//!
//! ```text
//! cargo run --release --example own_network
//! ```

#![allow(clippy::print_stdout)] // a program prints; the library never does

use std::process::ExitCode;
use std::sync::Arc;

use pronk::policy::candle_core::{Device, Result, Tensor};
use pronk::policy::{
    CandleInput, CandleModel, CandleNetwork, CandleOutput, CandleWeights, Input, Network, NetworkShape, ObsRef,
    OutputGrads, Outputs, ParamLayout,
};
use pronk::{Init, Rng, Space};

/// x + tanh(norm(x · inner)), with one head for the logits and one for the value.
struct Residual {
    inputs: usize,
    width: usize,
    actions: usize,
}

impl CandleModel for Residual {
    fn layout(&self) -> ParamLayout {
        ParamLayout::new([
            ("outer.weight", vec![self.inputs, self.width]),
            ("inner.weight", vec![self.width, self.width]),
            ("norm.scale", vec![self.width]),
            ("norm.shift", vec![self.width]),
            ("policy.weight", vec![self.width, self.actions]),
            ("value.weight", vec![self.width, 1]),
        ])
    }

    fn forward(&self, weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput> {
        let x = input.obs.matmul(weights.get("outer.weight")?)?;
        let x = (&x + self.norm(weights, &x.matmul(weights.get("inner.weight")?)?)?.tanh()?)?;
        let logits = x.matmul(weights.get("policy.weight")?)?;
        let values = x.matmul(weights.get("value.weight")?)?.squeeze(1)?;
        Ok(CandleOutput { logits, values, state: None })
    }
}

impl Residual {
    /// Mean 0 and variance 1 in each row, then a scale around one and a shift.
    fn norm(&self, weights: &CandleWeights, x: &Tensor) -> Result<Tensor> {
        let x = x.broadcast_sub(&x.mean_keepdim(1)?)?;
        let x = x.broadcast_div(&(x.sqr()?.mean_keepdim(1)? + 1e-5)?.sqrt()?)?;
        let scale = (weights.get("norm.scale")? + 1.0)?;
        x.broadcast_mul(&scale)?.broadcast_add(weights.get("norm.shift")?)
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let shape = NetworkShape { obs: Space::boxed(vec![-1.0; 2], vec![1.0; 2], vec![2])?, dist_len: 2, state_len: 0 };
    let model = Residual { inputs: 2, width: 32, actions: 2 };
    let mut network = CandleNetwork::with_model(shape, Box::new(model), Device::Cpu)?;
    // Matrices start as in every other network; the rest starts at zero.
    let mut params = Init::Orthogonal.params(Arc::clone(network.layout()), 0);

    let (rows, mut rng) = (256, Rng::seed_from(0));
    let (mut out, mut grads) = (Outputs::default(), OutputGrads::default());
    let mut grad = vec![0.0; params.values().len()];
    let mut right = 0;
    for _ in 0..300 {
        let obs: Vec<f32> = (0..2 * rows).map(|_| 2.0 * rng.next_f32() - 1.0).collect();
        network.forward_for_learning(&params, &Input::new(ObsRef::F32(&obs), rows), &mut out)?;
        grads.reset(rows, 2);
        right = 0;
        for (row, pair) in obs.chunks(2).enumerate() {
            let logits = &out.logits[2 * row..2 * row + 2];
            // Cross-entropy of the larger one, and half the square of the error of the difference.
            let larger = usize::from(pair[1] > pair[0]);
            let second = 1.0 / (1.0 + (logits[0] - logits[1]).exp());
            grads.logits[2 * row + 1] = (second - larger as f32) / rows as f32;
            grads.logits[2 * row] = -grads.logits[2 * row + 1];
            grads.values[row] = (out.values[row] - (pair[1] - pair[0])) / rows as f32;
            right += usize::from((logits[1] > logits[0]) == (larger == 1));
        }
        network.backward(&params, &grads, &mut grad)?;
        params.values_mut().iter_mut().zip(&grad).for_each(|(value, grad)| *value -= 0.3 * grad);
    }
    println!("{right} of {rows} right after 300 steps");
    Ok(if right * 100 >= rows * 95 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
