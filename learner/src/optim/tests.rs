#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

/// A learning rate that changes, so that it matters what it multiplies and when.
fn lr(step: usize) -> f64 {
    0.01 / (step + 1) as f64
}

/// What each optimiser does to one parameter, written from its definition: all gradients so far give the
/// parameter.
fn reference(config: OptimizerConfig, first: f64, grads: &[f64]) -> f64 {
    let mut param = first;
    match config {
        OptimizerConfig::Sgd => grads.iter().enumerate().for_each(|(t, grad)| param -= lr(t) * grad),
        OptimizerConfig::Adam(AdamConfig { beta1, beta2, eps }) => {
            for t in 1..=grads.len() {
                // Moments as weighted sums over the past, divided by the sum of weights.
                let mean = |beta: f64, power: i32| {
                    let terms = grads[..t].iter().rev().enumerate();
                    let weighted = |(age, grad): (usize, &f64)| beta.powi(age as i32) * grad.powi(power);
                    let weights: f64 = (0..t).map(|age| beta.powi(age as i32)).sum();
                    terms.map(weighted).sum::<f64>() / weights
                };
                param -= lr(t - 1) * mean(beta1, 1) / (mean(beta2, 2).sqrt() + eps);
            }
        }
        OptimizerConfig::RmsProp(RmsPropConfig { decay, momentum, eps, weight_decay, form }) => {
            let inside = form == RmsPropForm::EpsInsideRoot;
            let (mut mean_square, mut buffer) = (if inside { 1.0 } else { 0.0 }, 0.0);
            for (t, grad) in grads.iter().enumerate() {
                let grad = grad + weight_decay * param;
                mean_square = decay * mean_square + (1.0 - decay) * grad * grad;
                if inside {
                    buffer = momentum * buffer + lr(t) * grad / (mean_square + eps).sqrt();
                    param -= buffer;
                } else {
                    buffer = momentum * buffer + grad / (mean_square.sqrt() + eps);
                    param -= lr(t) * buffer;
                }
            }
        }
    }
    param
}

fn build<F: Float + Send + 'static>(config: OptimizerConfig, n: usize) -> Box<dyn Optimizer<F>> {
    match config {
        OptimizerConfig::Adam(config) => Box::new(Adam::<F>::new(n, config).unwrap()),
        OptimizerConfig::RmsProp(config) => Box::new(RmsProp::<F>::new(n, config).unwrap()),
        OptimizerConfig::Sgd => Box::new(Sgd::new(n)),
    }
}

fn configs() -> impl Strategy<Value = OptimizerConfig> {
    let form = prop_oneof![Just(RmsPropForm::EpsInsideRoot), Just(RmsPropForm::EpsOutsideRoot)];
    let momentum = prop_oneof![Just(0.0), 0.1..0.9];
    let weight_decay = prop_oneof![Just(0.0), 0.0..0.5];
    prop_oneof![
        Just(OptimizerConfig::Sgd),
        (0.0..0.99, 0.5..0.9999, 1e-8..1e-2).prop_map(|(beta1, beta2, eps)| OptimizerConfig::Adam(AdamConfig {
            beta1,
            beta2,
            eps
        })),
        (0.5..0.999, momentum, 1e-3..0.2, weight_decay, form).prop_map(|(decay, momentum, eps, weight_decay, form)| {
            OptimizerConfig::RmsProp(RmsPropConfig { decay, momentum, eps, weight_decay, form })
        }),
    ]
}

/// Steps of gradients for the same number of parameters.
fn gradients() -> impl Strategy<Value = Vec<Vec<f64>>> {
    (1_usize..20, 1_usize..9)
        .prop_flat_map(|(n, steps)| prop::collection::vec(prop::collection::vec(-2.0..2.0, n), steps))
}

proptest! {
    #[test]
    fn parameters_are_those_of_the_definition(config in configs(), steps in gradients()) {
        let n = steps[0].len();
        let mut params: Vec<f64> = (0..n).map(|i| i as f64 / 10.0).collect();
        let mut optimizer = build::<f64>(config, n);
        for (t, grads) in steps.iter().enumerate() {
            optimizer.step(&mut params, grads, StepOptions::whole(lr(t))).unwrap();
        }
        for (i, got) in params.iter().enumerate() {
            let grads: Vec<f64> = steps.iter().map(|grads| grads[i]).collect();
            let want = reference(config, i as f64 / 10.0, &grads);
            assert!((got - want).abs() < 1e-10, "parameter {i}: got {got}, want {want}");
        }
    }

    #[test]
    fn a_restored_optimiser_goes_on_bit_by_bit(config in configs(), steps in gradients(), cut in 0_usize..9) {
        let n = steps[0].len();
        let grads = |t: usize| -> Vec<f32> { steps[t].iter().map(|grad| *grad as f32).collect() };
        let cut = cut.min(steps.len());
        let mut params = vec![0.5_f32; n];
        let mut optimizer = build::<f32>(config, n);
        for t in 0..cut {
            optimizer.step(&mut params, &grads(t), StepOptions::whole(0.01)).unwrap();
        }
        let bytes = optimizer.state().to_safetensors().unwrap();
        let mut restored_params = params.clone();
        let mut restored = build::<f32>(config, n);
        restored.load_state(OptimizerState::from_safetensors(&bytes).unwrap()).unwrap();
        for t in cut..steps.len() {
            optimizer.step(&mut params, &grads(t), StepOptions::whole(0.01)).unwrap();
            restored.step(&mut restored_params, &grads(t), StepOptions::whole(0.01)).unwrap();
        }
        assert_eq!(params, restored_params);
        assert_eq!(optimizer.state(), restored.state());
    }

    #[test]
    fn scaling_in_the_step_is_scaling_before_it(config in configs(), steps in gradients(), grad_scale in 0.01_f32..1.0) {
        let n = steps[0].len();
        let (mut params, mut params_before) = (vec![0.5_f32; n], vec![0.5_f32; n]);
        let (mut optimizer, mut optimizer_before) = (build::<f32>(config, n), build::<f32>(config, n));
        for grads in &steps {
            let grads: Vec<f32> = grads.iter().map(|grad| *grad as f32).collect();
            let scaled: Vec<f32> = grads.iter().map(|grad| grad * grad_scale).collect();
            optimizer.step(&mut params, &grads, StepOptions { lr: 0.01, grad_scale }).unwrap();
            optimizer_before.step(&mut params_before, &scaled, StepOptions::whole(0.01)).unwrap();
        }
        assert_eq!(params, params_before);
        assert_eq!(optimizer.state(), optimizer_before.state());
    }

    #[test]
    fn clipping_shortens_to_the_limit(
        grads in prop::collection::vec(-10.0..10.0, 1..40_usize),
        max_norm in 0.1..100.0,
    ) {
        let norm = clip_global_norm(&grads, Some(max_norm));
        let length = grads.iter().map(|grad| grad * grad).sum::<f64>().sqrt();
        assert!((norm.true_norm - length).abs() < 1e-9);
        assert_eq!(norm.clipped_norm, norm.true_norm.min(max_norm));
        assert!((length * norm.grad_scale - norm.clipped_norm).abs() < 1e-5);
        assert!((norm.grad_scale - (max_norm / (length + 1e-6)).min(1.0)).abs() < 1e-9);
    }
}

#[test]
fn a_parameter_moves_the_same_alone_and_among_many() {
    let rmsprop = RmsPropConfig { weight_decay: 0.1, ..RmsPropConfig::default() };
    for config in [
        OptimizerConfig::Adam(AdamConfig::default()),
        OptimizerConfig::RmsProp(rmsprop),
        OptimizerConfig::RmsProp(RmsPropConfig { momentum: 0.9, form: RmsPropForm::EpsOutsideRoot, ..rmsprop }),
        OptimizerConfig::Sgd,
    ] {
        let n = 2 * pass::BLOCK + 37;
        let first: Vec<f32> = (0..n).map(|i| (i as f32).cos()).collect();
        let grads: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
        let options = StepOptions { lr: 0.1, grad_scale: 0.7 };
        let (mut params, mut optimizer) = (first.clone(), config.build(n).unwrap());
        let mut norm = 0.0;
        for _ in 0..2 {
            norm = optimizer.step(&mut params, &grads, options).unwrap();
        }
        for i in 0..n {
            let (mut param, mut optimizer) = ([first[i]], config.build(1).unwrap());
            optimizer.step(&mut param, &grads[i..=i], options).unwrap();
            optimizer.step(&mut param, &grads[i..=i], options).unwrap();
            assert_eq!(params[i].to_bits(), param[0].to_bits(), "parameter {i} of {config:?}");
        }
        let length = params.iter().map(|param| f64::from(*param).powi(2)).sum::<f64>().sqrt();
        assert!((norm / length - 1.0).abs() < 1e-12, "norm {norm} of parameters of length {length}");
    }
}

#[test]
fn moments_of_a_unit_that_died_reach_zero_and_nothing_else_becomes_subnormal() {
    let momentum = RmsPropConfig { momentum: 0.5, decay: 0.5, ..RmsPropConfig::default() };
    for config in [
        OptimizerConfig::Adam(AdamConfig { beta2: 0.9, ..AdamConfig::default() }),
        OptimizerConfig::RmsProp(momentum),
        OptimizerConfig::RmsProp(RmsPropConfig { form: RmsPropForm::EpsOutsideRoot, ..momentum }),
    ] {
        let (mut params, mut optimizer) = ([0.5; 3], config.build(3).unwrap());
        for step in 0..1000 {
            let dying = if step == 0 { 1.0 } else { 0.0 };
            optimizer.step(&mut params, &[dying, 1e-20, 1e-3], StepOptions::whole(0.01)).unwrap();
            for (name, vector) in optimizer.state().vectors {
                assert!(!vector.iter().any(|value| value.is_subnormal()), "{name} of {config:?}: {vector:?}");
            }
        }
        for (name, vector) in optimizer.state().vectors {
            assert_eq!((vector[0], vector[1]), (0.0, 0.0), "{name} of {config:?}");
            assert!(vector[2] != 0.0, "{name} of {config:?}");
        }
    }
}

#[test]
fn a_norm_is_the_same_bits_at_any_vector_width() {
    for n in [0, 1, 15, 16, 17, 1000, 4675] {
        let values: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
        let mut sums = [0.0; 16];
        for (i, value) in values.iter().enumerate() {
            sums[i % 16] += f64::from(*value) * f64::from(*value);
        }
        let want = sums.iter().sum::<f64>().sqrt();
        assert_eq!(clip_global_norm(&values, None).true_norm.to_bits(), want.to_bits(), "of {n} values");
    }
}

#[test]
fn parameters_that_are_not_finite_have_such_a_norm() {
    let step = |first: f32, grad: f32| {
        let mut params = vec![0.0, first, 0.0];
        OptimizerConfig::Sgd.build(3).unwrap().step(&mut params, &[0.0, grad, 0.0], StepOptions::whole(1.0)).unwrap()
    };
    assert!(step(f32::NAN, 0.0).is_nan());
    assert_eq!(step(f32::MAX, f32::MIN), f64::INFINITY);
    assert_eq!(step(f32::MAX, 0.0), f64::from(f32::MAX));
}

#[test]
fn gradients_within_the_limit_are_not_scaled() {
    let whole = ClippedNorm { true_norm: 5.0, clipped_norm: 5.0, grad_scale: 1.0 };
    assert_eq!(clip_global_norm(&[3.0_f32, 4.0], Some(6.0)), whole);
    assert_eq!(clip_global_norm(&[3.0_f32, 4.0], None), whole);
}

#[test]
fn a_norm_that_is_not_finite_is_told() {
    let norm = |grads: [f32; 2]| clip_global_norm(&grads, Some(1.0));
    assert!(norm([1.0, f32::NAN]).true_norm.is_nan());
    let infinite = ClippedNorm { true_norm: f64::INFINITY, clipped_norm: f64::INFINITY, grad_scale: 1.0 };
    assert_eq!(norm([1.0, f32::INFINITY]), infinite);
}

#[test]
fn the_norm_is_summed_in_double_precision() {
    // In f32, 4096^2 + 1 is 4096^2.
    let grads = [vec![4096.0_f32; 8], vec![1.0; 800]].concat();
    let norm = clip_global_norm(&grads, None).true_norm;
    assert_eq!(norm, (8.0 * 4096.0 * 4096.0 + 800.0_f64).sqrt());
}

#[test]
fn lengths_that_do_not_fit_are_refused_and_nothing_changes() {
    for config in [
        OptimizerConfig::Adam(AdamConfig::default()),
        OptimizerConfig::RmsProp(RmsPropConfig::default()),
        OptimizerConfig::Sgd,
    ] {
        let mut optimizer = config.build(2).unwrap();
        let before = optimizer.state();
        let mut params = [1.0, 2.0];
        let error = optimizer.step(&mut params, &[1.0], StepOptions::whole(0.1)).unwrap_err();
        assert_eq!(error.to_string(), "grads has 1 elements where [parameters] = [2] needs 2");
        assert!(optimizer.step(&mut [1.0], &[1.0, 1.0], StepOptions::whole(0.1)).is_err());
        assert_eq!((params, optimizer.state()), ([1.0, 2.0], before));
    }
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_reason() {
    let adam = |config| Adam::<f32>::new(1, config).unwrap_err().to_string();
    assert_eq!(
        adam(AdamConfig { beta2: 1.0, ..AdamConfig::default() }),
        "beta2 of the optimiser is 1; it must be at least 0 and below 1"
    );
    assert!(adam(AdamConfig { eps: f64::NAN, ..AdamConfig::default() }).starts_with("eps"));
    for eps in [0.0, -1.0, 1e-50, 1e50] {
        let adam_error = adam(AdamConfig { eps, ..AdamConfig::default() });
        assert!(adam_error.starts_with("eps") && adam_error.contains("above 0"), "{adam_error}");
        let config = RmsPropConfig { eps, ..RmsPropConfig::default() };
        assert_eq!(RmsProp::<f32>::new(1, config).unwrap_err().to_string(), adam_error);
    }
    let rmsprop = |config| RmsProp::<f32>::new(1, config).unwrap_err().to_string();
    assert!(rmsprop(RmsPropConfig { decay: -0.1, ..RmsPropConfig::default() }).starts_with("decay"));
    assert!(rmsprop(RmsPropConfig { momentum: 1.0, ..RmsPropConfig::default() }).starts_with("momentum"));
    assert!(rmsprop(RmsPropConfig { weight_decay: -1.0, ..RmsPropConfig::default() }).starts_with("weight_decay"));
}

#[test]
fn state_of_another_optimiser_network_or_setting_is_refused_and_says_why() {
    let refusal = |state: OptimizerState, config: OptimizerConfig| {
        let mut optimizer = config.build(2).unwrap();
        let before = optimizer.state();
        let error = optimizer.load_state(state).unwrap_err().to_string();
        assert_eq!(optimizer.state(), before);
        error
    };
    let adam = OptimizerConfig::Adam(AdamConfig::default());
    let rmsprop = RmsPropConfig::default();
    let with_momentum = OptimizerConfig::RmsProp(RmsPropConfig { momentum: 0.9, ..rmsprop });
    let rmsprop = OptimizerConfig::RmsProp(rmsprop);
    let state = |config: OptimizerConfig, n| config.build(n).unwrap().state();

    assert!(refusal(state(adam, 2), rmsprop).contains("it is of 'adam' and this optimiser is 'rmsprop'"));
    assert!(refusal(state(adam, 3), adam).contains("'mean' has 3 elements and the network 2 parameters"));
    assert!(refusal(state(rmsprop, 2), with_momentum).contains("'momentum' is missing"));
    assert!(refusal(state(with_momentum, 2), rmsprop).contains("'momentum' has no place here"));
    let mut not_finite = state(adam, 2);
    not_finite.vectors.get_mut("mean").unwrap()[1] = f32::NAN;
    assert!(refusal(not_finite, adam).contains("'mean' is not finite at element 1"));
    for config in [adam, rmsprop] {
        let mut negative = state(config, 2);
        negative.vectors.get_mut("mean_square").unwrap()[1] = -1e-3;
        assert!(refusal(negative, config).contains("'mean_square' is negative at element 1"));
    }
    let many = OptimizerState { steps: u64::MAX, ..state(adam, 2) };
    assert!(refusal(many, adam).contains("it has taken 18446744073709551615 steps"));
    let mut falling = state(adam, 2);
    falling.vectors.get_mut("mean").unwrap()[1] = -1e-3;
    adam.build(2).unwrap().load_state(falling).unwrap();
}

#[test]
fn equal_states_give_equal_bytes() {
    let state = OptimizerConfig::default().build(3).unwrap().state();
    let bytes = state.to_safetensors().unwrap();
    for _ in 0..20 {
        assert_eq!(state.to_safetensors().unwrap(), bytes);
    }
    assert_eq!(OptimizerState::from_safetensors(&bytes).unwrap(), state);
}

#[test]
fn bytes_that_are_no_state_are_refused_without_a_panic() {
    let good = OptimizerConfig::default().build(3).unwrap().state().to_safetensors().unwrap();
    assert!(OptimizerState::from_safetensors(&good).is_ok());
    for end in 0..good.len() {
        assert!(OptimizerState::from_safetensors(&good[..end]).is_err(), "cut at {end}");
    }
    let mut huge_header = good.clone();
    huge_header[..8].copy_from_slice(&(90_u64 << 20).to_le_bytes());
    assert!(OptimizerState::from_safetensors(&huge_header).is_err());
    let refusal_with = |from: &[u8], to: &[u8]| {
        let at = good.windows(from.len()).position(|window| window == from).unwrap();
        let mut bytes = good.clone();
        bytes[at..at + from.len()].copy_from_slice(to);
        OptimizerState::from_safetensors(&bytes).unwrap_err().to_string()
    };
    assert!(refusal_with(b"F32", b"I32").contains("and not a vector of F32"));
    assert!(refusal_with(b"\"steps\":\"0\"", b"\"steps\":\"x\"").contains("not a count: x"));
    assert!(refusal_with(b"\"steps\"", b"\"stops\"").contains("its metadata has no 'steps'"));
}

#[test]
fn a_config_file_names_the_optimiser_and_unknown_settings_are_refused() {
    let read = |text: &str| serde_json::from_str::<OptimizerConfig>(text);
    assert_eq!(read(r#"{"type": "adam"}"#).unwrap(), OptimizerConfig::default());
    let rmsprop = read(r#"{"type": "rmsprop", "momentum": 0.5}"#).unwrap();
    assert_eq!(rmsprop, OptimizerConfig::RmsProp(RmsPropConfig { momentum: 0.5, ..RmsPropConfig::default() }));
    assert!(read(r#"{"type": "rmsprop", "epsilon": 0.5}"#).is_err());
}
