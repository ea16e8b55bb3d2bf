//! The network once more, in double precision, one number after the other, with the chain rule written out.

use crate::{Activation, Encoder, NetworkSpec, OutputGrads, Params, Torso};

/// What the network should say and, for given output gradients, what `backward` should.
pub(super) struct Reference {
    pub(super) logits: Vec<f64>,
    pub(super) values: Vec<f64>,
    pub(super) grad: Vec<f64>,
}

pub(super) fn reference(spec: &NetworkSpec, params: &Params, obs: &[f32], grads: &OutputGrads) -> Reference {
    let mut result = Reference { logits: vec![], values: vec![], grad: vec![0.0; params.layout().len()] };
    let width = spec.obs.obs_len();
    for (row, obs) in obs.chunks_exact(width).enumerate() {
        let obs: Vec<f64> = obs.iter().map(|&x| f64::from(x)).collect();
        let logit_grads: Vec<f64> =
            grads.logits[row * spec.dist_len..][..spec.dist_len].iter().map(|&g| f64::from(g)).collect();
        let value_grad = [f64::from(grads.values[row])];
        let (policy_torso, value_torso) = match spec.torso {
            Torso::Shared => ("torso", "torso"),
            Torso::Separate => ("policy_torso", "value_torso"),
        };
        // A shared torso is walked once for each head: its gradients add up.
        let mut one = Row { spec, params, grad: &mut result.grad };
        result.logits.extend(one.walk(policy_torso, "policy", &obs, &logit_grads));
        result.values.extend(one.walk(value_torso, "value", &obs, &value_grad));
    }
    result
}

struct Row<'a> {
    spec: &'a NetworkSpec,
    params: &'a Params,
    grad: &'a mut [f64],
}

impl Row<'_> {
    /// Forward through the torso and one head, then back.
    fn walk(&mut self, torso: &str, head: &str, obs: &[f64], head_grad: &[f64]) -> Vec<f64> {
        let Encoder::Mlp { hidden, activation } = &self.spec.encoder else { panic!("only Mlp") };
        let mut inputs = vec![obs.to_vec()];
        for layer in 0..hidden.len() {
            let x = self.linear(&format!("{torso}.{layer}"), &inputs[layer]);
            inputs.push(x.into_iter().map(|x| activate(*activation, x)).collect());
        }
        let out = self.linear(head, &inputs[hidden.len()]);
        let mut grad = self.back(head, &inputs[hidden.len()], head_grad);
        for layer in (0..hidden.len()).rev() {
            let y = &inputs[layer + 1];
            grad.iter_mut().zip(y).for_each(|(grad, &y)| *grad *= slope(*activation, y));
            grad = self.back(&format!("{torso}.{layer}"), &inputs[layer], &grad);
        }
        out
    }

    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (weight, bias) = self.parameters(name);
        let outputs = bias.len();
        let out = |j: usize| (0..x.len()).map(|i| x[i] * f64::from(weight[i * outputs + j])).sum::<f64>();
        (0..outputs).map(|j| out(j) + f64::from(bias[j])).collect()
    }

    /// Adds the parameters' gradient and returns the input's.
    fn back(&mut self, name: &str, x: &[f64], grad: &[f64]) -> Vec<f64> {
        let layout = self.params.layout();
        let weight_at = layout.find(&format!("{name}.weight")).unwrap().offset;
        let bias_at = layout.find(&format!("{name}.bias")).unwrap().offset;
        for (j, grad) in grad.iter().enumerate() {
            self.grad[bias_at + j] += grad;
        }
        let mut x_grad = vec![0.0; x.len()];
        for i in 0..x.len() {
            for (j, grad_j) in grad.iter().enumerate() {
                let k = weight_at + i * grad.len() + j;
                self.grad[k] += x[i] * grad_j;
                x_grad[i] += f64::from(self.params.values()[k]) * grad_j;
            }
        }
        x_grad
    }

    fn parameters(&self, name: &str) -> (&[f32], &[f32]) {
        let get = |kind: &str| self.params.get(&format!("{name}.{kind}")).unwrap();
        (get("weight"), get("bias"))
    }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.max(0.0),
    }
}

fn slope(activation: Activation, y: f64) -> f64 {
    match activation {
        Activation::Tanh => 1.0 - y * y,
        Activation::Relu => f64::from(y > 0.0),
    }
}
