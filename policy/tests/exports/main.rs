//! Leaves files for `cargo xtask onnx` and `torch`, which have ONNX Runtime and PyTorch run them. For a
//! policy of every kind of network: the ONNX model, the spec, the weight file, and 1,000 observations with
//! what the policy makes of them.

#![allow(clippy::unwrap_used)]

mod kinds;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pronk_policy::{
    ActionSelection, ActionsMut, CpuNetwork, Input, Memory, Network, ObsDtype, ObsRef, Outputs, Params, Policy, Rng,
    Space,
};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use self::kinds::Kind;

const ROWS: usize = 1000;

/// Steps that a recurrent policy acts for, each on as many rows.
const STEPS: usize = 20;

#[test]
fn policies_leave_models_with_what_they_made_of_observations() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exports");
    // Of an earlier test run, which may have had other kinds.
    let _ = fs::remove_dir_all(&folder);
    for kind in kinds::all() {
        let folder = folder.join(kind.name);
        fs::create_dir_all(&folder).unwrap();
        let params = trained(&kind);
        fs::write(folder.join("policy.onnx"), policy(&kind, &params).to_onnx().unwrap()).unwrap();
        fs::write(folder.join("network.json"), serde_json::to_string(&kind.spec).unwrap()).unwrap();
        fs::write(folder.join("weights.safetensors"), params.to_safetensors(&BTreeMap::new())).unwrap();
        fs::write(folder.join("cases.safetensors"), cases(&kind, &params)).unwrap();
    }
}

/// Weights as after some training: first ones have biases of zero and hardly any preferences, behind which
/// errors could hide.
fn trained(kind: &Kind) -> Params {
    let mut params = kind.spec.init_params(1).unwrap();
    let mut rng = Rng::seed_from(2);
    for entry in Arc::clone(params.layout()).entries() {
        for value in &mut params.values_mut()[entry.range()] {
            match entry.name.as_str() {
                "policy.weight" => *value *= 10.0,
                name if name.ends_with(".bias") => *value += 0.1 * rng.normal() as f32,
                // Larger ones have activations of a hundred, which any two libraries round too differently.
                _ => {}
            }
        }
    }
    params
}

fn policy(kind: &Kind, params: &Params) -> Policy {
    let policy = Policy::new(kind.spec.clone(), params.clone(), &kind.action).unwrap();
    let policy = policy.with_gaussian(kind.gaussian).unwrap();
    match &kind.normalizer {
        Some(normalizer) => policy.with_normalizer(normalizer.clone()).unwrap(),
        None => policy,
    }
}

/// Observations, and logits, values, actions and the last state: by the policy where it shows them, else by
/// its network.
fn cases(kind: &Kind, params: &Params) -> Vec<u8> {
    let obs = Observations::draw(kind);
    let state_len = kind.spec.state_len();
    let steps = if state_len > 0 { STEPS } else { 1 };
    let columns = ROWS / steps;
    let mut tensors = Tensors::default();
    tensors.add("obs", ROWS, obs.shape(), &obs.bytes(), obs.dtype());

    let mut policy = policy(kind, params);
    let (mut values, mut actions) = (Vec::new(), Actions::default());
    for step in 0..steps {
        let rows = step * columns..(step + 1) * columns;
        actions.select(&mut policy, &kind.action, obs.rows(rows), columns);
        values.extend_from_slice(policy.values());
    }
    tensors.add_f32("values", ROWS, &[], &values);
    let act_len = kind.action.act_len();
    let shape: &[usize] = if matches!(kind.action, Space::Discrete { .. }) { &[] } else { &[act_len] };
    if kind.action.has_discrete_actions() {
        let bytes: Vec<u8> = actions.indices.iter().flat_map(|&index| i64::from(index).to_le_bytes()).collect();
        tensors.add("action", ROWS, shape, &bytes, Dtype::I64);
    } else {
        tensors.add_f32("action", ROWS, shape, &actions.numbers);
    }

    let mut out = Outputs::default();
    let mut seen = obs.clone();
    seen.normalize(kind);
    let (state, starts) = (vec![0.0; columns * state_len], [false; ROWS]);
    let input = Input::new(seen.rows(0..ROWS), ROWS);
    let input = if state_len > 0 { input.with_memory(Memory { state: &state, starts: &starts }) } else { input };
    CpuNetwork::new(&kind.spec).unwrap().forward(params, &input, &mut out).unwrap();
    assert_eq!(out.values, values, "{}: the policy and its network", kind.name);
    tensors.add_f32("logits", ROWS, &[kind.spec.dist_len], &out.logits);
    if state_len > 0 {
        tensors.add_f32("state_out", columns, &[state_len], &out.state);
    }
    let choices = match &kind.action {
        Space::Discrete { n } => vec![*n],
        Space::MultiDiscrete { nvec } => nvec.clone(),
        Space::Box { .. } => vec![],
    };
    let metadata = [("steps", steps.to_string()), ("choices", format!("{choices:?}"))];
    tensors.to_bytes(metadata.map(|(key, value)| (key.to_owned(), value)).into())
}

/// Observations of a kind's space, `[ROWS, …]`.
#[derive(Clone)]
struct Observations {
    space: Space,
    numbers: Vec<f32>,
    pixels: Vec<u8>,
}

impl Observations {
    fn draw(kind: &Kind) -> Self {
        let mut rng = Rng::seed_from(3);
        let space = kind.spec.obs.clone();
        let len = space.obs_len();
        let mut obs = Self { space, numbers: Vec::new(), pixels: Vec::new() };
        let mut brightness = 0;
        for i in 0..ROWS * len {
            // Images of plain noise would all look the same to a convolution.
            if i % len.div_ceil(7) == 0 {
                brightness = 1 + rng.below(256);
            }
            match obs.space.obs_dtype() {
                ObsDtype::U8 => obs.pixels.push(rng.below(brightness) as u8),
                ObsDtype::F32 => {
                    let (mean, std) =
                        kind.normalizer.as_ref().map_or((0.0, 1.0), |by| (by.mean[i % len], by.std[i % len]));
                    // Wide enough that normalised ones are clipped now and then.
                    obs.numbers.push((mean + 2.0 * std * rng.normal()) as f32);
                }
            }
        }
        if let Space::Discrete { n } = obs.space {
            obs.numbers.fill(0.0);
            obs.numbers.chunks_exact_mut(n).for_each(|row| row[rng.below(n as u64) as usize] = 1.0);
        }
        obs
    }

    fn normalize(&mut self, kind: &Kind) {
        if let Some(normalizer) = &kind.normalizer {
            normalizer.apply(&mut self.numbers).unwrap();
        }
    }

    fn rows(&self, rows: std::ops::Range<usize>) -> ObsRef<'_> {
        let len = self.space.obs_len();
        let range = rows.start * len..rows.end * len;
        match self.space.obs_dtype() {
            ObsDtype::U8 => ObsRef::U8(&self.pixels[range]),
            ObsDtype::F32 => ObsRef::F32(&self.numbers[range]),
        }
    }

    fn shape(&self) -> &[usize] {
        match &self.space {
            Space::Box { shape, .. } => shape,
            Space::Discrete { n } => std::slice::from_ref(n),
            Space::MultiDiscrete { .. } => panic!("no kind observes several choices"),
        }
    }

    fn dtype(&self) -> Dtype {
        if self.space.obs_dtype() == ObsDtype::U8 { Dtype::U8 } else { Dtype::F32 }
    }

    fn bytes(&self) -> Vec<u8> {
        if self.dtype() == Dtype::U8 { self.pixels.clone() } else { bytes_of(&self.numbers) }
    }
}

/// What a policy selected so far.
#[derive(Default)]
struct Actions {
    indices: Vec<u32>,
    numbers: Vec<f32>,
}

impl Actions {
    fn select(&mut self, policy: &mut Policy, space: &Space, obs: ObsRef<'_>, rows: usize) {
        let n = rows * space.act_len();
        let mut mode = ActionSelection::Mode;
        if space.has_discrete_actions() {
            let mut indices = vec![0; n];
            policy.act(obs, rows, &mut mode, ActionsMut::Discrete(&mut indices)).unwrap();
            self.indices.extend(indices);
        } else {
            let mut numbers = vec![0.0; n];
            policy.act(obs, rows, &mut mode, ActionsMut::Continuous(&mut numbers)).unwrap();
            self.numbers.extend(numbers);
        }
    }
}

/// Tensors of a safetensors file.
#[derive(Default)]
struct Tensors(HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn add(&mut self, name: &str, rows: usize, shape: &[usize], bytes: &[u8], dtype: Dtype) {
        self.0.insert(name.to_owned(), (dtype, [&[rows], shape].concat(), bytes.to_vec()));
    }

    fn add_f32(&mut self, name: &str, rows: usize, shape: &[usize], numbers: &[f32]) {
        self.add(name, rows, shape, &bytes_of(numbers), Dtype::F32);
    }

    fn to_bytes(&self, metadata: HashMap<String, String>) -> Vec<u8> {
        let views = self.0.iter().map(|(name, (dtype, shape, bytes))| {
            (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize(views, Some(metadata)).unwrap()
    }
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
