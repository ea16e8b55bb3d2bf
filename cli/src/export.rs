//! `pronk export`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::{ValueEnum, ValueHint};
use pronk::Checkpoint;
use pronk::metrics::write_whole;
use pronk::policy::{ObsNormalizer, ParamLayout, Params};

use crate::run_dir::RunDir;
use crate::unusable;

/// Write the policy of a run for other programs
#[derive(clap::Args)]
#[command(after_help = "\
onnx: the whole policy, from raw observations to actions, for ONNX Runtime and others.
safetensors: the weights by name, for PyTorch and others, and obs.mean, obs.std and others if the run normalised \
its observations; policy/README.md lists them.")]
pub(crate) struct Export {
    /// Folder of the run, also while it trains; of a folder of runs the newest
    #[arg(value_hint = ValueHint::DirPath)]
    run: PathBuf,
    /// The best policy of the run's evaluations, instead of the newest
    #[arg(long)]
    best: bool,
    /// Which policy, if the run has several
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Onnx)]
    format: Format,
    /// The file [default: policy.onnx or policy.safetensors in the folder of the run, NAME instead of policy
    /// with --policy, and best-… with --best]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Onnx,
    Safetensors,
}

impl Export {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let run = RunDir::find(&self.run).map_err(unusable)?;
        let checkpoint = self.checkpoint(&run)?;
        let (end, bytes) = match self.format {
            Format::Onnx => ("onnx", checkpoint.policy()?.to_onnx()?),
            Format::Safetensors => ("safetensors", weights(&checkpoint)?),
        };
        let out = self.out.unwrap_or_else(|| {
            let (best, name) = (if self.best { "best-" } else { "" }, self.policy.as_deref().unwrap_or("policy"));
            run.path.join(format!("{best}{name}.{end}"))
        });
        write_whole(&out, &bytes).with_context(|| format!("cannot write {}", out.display()))?;
        say!("{}", out.display());
        Ok(ExitCode::SUCCESS)
    }

    /// The policy that is meant.
    fn checkpoint(&self, run: &RunDir) -> Result<Checkpoint> {
        let mut checkpoints = if self.best { run.best_checkpoints() } else { run.checkpoints() }?;
        let names: Vec<String> = checkpoints.keys().map(|name| format!("`{name}`")).collect();
        let found = match &self.policy {
            Some(name) => checkpoints.remove(name.as_str()),
            None if names.len() == 1 => checkpoints.pop_first().map(|(_, only)| only),
            None => None,
        };
        found.ok_or_else(|| {
            let (run, names) = (run.path.display(), names.join(", "));
            unusable(match &self.policy {
                Some(name) => anyhow!("{run} has no policy `{name}`; it has {names}"),
                None => anyhow!("name a policy of {run} with --policy: it has {names}"),
            })
        })
    }
}

/// The weights, and what observations are normalised by, under the names that the ONNX model has for it.
fn weights(checkpoint: &Checkpoint) -> Result<Vec<u8>> {
    let params = &checkpoint.state.params;
    let Some(ObsNormalizer { mean, std, clip }) = checkpoint.obs_normalizer() else {
        return Ok(params.to_safetensors(&BTreeMap::new()));
    };
    // A mean is the sum of two floats, so that large numbers that hardly vary keep their digits.
    let rounded: Vec<f32> = mean.iter().map(|&mean| mean as f32).collect();
    let rest = mean.iter().zip(&rounded).map(|(mean, &rounded)| (mean - f64::from(rounded)) as f32).collect();
    let std = std.iter().map(|&std| (std as f32).max(f32::MIN_POSITIVE)).collect();
    let of_obs = [("obs.mean", rounded), ("obs.mean.rest", rest), ("obs.std", std), ("obs.clip", vec![clip])];

    let entries = params.layout().entries().iter().map(|entry| (entry.name.as_str(), entry.shape.clone()));
    let shapes = of_obs.iter().map(|(name, values)| (*name, vec![values.len()]));
    let layout = ParamLayout::new(entries.chain(shapes));
    layout.check_names()?;
    let mut all = Params::zeros(Arc::new(layout));
    let (weights, added) = all.values_mut().split_at_mut(params.values().len());
    weights.copy_from_slice(params.values());
    added.copy_from_slice(&of_obs.map(|(_, values)| values).concat());
    Ok(all.to_safetensors(&BTreeMap::new()))
}
