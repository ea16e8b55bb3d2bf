//! The distributions of the files, one row at a time.

use anyhow::{Result, bail};
use pronk_policy::{Gaussian, GaussianConfig, LogStdRange, categorical, diag_gaussian};
use serde_json::Value;

use crate::json::{str_at, usize_at, usizes_at};

/// The Gaussian of the files.
pub(crate) const UNBOUNDED: GaussianConfig =
    GaussianConfig { gaussian: Gaussian::Diagonal, log_std_range: LogStdRange::UNBOUNDED };

/// A family of distributions as a case states it.
pub(crate) enum RowDistribution {
    Categorical { nvec: Vec<usize> },
    Gaussian { n: usize },
}

impl RowDistribution {
    pub(crate) fn of(entry: &Value) -> Result<Self> {
        match str_at(entry, "kind")? {
            "categorical" => Ok(Self::Categorical { nvec: vec![usize_at(entry, "A")?] }),
            "multi" => Ok(Self::Categorical { nvec: usizes_at(entry, "nvec")? }),
            "gaussian" => Ok(Self::Gaussian { n: usize_at(entry, "A")? }),
            kind => bail!("there is no {kind} distribution"),
        }
    }

    /// How many numbers describe one.
    pub(crate) fn dist_len(&self) -> usize {
        match self {
            Self::Categorical { nvec } => nvec.iter().sum(),
            Self::Gaussian { n } => 2 * n,
        }
    }

    /// How many numbers an action is.
    pub(crate) fn act_len(&self) -> usize {
        match self {
            Self::Categorical { nvec } => nvec.len(),
            Self::Gaussian { n } => *n,
        }
    }

    /// The log-probability of each row's action.
    pub(crate) fn logps(&self, inputs: &[f64], actions: &[f64]) -> Vec<f64> {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.act_len()));
        rows.map(|(row, action)| self.logp(row, action)).collect()
    }

    pub(crate) fn logp(&self, row: &[f64], action: &[f64]) -> f64 {
        match self {
            Self::Categorical { nvec } => categorical::logp(nvec, row, &indices(action)),
            Self::Gaussian { .. } => diag_gaussian::logp(UNBOUNDED, row, action),
        }
    }

    pub(crate) fn entropy(&self, row: &[f64]) -> f64 {
        match self {
            Self::Categorical { nvec } => categorical::entropy(nvec, row),
            Self::Gaussian { .. } => diag_gaussian::entropy(LogStdRange::UNBOUNDED, row),
        }
    }

    pub(crate) fn kl(&self, p: &[f64], q: &[f64]) -> f64 {
        match self {
            Self::Categorical { nvec } => categorical::kl(nvec, p, q),
            Self::Gaussian { .. } => diag_gaussian::kl(LogStdRange::UNBOUNDED, p, q),
        }
    }

    pub(crate) fn logp_grad(&self, row: &[f64], action: &[f64], weight: f64, grad: &mut [f64]) {
        match self {
            Self::Categorical { nvec } => categorical::logp_grad(nvec, row, &indices(action), weight, grad),
            Self::Gaussian { .. } => diag_gaussian::logp_grad(UNBOUNDED, row, action, weight, grad),
        }
    }

    pub(crate) fn entropy_grad(&self, row: &[f64], weight: f64, grad: &mut [f64]) {
        match self {
            Self::Categorical { nvec } => categorical::entropy_grad(nvec, row, weight, grad),
            Self::Gaussian { .. } => diag_gaussian::entropy_grad(LogStdRange::UNBOUNDED, row, weight, grad),
        }
    }

    pub(crate) fn kl_grad_q(&self, p: &[f64], q: &[f64], weight: f64, grad: &mut [f64]) {
        match self {
            Self::Categorical { nvec } => categorical::kl_grad_q(nvec, p, q, weight, grad),
            Self::Gaussian { .. } => diag_gaussian::kl_grad_q(LogStdRange::UNBOUNDED, p, q, weight, grad),
        }
    }
}

/// Indices that are written as numbers.
fn indices(action: &[f64]) -> Vec<usize> {
    action.iter().map(|&index| index as usize).collect()
}
