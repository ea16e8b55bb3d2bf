//! The algorithm on batches, in `f32`.

use pronk_buffer::{ActionKind, ActionViewMut, BatchShape, End, ObsKind, SampleBatch, Tag};
use pronk_metrics::Info;
use pronk_policy::{Categorical, Distribution, OutputGrads, Rng};

use crate::algorithms::on_batch::actions_of;
use crate::*;

const STEPS: usize = 4;
pub(crate) const COLUMNS: usize = 3;
pub(crate) const ACTIONS: usize = 2;
pub(crate) const ROWS: usize = STEPS * COLUMNS;

/// A batch and what a network made of it, all from one seed.
pub(crate) struct Case {
    pub(crate) batch: SampleBatch,
    distribution: Categorical,
    pub(crate) logits: Vec<f32>,
    values: Vec<f32>,
    final_values: Vec<f32>,
}

impl Case {
    /// With an end of each kind: column 0 terminates at step 1, column 1 is truncated at step 2 and column 2
    /// at the last step.
    fn with_ends() -> Case {
        let mut case = Case::without_ends();
        case.batch.ends_mut()[COLUMNS] = End::Terminated;
        for (t, b) in [(STEPS - 1, 2), (2, 1)] {
            case.batch.ends_mut()[t * COLUMNS + b] = End::Truncated;
            case.batch.final_obs_mut().push(t, b, &[0.5_f32][..]).unwrap();
        }
        case.final_values = vec![20.0, -10.0];
        case
    }

    fn without_ends() -> Case {
        let shape = BatchShape {
            steps: STEPS,
            columns: COLUMNS,
            obs_len: 1,
            obs_kind: ObsKind::F32,
            act_len: 1,
            act_kind: ActionKind::U32,
            dist_len: ACTIONS,
            state_len: 0,
        };
        let mut rng = Rng::seed_from(7);
        let mut numbers = |n: usize| (0..n).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
        let mut batch = SampleBatch::blank(shape, Tag::default());
        batch.rewards_mut().copy_from_slice(&numbers(ROWS));
        for (logp, number) in batch.behaviour_logp_mut().iter_mut().zip(numbers(ROWS)) {
            *logp = -number.abs() - 0.1;
        }
        if let ActionViewMut::U32(actions) = batch.actions_mut() {
            for (action, number) in actions.iter_mut().zip(numbers(ROWS)) {
                *action = u32::from(number > 0.0);
            }
        }
        Case {
            batch,
            distribution: Categorical::new(ACTIONS).unwrap(),
            logits: numbers((STEPS + 1) * COLUMNS * ACTIONS),
            values: numbers((STEPS + 1) * COLUMNS),
            final_values: Vec::new(),
        }
    }

    /// Behaviour log-probabilities are those of behaviour inputs, other than the logits.
    pub(crate) fn with_behaviour_inputs() -> Case {
        let mut rng = Rng::seed_from(8);
        Case::without_ends().acted_with(&(0..ROWS * ACTIONS).map(|_| rng.normal() as f32).collect::<Vec<_>>())
    }

    /// The policy in training has acted.
    pub(crate) fn of_the_policy_itself() -> Case {
        let case = Case::without_ends();
        let logits = case.logits[..ROWS * ACTIONS].to_vec();
        case.acted_with(&logits)
    }

    fn acted_with(mut self, then: &[f32]) -> Case {
        self.batch.behaviour_inputs_mut().copy_from_slice(then);
        let mut logp = vec![0.0; ROWS];
        self.distribution.logp(then, actions_of(&self.batch), &mut logp).unwrap();
        self.batch.behaviour_logp_mut().copy_from_slice(&logp);
        self
    }

    pub(crate) fn inputs(&self) -> LossInputs<'_> {
        LossInputs {
            distribution: &self.distribution,
            logits: &self.logits,
            values: &self.values,
            target_logits: &[],
            final_values: &self.final_values,
            env_steps: 0,
        }
    }

    fn loss(&self, config: ImpalaConfig) -> (Info, OutputGrads) {
        let mut grads = OutputGrads::default();
        let stats = Impala::new(config).unwrap().loss(&self.batch, &self.inputs(), &mut grads).unwrap();
        (stats, grads)
    }

    fn error(&self, inputs: &LossInputs<'_>) -> LearnError {
        let mut impala = Impala::new(ImpalaConfig::default()).unwrap();
        impala.loss(&self.batch, inputs, &mut OutputGrads::default()).unwrap_err()
    }
}

fn values_gradient(t: usize, b: usize, grads: &OutputGrads) -> f32 {
    grads.values[t * COLUMNS + b]
}

#[test]
fn gradients_are_those_of_the_pure_loss_with_ends_folded_in() {
    let case = Case::with_ends();
    let (stats, grads) = case.loss(ImpalaConfig { behaviour_kl_coeff: 0.0, ..ImpalaConfig::default() });

    // The same in the open: every end has discount 0 and a truncated one earns 0.99 times its final value.
    let mut rewards = case.batch.rewards().to_vec();
    let mut discounts = vec![0.99; ROWS];
    for (t, b, final_value) in [(1, 0, 0.0), (2, 1, -10.0), (STEPS - 1, 2, 20.0)] {
        rewards[t * COLUMNS + b] += 0.99 * final_value;
        discounts[t * COLUMNS + b] = 0.0;
    }
    let logits = &case.logits[..ROWS * ACTIONS];
    let (mut logp, mut entropy) = (vec![0.0; ROWS], vec![0.0; ROWS]);
    let actions = case.batch.actions();
    let pronk_buffer::ActionView::U32(actions) = actions else { unreachable!("actions are indices here") };
    let actions = pronk_policy::ActionsRef::Discrete(actions);
    case.distribution.logp(logits, actions, &mut logp).unwrap();
    case.distribution.entropy(logits, &mut entropy).unwrap();
    let input = ImpalaLossInput {
        steps: STEPS,
        columns: COLUMNS,
        behaviour_logp: case.batch.behaviour_logp(),
        logp: &logp,
        entropy: &entropy,
        values: &case.values[..ROWS],
        targets: Targets::Vtrace {
            rewards: &rewards,
            discounts: &discounts,
            last_step: LastStep::Bootstrap(&case.values[ROWS..]),
        },
        mask: None,
    };
    let config = ImpalaLossConfig {
        vf_loss_coeff: 0.5,
        entropy_coeff: 0.01,
        vtrace: VtraceConfig::default(),
        masked_steps: MaskedSteps::Skip,
    };
    let mut want = ImpalaGrads::default();
    let want_stats = impala_loss(&config, &input, &mut want).unwrap();
    let mut want_logits = vec![0.0; ROWS * ACTIONS];
    case.distribution.logp_grad(logits, actions, &want.logp, &mut want_logits).unwrap();
    case.distribution.entropy_grad(logits, &want.entropy, &mut want_logits).unwrap();

    assert_eq!(stats.number("total_loss"), Some(want_stats.total_loss));
    assert_eq!(grads.values[..ROWS], want.values);
    assert_eq!(grads.logits[..ROWS * ACTIONS], want_logits);
}

#[test]
fn what_follows_the_last_step_gets_no_gradient() {
    let (_, grads) = Case::with_ends().loss(ImpalaConfig::default());
    assert_eq!(grads.logits.len(), (STEPS + 1) * COLUMNS * ACTIONS);
    assert_eq!(grads.values[ROWS..], [0.0; COLUMNS]);
    assert_eq!(grads.logits[ROWS * ACTIONS..], [0.0; COLUMNS * ACTIONS]);
}

#[test]
fn logits_of_the_steps_alone_give_the_same_gradients() {
    let mut case = Case::with_ends();
    let (stats, all) = case.loss(ImpalaConfig::default());
    case.logits.truncate(ROWS * ACTIONS);
    let (stats_of_steps, grads) = case.loss(ImpalaConfig::default());
    assert_eq!(stats, stats_of_steps);
    assert_eq!((&grads.logits[..], &grads.values[..]), (&all.logits[..ROWS * ACTIONS], &all.values[..ROWS]));
}

#[test]
fn the_value_after_a_truncation_counts_and_after_a_termination_does_not() {
    let case = Case::with_ends();
    let (_, grads) = case.loss(ImpalaConfig::default());
    let gradient_with = |change: &dyn Fn(&mut Case)| {
        let mut changed = Case::with_ends();
        change(&mut changed);
        changed.loss(ImpalaConfig::default()).1
    };
    let other_final = gradient_with(&|case| case.final_values[1] += 1.0);
    assert_ne!(values_gradient(2, 1, &other_final), values_gradient(2, 1, &grads));
    assert_eq!(values_gradient(2, 0, &other_final), values_gradient(2, 0, &grads));
    // Column 2 was truncated at the last step: what the next episode is worth is nothing to it.
    let other_next = gradient_with(&|case| case.values[ROWS + 2] += 1.0);
    assert_eq!(values_gradient(STEPS - 1, 2, &other_next), values_gradient(STEPS - 1, 2, &grads));
    let other_next = gradient_with(&|case| case.values[ROWS + 1] += 1.0);
    assert_ne!(values_gradient(STEPS - 1, 1, &other_next), values_gradient(STEPS - 1, 1, &grads));
    // Column 0 terminated at step 1.
    let other_episode = gradient_with(&|case| case.values[2 * COLUMNS] += 1.0);
    assert_eq!(values_gradient(1, 0, &other_episode), values_gradient(1, 0, &grads));
}

#[test]
fn dropping_the_last_step_leaves_it_without_gradient() {
    let (_, grads) = Case::with_ends().loss(ImpalaConfig { vtrace_drop_last_ts: true, ..ImpalaConfig::default() });
    assert_eq!(grads.values[ROWS - COLUMNS..], [0.0; 2 * COLUMNS]);
    assert_eq!(grads.logits[(ROWS - COLUMNS) * ACTIONS..], [0.0; 2 * COLUMNS * ACTIONS]);
    assert!(grads.values[..ROWS - COLUMNS].iter().all(|gradient| *gradient != 0.0));
}

#[test]
fn the_entropy_coefficient_follows_its_schedule() {
    let case = Case::without_ends();
    let entropy_coeff = Schedule::linear_to_zero(0.5, 100.0).unwrap();
    let mut impala = Impala::new(ImpalaConfig { entropy_coeff, ..ImpalaConfig::default() }).unwrap();
    let mut coeff_at = |env_steps: u64| {
        let inputs = LossInputs { env_steps, ..case.inputs() };
        impala.loss(&case.batch, &inputs, &mut OutputGrads::default()).unwrap().number("entropy_coeff")
    };
    assert_eq!((coeff_at(0), coeff_at(50), coeff_at(1000)), (Some(0.5), Some(0.25), Some(0.0)));
}

#[test]
fn the_same_batch_gives_the_same_bits_whatever_came_before() {
    let (first, second) = (Case::with_ends(), Case::without_ends());
    let mut impala = Impala::new(ImpalaConfig::default()).unwrap();
    let mut grads = OutputGrads::default();
    let stats = impala.loss(&first.batch, &first.inputs(), &mut grads).unwrap();
    impala.loss(&second.batch, &second.inputs(), &mut OutputGrads::default()).unwrap();
    let mut again = OutputGrads { logits: vec![7.0; 100], values: vec![7.0; 100] };
    assert_eq!(impala.loss(&first.batch, &first.inputs(), &mut again).unwrap(), stats);
    assert_eq!((again.logits, again.values), (grads.logits, grads.values));
}

#[test]
fn a_steady_run_works_in_the_same_memory() {
    let case = Case::with_ends();
    let mut impala = Impala::new(ImpalaConfig::default()).unwrap();
    let mut grads = OutputGrads::default();
    let mut buffers = || {
        impala.loss(&case.batch, &case.inputs(), &mut grads).unwrap();
        let Impala { batch, off_policy, grads: inner, .. } = &impala;
        let vtrace = &inner.vtrace;
        let [kl, weights] = off_policy.buffers();
        [
            &batch.logp,
            &batch.entropy,
            &batch.ends.rewards,
            &batch.ends.discounts,
            &inner.logp,
            &inner.entropy,
            &inner.values,
            &vtrace.rhos,
            &vtrace.vs,
            &vtrace.pg_advantages,
            &grads.logits,
            &grads.values,
            kl,
            weights,
        ]
        .map(|buffer| (buffer.as_ptr(), buffer.capacity()))
    };
    assert_eq!(buffers(), buffers());
}

#[test]
fn a_loss_that_is_not_finite_names_the_number_and_its_place() {
    let mut case = Case::without_ends();
    case.values[2 * COLUMNS + 1] = f32::NAN;
    let error = case.error(&case.inputs());
    assert!(error.is_non_finite());
    assert!(error.to_string().contains("value is NaN at step 2, column 1"), "{error}");

    let mut case = Case::without_ends();
    case.logits[ACTIONS] = f32::NAN;
    let error = case.error(&case.inputs()).to_string();
    assert!(error.contains("log-probability is NaN at step 0, column 1"), "{error}");

    let mut case = Case::with_ends();
    case.final_values[0] = f32::INFINITY;
    let error = case.error(&case.inputs()).to_string();
    assert!(error.contains("value of a final observation, is inf at step 3, column 2"), "{error}");
}

#[test]
fn slices_that_do_not_fit_the_batch_are_named() {
    let case = Case::with_ends();
    let inputs = case.inputs();
    let wrong = case.error(&LossInputs { logits: &case.logits[1..], ..inputs }).to_string();
    assert!(wrong.starts_with("logits has 29 elements where [steps, columns, dist_len] = [4, 3, 2]"), "{wrong}");
    let wrong = case.error(&LossInputs { values: &case.values[..ROWS], ..inputs }).to_string();
    assert_eq!(wrong, "values has 12 elements where [steps, columns] = [5, 3] needs 15");
    let wrong = case.error(&LossInputs { final_values: &[], ..inputs }).to_string();
    assert!(wrong.starts_with("final_values has 0 elements"), "{wrong}");
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_reason() {
    let refusal = |change: &dyn Fn(&mut ImpalaConfig)| {
        let mut config = ImpalaConfig::default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    assert_eq!(
        refusal(&|config| config.gamma = 1.01),
        "gamma is 1.01; it must be from 0 to 1, or returns grow without bound"
    );
    assert!(refusal(&|config| config.gamma = f64::NAN).starts_with("gamma"));
    assert!(refusal(&|config| config.vtrace_lambda = -0.1).starts_with("vtrace_lambda"));
    assert!(refusal(&|config| config.vf_loss_coeff = -1.0).starts_with("vf_loss_coeff"));
    let negative_later = Schedule::piecewise_linear([(0.0, 0.01), (10.0, -0.01)]).unwrap();
    assert!(refusal(&|config| config.entropy_coeff = negative_later.clone()).starts_with("entropy_coeff is -0.01"));
    assert!(refusal(&|config| config.entropy_coeff = Schedule::Constant(f64::NAN)).starts_with("entropy_coeff"));
    assert!(refusal(&|config| config.vtrace_clip_rho_threshold = Some(-1.0)).starts_with("vtrace_clip_rho"));
    assert!(refusal(&|config| config.vtrace_clip_pg_rho_threshold = Some(f64::INFINITY)).contains("none turns"));
    assert!(ImpalaConfig::default().check().is_ok());
}

#[test]
fn a_config_file_has_rllibs_names_and_unknown_ones_are_refused() {
    let read = |text: &str| serde_json::from_str::<ImpalaConfig>(text);
    let config = read(r#"{"gamma": 0.95, "entropy_coeff": [[0, 0.01], [1000, 0]], "vtrace_drop_last_ts": true}"#);
    let entropy_coeff = Schedule::linear_to_zero(0.01, 1000.0).unwrap();
    let want = ImpalaConfig { gamma: 0.95, entropy_coeff, vtrace_drop_last_ts: true, ..ImpalaConfig::default() };
    assert_eq!(config.unwrap(), want);
    assert!(read(r#"{"vtrace_drop_last": true}"#).is_err());
}
