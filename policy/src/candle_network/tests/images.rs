use super::*;

/// Small images, not square, with sides that leave a rest in every stride.
fn image_spec(encoder: Encoder, torso: Torso) -> NetworkSpec {
    let shape = match encoder {
        Encoder::NatureCnn { .. } => vec![2, 37, 42],
        _ => vec![2, 9, 6],
    };
    let len = shape.iter().product();
    let obs = Space::boxed(vec![-9.0; len], vec![9.0; len], shape).unwrap();
    NetworkSpec { obs, encoder, ..small(Activation::Relu, torso) }
}

fn encoders() -> [Encoder; 2] {
    [Encoder::NatureCnn { hidden: 5 }, Encoder::ImpalaCnn { channels: vec![3, 4], hidden: 5 }]
}

#[test]
fn image_encoders_act_and_learn_alike_and_repeat_bit_for_bit() {
    for (encoder, torso) in encoders().into_iter().zip([Torso::Shared, Torso::Separate]) {
        let spec = image_spec(encoder, torso);
        let (params, batch) = (trained_params(&spec, 1), Batch::new(&spec, 3, 2));
        let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
        let (out, grad) = learn(&mut network, &params, &batch);
        assert_eq!((out.logits.len(), out.values.len()), (9, 3));
        let acted = act(&mut network, &params, &batch);
        assert_eq!((&acted.logits, &acted.values), (&out.logits, &out.values));
        let (again, grad_again) = learn(&mut CandleNetwork::cpu(spec).unwrap(), &params, &batch);
        assert_eq!((again.logits, again.values, grad_again), (out.logits, out.values, grad.clone()));
        for entry in params.layout().entries() {
            assert!(grad[entry.range()].iter().any(|&g| g != 0.0), "{} has no gradient", entry.name);
        }
    }
}

#[test]
fn the_gradient_of_an_image_encoder_is_the_slope_of_its_outputs() {
    for encoder in encoders() {
        let spec = image_spec(encoder, Torso::Shared);
        let (mut params, batch) = (spec.init_params(4).unwrap(), Batch::new(&spec, 2, 2));
        let mut network = CandleNetwork::cpu(spec).unwrap();
        let (_, grad) = learn(&mut network, &params, &batch);
        let start = params.values().to_vec();
        // Along the gradient itself, the slope is its squared length. A short step crosses few kinks.
        let square: f64 = grad.iter().map(|&g| f64::from(g).powi(2)).sum();
        let step = 1e-3 / square.sqrt();
        let mut loss_at = |step: f64| {
            let moved = start.iter().zip(&grad).map(|(&x, &g)| (f64::from(x) + step * f64::from(g)) as f32);
            params.values_mut().iter_mut().zip(moved).for_each(|(value, moved)| *value = moved);
            let out = act(&mut network, &params, &batch);
            let terms = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
            terms(&out.logits, &batch.grads.logits) + terms(&out.values, &batch.grads.values)
        };
        let slope = (loss_at(step) - loss_at(-step)) / (2.0 * step);
        assert!((slope / square - 1.0).abs() < 0.02, "slope {slope}, squared length {square}");
    }
}

#[test]
fn separate_torsos_of_images_share_nothing() {
    for encoder in encoders() {
        let spec = image_spec(encoder, Torso::Separate);
        let (mut params, batch) = (trained_params(&spec, 1), Batch::new(&spec, 2, 2));
        let mut network = CandleNetwork::cpu(spec).unwrap();
        let before = act(&mut network, &params, &batch);
        let layout = Arc::clone(params.layout());
        let of_value = layout.entries().iter().filter(|entry| entry.name.starts_with("value_torso"));
        of_value.for_each(|entry| params.values_mut()[entry.range()].iter_mut().for_each(|x| *x *= 0.5));
        let after = act(&mut network, &params, &batch);
        assert_eq!(before.logits, after.logits);
        assert_ne!(before.values, after.values);
    }
}

#[test]
fn bytes_are_scaled_to_one() {
    for encoder in [Encoder::Mlp { hidden: vec![7], activation: Activation::Tanh }].into_iter().chain(encoders()) {
        let float_spec = image_spec(encoder, Torso::Shared);
        let Space::Box { shape, .. } = &float_spec.obs else { unreachable!("an image") };
        let spec = NetworkSpec { obs: Space::bytes(shape.clone()).unwrap(), ..float_spec.clone() };
        let params = trained_params(&spec, 1);
        let mut rng = Rng::seed_from(6);
        let bytes: Vec<u8> = (0..2 * spec.obs.obs_len()).map(|_| rng.below(256) as u8).collect();
        let floats: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
        let say = |spec, obs| {
            let mut out = Outputs::default();
            CandleNetwork::cpu(spec).unwrap().forward(&params, &Input::new(obs, 2), &mut out).unwrap();
            out.logits
        };
        let want: Vec<f64> = say(float_spec, ObsRef::F32(&floats)).into_iter().map(f64::from).collect();
        assert!(distance(&say(spec, ObsRef::U8(&bytes)), &want) < ROUNDING);
    }
}
