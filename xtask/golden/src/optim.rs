//! Runner of `optim.json`: PyTorch's optimisers and gradient clipping, and TensorFlow 1's RMSProp.

use anyhow::{Context, Result, bail};
use pronk_learner::{
    Adam, AdamConfig, Optimizer, RmsProp, RmsPropConfig, RmsPropForm, Sgd, StepOptions, clip_global_norm,
};
use serde_json::Value;

use crate::json::{self, floats_at, name_of, number_at, section, str_at};
use crate::{Case, Recorder};

const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "cases").iter().enumerate() {
        let name = name_of(entry, index);
        let stated = str_at(entry, "kind").unwrap_or("without kind");
        let kind = format!("cases/{stated}");
        match stated {
            "adam" | "rmsprop" | "rmsprop_tf" | "sgd" => r.case(&kind, name, |c| training(entry, c)),
            _ => r.no_runner(&kind, name, format!("there is no optimiser {stated}")),
        }
    }
}

/// Clips and steps, with all tensors of the network in one flat vector.
fn training(entry: &Value, c: &mut Case) -> Result<()> {
    let mut params = floats_at(entry, "initial")?;
    let mut optimizer = optimizer(entry, params.len())?;
    let lr = number_at(entry, "lr")?;
    let grad_clip = json::optional_number_at(entry, "grad_clip")?;
    for (t, step) in json::array_at(entry, "steps")?.iter().enumerate() {
        let grads = floats_at(step, "grads")?;
        let norm = clip_global_norm(&grads, grad_clip);
        let at = |what: &str| format!("step {t}: {what}");
        c.close(at("norm_before_clip"), norm.true_norm, number_at(step, "norm_before_clip")?, TOLERANCE);
        c.close(at("grad_gnorm_reported"), norm.clipped_norm, number_at(step, "grad_gnorm_reported")?, TOLERANCE);
        let clipped: Vec<f64> = grads.iter().map(|grad| grad * norm.grad_scale).collect();
        c.close_all(at("clipped_grads"), &clipped, &floats_at(step, "clipped_grads")?, TOLERANCE);
        optimizer.step(&mut params, &grads, StepOptions { lr, grad_scale: norm.grad_scale })?;
        c.close_all(at("params_after"), &params, &floats_at(step, "params_after")?, TOLERANCE);
    }
    Ok(())
}

fn optimizer(entry: &Value, n_params: usize) -> Result<Box<dyn Optimizer<f64>>> {
    let kind = str_at(entry, "kind")?;
    let settings = json::get(entry, "settings")?.as_object().context("`settings` is not an object")?;
    // PyTorch's and TensorFlow's own defaults, for settings that a case leaves out.
    let mut adam = AdamConfig { beta1: 0.9, beta2: 0.999, eps: 1e-8 };
    let mut rmsprop = match kind {
        "rmsprop_tf" => {
            RmsPropConfig { decay: 0.9, momentum: 0.0, eps: 1e-10, weight_decay: 0.0, form: RmsPropForm::EpsInsideRoot }
        }
        _ => RmsPropConfig {
            decay: 0.99,
            momentum: 0.0,
            eps: 1e-8,
            weight_decay: 0.0,
            form: RmsPropForm::EpsOutsideRoot,
        },
    };
    for (name, value) in settings {
        let number = || json::number(value).with_context(|| format!("setting {name}"));
        match (kind, name.as_str()) {
            ("adam", "eps") => adam.eps = number()?,
            ("adam", "betas") => [adam.beta1, adam.beta2] = pair(value)?,
            ("rmsprop", "alpha") | ("rmsprop_tf", "decay") => rmsprop.decay = number()?,
            ("rmsprop" | "rmsprop_tf", "eps") => rmsprop.eps = number()?,
            ("rmsprop" | "rmsprop_tf", "momentum") => rmsprop.momentum = number()?,
            ("rmsprop" | "rmsprop_tf", "weight_decay") => rmsprop.weight_decay = number()?,
            _ => bail!("pronk's {kind} has no setting {name} (here {value})"),
        }
    }
    Ok(match kind {
        "adam" => Box::new(Adam::new(n_params, adam)?),
        "sgd" => Box::new(Sgd::new(n_params)),
        _ => Box::new(RmsProp::new(n_params, rmsprop)?),
    })
}

fn pair(value: &Value) -> Result<[f64; 2]> {
    let numbers = json::floats(value)?;
    <[f64; 2]>::try_from(numbers).map_err(|numbers| anyhow::anyhow!("two numbers are needed, got {numbers:?}"))
}
