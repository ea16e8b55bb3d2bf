//! Runner of `timers_mlagents.json`: ML-Agents' hierarchical timers, driven by a scripted clock.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use pronk_metrics::{RootTime, ScopeId, TimerTree, TreeClock, Work};
use serde_json::Value;

use crate::json::{self, name_of, section};
use crate::{Case, Recorder};

/// Totals are sums of the same differences in the same order.
const TOLERANCE: f64 = 1e-12;

/// What the stubbed interpreter of the original wrote.
const METADATA: [(&str, &str); 2] = [("python_version", "test-version"), ("command_line_arguments", "prog --flag x y")];

pub(crate) fn run(file: &Value, r: &mut Recorder) {
    for (index, entry) in section(file, "scripts").iter().enumerate() {
        r.case("script", name_of(entry, index), |c| script(entry, c));
    }
}

fn script(entry: &Value, c: &mut Case) -> Result<()> {
    let mut stacks = Stacks::default();
    for (index, op) in json::array_at(entry, "ops")?.iter().enumerate() {
        stacks.apply(op, index, c).with_context(|| format!("op {index}"))?;
    }
    Ok(())
}

#[derive(Clone, Default)]
struct Scripted(Rc<Cell<(f64, f64)>>);

impl TreeClock for Scripted {
    fn monotonic_secs(&self) -> f64 {
        self.0.get().0
    }

    fn unix_secs(&self) -> f64 {
        self.0.get().1
    }
}

/// A tree and its open scopes, the innermost one last.
struct Stack {
    tree: TimerTree<Scripted>,
    open: Vec<ScopeId>,
}

#[derive(Default)]
struct Stacks {
    clock: Scripted,
    by_name: HashMap<String, Stack>,
}

impl Stacks {
    fn apply(&mut self, op: &Value, index: usize, c: &mut Case) -> Result<()> {
        self.clock.0.set((json::number_at(op, "perf")?, json::number_at(op, "wall")?));
        let name = json::str_at(op, "stack")?;
        let kind = json::str_at(op, "op")?;
        match kind {
            "new" => {
                let tree = TimerTree::with_clock(self.clock.clone(), METADATA);
                self.by_name.insert(name.to_owned(), Stack { tree, open: Vec::new() });
                return Ok(());
            }
            "merge" | "merge_gauges" => return self.merge(kind, name, op),
            _ => {}
        }
        let stack = self.by_name.get_mut(name).with_context(|| format!("no stack `{name}`"))?;
        match kind {
            "enter" => stack.open.push(stack.tree.enter(json::str_at(op, "name")?)),
            "exit" => stack.tree.exit(stack.open.pop().context("no scope is open")?),
            "gauge" => stack.tree.set_gauge(json::str_at(op, "name")?, json::number_at(op, "value")?),
            "meta" => stack.tree.add_metadata(json::str_at(op, "key")?, json::str_at(op, "value")?),
            "reset" => stack.tree.reset(),
            "tree" => compare(&stack.tree.tree(), json::get(op, "expected")?, &format!("op {index}: tree"), c),
            _ => bail!("unknown op `{kind}`"),
        }
        Ok(())
    }

    fn merge(&mut self, kind: &str, name: &str, op: &Value) -> Result<()> {
        let from = json::str_at(op, "from")?;
        // Taken out meanwhile: both trees are written to.
        let mut source = self.by_name.remove(from).with_context(|| format!("no stack `{from}`"))?;
        let target = self.by_name.get_mut(name).with_context(|| format!("no stack `{name}`"))?;
        if kind == "merge_gauges" {
            target.tree.merge_gauges(&source.tree);
        } else {
            let root_name = json::optional(op, "root_name").and_then(Value::as_str);
            let work = if json::bool_at(op, "is_parallel")? { Work::Parallel } else { Work::Serial };
            let root_time = match json::str_at(op, "via")? {
                "root" => RootTime::Raw,
                "get_root" => RootTime::Refreshed,
                via => bail!("unknown `via`: `{via}`"),
            };
            target.tree.merge(&mut source.tree, root_name, work, root_time);
        }
        self.by_name.insert(from.to_owned(), source);
        Ok(())
    }
}

/// Objects with the same keys in the same order, decimals to the tolerance, all else equal.
fn compare(got: &Value, want: &Value, at: &str, c: &mut Case) {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            c.equal(format!("{at}: keys"), keys(got), keys(want));
            for (key, want) in want {
                compare(got.get(key).unwrap_or(&Value::Null), want, &format!("{at}.{key}"), c);
            }
        }
        (Value::Number(got), Value::Number(want)) if want.is_f64() => {
            c.close(at, got.as_f64().unwrap_or(f64::NAN), want.as_f64().unwrap_or(f64::NAN), TOLERANCE);
        }
        _ => c.equal(at, got, want),
    }
}
