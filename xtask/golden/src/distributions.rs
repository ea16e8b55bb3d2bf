//! Runner of `distributions.json`: RLlib's action distributions with their gradients, in f64.

use anyhow::{Context, Result, ensure};
use pronk_policy::categorical;
use serde_json::Value;

use crate::json::{array_at, floats, floats_at, name_of, section, str_at, usizes_at};
use crate::{Case, Recorder};

/// Both sides compute in f64 and differ by rounding alone.
const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "cases").iter().enumerate() {
        let name = name_of(entry, index);
        let stated = str_at(entry, "kind").unwrap_or("without kind");
        let kind = format!("cases/{stated}");
        match stated {
            "categorical" => r.case(&kind, name, |c| categorical_rows(entry, c)),
            _ => r.no_runner(&kind, name, format!("there is no distribution {stated} yet")),
        }
    }
}

fn categorical_rows(entry: &Value, c: &mut Case) -> Result<()> {
    let (p, q) = (rows_at(entry, "inputs")?, rows_at(entry, "other_inputs")?);
    let actions = usizes_at(entry, "actions")?;
    ensure!(p.len() == q.len() && p.len() == actions.len(), "rows differ in number");
    for (row, ((p, q), &action)) in p.iter().zip(&q).zip(&actions).enumerate() {
        ensure!(p.len() == q.len(), "row {row}: the two distributions differ in length");
        ensure!(action < p.len(), "row {row}: there is no action {action}");
    }

    let each = |f: &dyn Fn(usize) -> f64| (0..p.len()).map(f).collect::<Vec<_>>();
    let mut compare = |what: &str, got: Vec<f64>| -> Result<()> {
        c.close_all(what, &got, &floats_at(entry, what)?, TOLERANCE);
        Ok(())
    };
    compare("logp", each(&|row| categorical::logp(&p[row], actions[row])))?;
    compare("entropy", each(&|row| categorical::entropy(&p[row])))?;
    compare("kl_self_other", each(&|row| categorical::kl(&p[row], &q[row])))?;

    let gradient = |add: &dyn Fn(usize, &mut [f64])| {
        let grad_of = |row: usize| {
            let mut grad = vec![0.0; p[row].len()];
            add(row, &mut grad);
            grad
        };
        (0..p.len()).flat_map(grad_of).collect::<Vec<_>>()
    };
    compare("grad_sum_logp", gradient(&|row, grad| categorical::logp_grad(&p[row], actions[row], 1.0, grad)))?;
    compare("grad_sum_entropy", gradient(&|row, grad| categorical::entropy_grad(&p[row], 1.0, grad)))?;
    compare("grad_sum_kl", gradient(&|row, grad| categorical::kl_grad_p(&p[row], &q[row], 1.0, grad)))?;

    let modes: Vec<_> = p.iter().map(|p| categorical::mode(p)).collect();
    c.equal("deterministic", modes, usizes_at(entry, "deterministic")?);
    Ok(())
}

fn rows_at(entry: &Value, path: &str) -> Result<Vec<Vec<f64>>> {
    let rows = array_at(entry, path)?.iter().map(floats).collect::<Result<_>>();
    rows.with_context(|| format!("in `{path}`"))
}
