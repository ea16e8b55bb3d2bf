//! Runner of `distributions.json`: RLlib's action distributions with their gradients, in f64.

use anyhow::{Context, Result, ensure};
use pronk_policy::{Gaussian, LogStdRange, categorical, diag_gaussian};
use serde_json::Value;

use crate::json::{array_at, floats, floats_at, name_of, section, str_at, usizes_at};
use crate::row_distribution::UNBOUNDED;
use crate::{Case, Recorder};

/// Both sides compute in f64 and differ by rounding alone.
const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "cases").iter().enumerate() {
        let name = name_of(entry, index);
        let stated = str_at(entry, "kind").unwrap_or("without kind");
        let kind = format!("cases/{stated}");
        match stated {
            "categorical" => r.case(&kind, name, |c| categorical_rows(entry, &[logits_at(entry)?], c)),
            "multi" => r.case(&kind, name, |c| categorical_rows(entry, &usizes_at(entry, "nvec")?, c)),
            "gaussian" => r.case(&kind, name, |c| gaussian_rows(entry, c)),
            _ => r.no_runner(&kind, name, format!("there is no distribution {stated} yet")),
        }
    }
}

/// What pronk says of one row. Actions and modes are numbers, or indices written as numbers.
struct Formulas<'a> {
    act_len: usize,
    logp: &'a dyn Fn(&[f64], &[f64]) -> f64,
    entropy: &'a dyn Fn(&[f64]) -> f64,
    kl: &'a dyn Fn(&[f64], &[f64]) -> f64,
    mode: &'a dyn Fn(&[f64]) -> Vec<f64>,
    logp_grad: GradOfTwo<'a>,
    entropy_grad: &'a dyn Fn(&[f64], &mut [f64]),
    kl_grad_p: GradOfTwo<'a>,
}

/// Adds a gradient that follows from a row and an action, or from two rows.
type GradOfTwo<'a> = &'a dyn Fn(&[f64], &[f64], &mut [f64]);

fn categorical_rows(entry: &Value, nvec: &[usize], c: &mut Case) -> Result<()> {
    usizes_at(entry, "actions")?;
    let logits = nvec.iter().sum::<usize>();
    let is_whole = |row: &Vec<f64>| row.len() == logits;
    ensure!(rows_at(entry, "inputs")?.iter().all(is_whole), "rows need {logits} logits, one per action of each choice");
    let indices = |action: &[f64]| action.iter().map(|&index| index as usize).collect::<Vec<_>>();
    let formulas = Formulas {
        act_len: nvec.len(),
        logp: &|p, action| categorical::logp(nvec, p, &indices(action)),
        entropy: &|p| categorical::entropy(nvec, p),
        kl: &|p, q| categorical::kl(nvec, p, q),
        mode: &|p| categorical::mode(nvec, p).into_iter().map(|index| index as f64).collect(),
        logp_grad: &|p, action, grad| categorical::logp_grad(nvec, p, &indices(action), 1.0, grad),
        entropy_grad: &|p, grad| categorical::entropy_grad(nvec, p, 1.0, grad),
        kl_grad_p: &|p, q, grad| categorical::kl_grad_p(nvec, p, q, 1.0, grad),
    };
    compare_rows(entry, c, &formulas)
}

/// The number of logits of a row.
fn logits_at(entry: &Value) -> Result<usize> {
    Ok(rows_at(entry, "inputs")?.first().map_or(0, Vec::len))
}

fn gaussian_rows(entry: &Value, c: &mut Case) -> Result<()> {
    let inputs = rows_at(entry, "inputs")?;
    let numbers = inputs.first().map_or(0, |row| row.len() / 2);
    ensure!(inputs.iter().all(|row| row.len() == 2 * numbers), "rows need a mean and a log_std for each number");
    let formulas = Formulas {
        act_len: numbers,
        logp: &|p, action| diag_gaussian::logp(UNBOUNDED, p, action),
        entropy: &|p| diag_gaussian::entropy(LogStdRange::UNBOUNDED, p),
        kl: &|p, q| diag_gaussian::kl(LogStdRange::UNBOUNDED, p, q),
        mode: &|p| {
            let mut action = vec![0.0; numbers];
            diag_gaussian::mode(Gaussian::Diagonal, p, &mut action);
            action
        },
        logp_grad: &|p, action, grad| diag_gaussian::logp_grad(UNBOUNDED, p, action, 1.0, grad),
        entropy_grad: &|p, grad| diag_gaussian::entropy_grad(LogStdRange::UNBOUNDED, p, 1.0, grad),
        kl_grad_p: &|p, q, grad| diag_gaussian::kl_grad_p(LogStdRange::UNBOUNDED, p, q, 1.0, grad),
    };
    compare_rows(entry, c, &formulas)
}

fn compare_rows(entry: &Value, c: &mut Case, formulas: &Formulas<'_>) -> Result<()> {
    let (p, q) = (rows_at(entry, "inputs")?, rows_at(entry, "other_inputs")?);
    let actions = floats_at(entry, "actions")?;
    ensure!(p.len() == q.len() && actions.len() == p.len() * formulas.act_len, "rows differ in number");
    ensure!(p.iter().zip(&q).all(|(p, q)| p.len() == q.len()), "the two distributions differ in length");
    let action = |row: usize| &actions[row * formulas.act_len..][..formulas.act_len];

    let each = |f: &dyn Fn(usize) -> f64| (0..p.len()).map(f).collect::<Vec<_>>();
    let mut compare = |what: &str, got: Vec<f64>| -> Result<()> {
        c.close_all(what, &got, &floats_at(entry, what)?, TOLERANCE);
        Ok(())
    };
    compare("logp", each(&|row| (formulas.logp)(&p[row], action(row))))?;
    compare("entropy", each(&|row| (formulas.entropy)(&p[row])))?;
    compare("kl_self_other", each(&|row| (formulas.kl)(&p[row], &q[row])))?;

    let gradient = |add: &dyn Fn(usize, &mut [f64])| {
        let grad_of = |row: usize| {
            let mut grad = vec![0.0; p[row].len()];
            add(row, &mut grad);
            grad
        };
        (0..p.len()).flat_map(grad_of).collect::<Vec<_>>()
    };
    compare("grad_sum_logp", gradient(&|row, grad| (formulas.logp_grad)(&p[row], action(row), grad)))?;
    compare("grad_sum_entropy", gradient(&|row, grad| (formulas.entropy_grad)(&p[row], grad)))?;
    compare("grad_sum_kl", gradient(&|row, grad| (formulas.kl_grad_p)(&p[row], &q[row], grad)))?;

    let modes: Vec<_> = p.iter().flat_map(|p| (formulas.mode)(p)).collect();
    c.equal("deterministic", modes, floats_at(entry, "deterministic")?);
    Ok(())
}

fn rows_at(entry: &Value, path: &str) -> Result<Vec<Vec<f64>>> {
    let rows = array_at(entry, path)?.iter().map(floats).collect::<Result<_>>();
    rows.with_context(|| format!("in `{path}`"))
}
