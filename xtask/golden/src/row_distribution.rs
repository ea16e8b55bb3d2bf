//! The distributions of the files, one row at a time.

use anyhow::{Result, bail};
use pronk_policy::categorical;
use serde_json::Value;

use crate::json::{str_at, usize_at};

/// A family of distributions as a case states it.
pub(crate) enum RowDistribution {
    Categorical { n: usize },
}

impl RowDistribution {
    pub(crate) fn of(entry: &Value) -> Result<Self> {
        match str_at(entry, "kind")? {
            "categorical" => Ok(Self::Categorical { n: usize_at(entry, "A")? }),
            kind => bail!("there is no {kind} distribution"),
        }
    }

    /// How many numbers describe one.
    pub(crate) fn dist_len(&self) -> usize {
        match self {
            Self::Categorical { n } => *n,
        }
    }

    /// How many numbers an action is.
    pub(crate) fn act_len(&self) -> usize {
        match self {
            Self::Categorical { .. } => 1,
        }
    }

    /// The log-probability of each row's action.
    pub(crate) fn logps(&self, inputs: &[f64], actions: &[f64]) -> Vec<f64> {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.act_len()));
        rows.map(|(row, action)| self.logp(row, action)).collect()
    }

    pub(crate) fn logp(&self, row: &[f64], action: &[f64]) -> f64 {
        match self {
            Self::Categorical { .. } => categorical::logp(row, action[0] as usize),
        }
    }

    pub(crate) fn entropy(&self, row: &[f64]) -> f64 {
        match self {
            Self::Categorical { .. } => categorical::entropy(row),
        }
    }

    pub(crate) fn kl(&self, p: &[f64], q: &[f64]) -> f64 {
        match self {
            Self::Categorical { .. } => categorical::kl(p, q),
        }
    }

    pub(crate) fn logp_grad(&self, row: &[f64], action: &[f64], weight: f64, grad: &mut [f64]) {
        match self {
            Self::Categorical { .. } => categorical::logp_grad(row, action[0] as usize, weight, grad),
        }
    }

    pub(crate) fn entropy_grad(&self, row: &[f64], weight: f64, grad: &mut [f64]) {
        match self {
            Self::Categorical { .. } => categorical::entropy_grad(row, weight, grad),
        }
    }

    pub(crate) fn kl_grad_q(&self, p: &[f64], q: &[f64], weight: f64, grad: &mut [f64]) {
        match self {
            Self::Categorical { .. } => categorical::kl_grad_q(p, q, weight, grad),
        }
    }
}
