//! `pronk export`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{ValueEnum, ValueHint};

use crate::run_dir::RunDir;
use crate::unusable;

/// Write the policy of a run for other programs
#[derive(clap::Args)]
#[command(after_help = "\
onnx: the whole policy, from raw observations to actions, for ONNX Runtime and others.
safetensors: the weights alone, by name, for PyTorch and others.")]
pub(crate) struct Export {
    /// Folder of the run, also while it trains; of a folder of runs the newest
    #[arg(value_hint = ValueHint::DirPath)]
    run: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Onnx)]
    format: Format,
    /// The file [default: policy.onnx or policy.safetensors in the folder of the run]
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
        let checkpoint = run.checkpoint()?;
        let (name, bytes) = match self.format {
            Format::Onnx => ("policy.onnx", checkpoint.policy()?.to_onnx()?),
            Format::Safetensors => ("policy.safetensors", checkpoint.state.params.to_safetensors(&BTreeMap::new())),
        };
        let out = self.out.unwrap_or_else(|| run.path.join(name));
        fs::write(&out, bytes).with_context(|| format!("cannot write {}", out.display()))?;
        say!("{}", out.display());
        Ok(ExitCode::SUCCESS)
    }
}
