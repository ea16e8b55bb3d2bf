//! Every rule is red on a violation planted for it, and on nothing else.

#![allow(clippy::unwrap_used)]

use super::*;

/// A page that draws the layers of each room, and lists what to read.
const ARCHITECTURE: &str = "\
metrics/src  timer spans  what does a thread report?
```
buffer/src  inqueue
```
policy/src  space
  ops
```
rollout/src  env     what is an environment?
  vector  how do several step?
  worker run
```
learner/src  optim vtrace
  thread
```
envs/process/src  memory vector
```
src  config outqueue
  prometheus signals
  run trainer
```
## Read in this order
`src/trainer.rs`
";

/// A line of 111 columns.
const WIDE: &str = "# Changelog\n...............................................................................................................\n";

/// A line of 121 columns.
const WIDER: &str = "#öööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööö\n";

/// A house in which nothing is wrong; a plant replaces or adds files.
const TIDY_HOUSE: &[(&str, &str)] = &[
    ("README.md", "Run `cargo run --release --example cartpole`.\n"),
    (
        "Cargo.toml",
        "[workspace.dependencies]\ncandle-core = \"0.11\"\n\n[package]\nname = \"pronk\"\n\n[dependencies]\npronk-learner.workspace = true\npronk-rollout.workspace = true\n",
    ),
    ("ARCHITECTURE.md", ARCHITECTURE),
    ("src/lib.rs", "//! The facade.\n"),
    ("src/trainer.rs", "fn run() { loop { break; } }\n"),
    ("src/trainer/iteration.rs", "fn drain() { while let Some(x) = outqueue.try_take() { for y in x {} } }\n"),
    ("src/config.rs", ""),
    ("src/outqueue.rs", ""),
    ("src/prometheus.rs", ""),
    ("src/run.rs", ""),
    ("src/signals.rs", "fn wait() { while pressed() {} }\n"),
    ("src/prelude.rs", "pub use crate::{A, B, C, D, E, F, G, H, I, J, K, L};\n"),
    (
        "examples/cartpole.rs",
        "//! CartPole.\nstruct Args {\n    #[arg(long, allow_negative_numbers = true)]\n    goal: f64,\n    #[arg(long)]\n    envs: u64,\n}\nfn main() {}\n",
    ),
    ("model/README.md", "Every schedule.\n"),
    ("model/src/lib.rs", "//! Model.\n"),
    // Models are tests.
    ("rollout/src/models/hang.rs", "fn t() { thread::spawn(|| {}); }\n"),
    ("metrics/Cargo.toml", "[dependencies]\nserde.workspace = true\n"),
    ("metrics/README.md", "What a thread says. See `lib.rs`.\n"),
    ("metrics/src/lib.rs", "//! Metrics.\nmod spans;\npub struct Time;\n"),
    ("metrics/src/spans.rs", "use crate::Time;\npub struct Span(Time);\n"),
    ("metrics/src/timer.rs", ""),
    ("buffer/Cargo.toml", "[dependencies]\npronk-metrics.workspace = true\n"),
    ("buffer/README.md", "How data waits.\n"),
    ("buffer/src/lib.rs", "//! Buffer. Knows nothing of pronk_learner.\nuse pronk_metrics::Steps;\n"),
    ("buffer/src/inqueue.rs", ""),
    ("policy/Cargo.toml", "[dependencies]\ncandle-core.workspace = true\n"),
    ("policy/README.md", "Observations to actions.\n"),
    ("policy/src/lib.rs", "//! Policy.\nuse candle_core::Tensor;\n"),
    ("policy/src/space.rs", ""),
    ("policy/src/ops/tanh.rs", "fn f() { unsafe {} }\n"),
    ("envs/process/Cargo.toml", "[dependencies]\npronk-rollout.workspace = true\npronk-buffer.workspace = true\n"),
    ("envs/process/README.md", "Environments in processes.\n"),
    ("envs/process/src/memory.rs", "fn f() { unsafe {} }\n"),
    ("envs/process/src/vector.rs", ""),
    ("rollout/Cargo.toml", "[dependencies]\npronk-buffer.workspace = true\npronk-policy.workspace = true\n"),
    ("rollout/README.md", "How data is made.\n"),
    ("rollout/src/lib.rs", "//! Rollout.\nmod env;\nmod worker;\n"),
    // A page that re-exports is passed through, and tests may import what they like.
    ("rollout/src/env.rs", "mod spec;\nmod views;\npub use spec::Spec;\npub use views::Failure;\n"),
    ("rollout/src/env/spec.rs", "pub struct Spec;\n#[cfg(test)]\nmod tests {\n    use crate::worker::Worker;\n}\n"),
    ("rollout/src/env/views.rs", "use super::Spec;\npub struct Failure(Spec);\n"),
    ("rollout/src/worker.rs", "use crate::env::{self, Failure as Lost};\npub struct Worker(Lost);\n"),
    ("rollout/src/vector.rs", ""),
    ("rollout/src/run.rs", ""),
    ("rollout/src/worker/tests.rs", "fn t() { std::thread::spawn(|| {}); }\n"),
    ("soak/Cargo.toml", "[dependencies]\npronk.workspace = true\n"),
    ("groups/README.md", "Threads beside a run.\n"),
    ("groups/src/lib.rs", "//! Groups.\n"),
    ("hosts/README.md", "Workers elsewhere.\n"),
    ("hosts/src/lib.rs", "//! Hosts.\n"),
    ("hosts/zenoh/README.md", "Bytes between machines.\n"),
    // What crosses a network is in a plug-in.
    ("hosts/zenoh/src/lib.rs", "//! Zenoh.\nuse std::net::UdpSocket;\n"),
    ("learner/Cargo.toml", "[dependencies]\npronk-buffer = { workspace = true }\n"),
    ("learner/README.md", "Data to weights.\n"),
    ("learner/src/lib.rs", "//! Learner. It says \"unsafe\", `todo!` and `pub use x::*` in a comment only.\n"),
    ("learner/src/optim.rs", ""),
    ("learner/src/thread.rs", ""),
    ("learner/src/vtrace.rs", ""),
];

fn plant(path: &str, text: &str) -> Vec<Violation> {
    let mut files: Vec<(&str, &str)> = TIDY_HOUSE.to_vec();
    files.retain(|(other, _)| *other != path);
    files.push((path, text));
    violations(&Repo::from_files(&files))
}

/// (rule, planted file, its text, the line that breaks the rule)
const PLANTS: &[(&str, &str, &str, usize)] = &[
    ("room-edges", "rollout/Cargo.toml", "[dependencies]\nserde = \"1\"\npronk-learner.workspace = true\n", 3),
    ("room-edges", "learner/Cargo.toml", "[dev-dependencies]\npronk-rollout = { path = \"../rollout\" }\n", 2),
    ("room-edges", "buffer/Cargo.toml", "[target.'cfg(unix)'.dependencies]\npronk-policy.workspace = true\n", 2),
    ("room-edges", "policy/Cargo.toml", "[dependencies.pronk-metrics]\nworkspace = true\n", 1),
    ("room-edges", "xtask/golden/Cargo.toml", "[dependencies]\npronk.workspace = true\n", 2),
    ("no-circles", "rollout/src/env/spec.rs", "use super::views::Failure;\npub struct Spec(Failure);\n", 1),
    (
        "no-circles",
        "rollout/src/env/spec.rs",
        "// through the page\nuse crate::env::Failure;\npub struct Spec(Failure);\n",
        2,
    ),
    ("no-circles", "metrics/src/lib.rs", "//! Metrics.\nmod spans;\npub struct Time;\nfn now() -> spans::Span {}\n", 4),
    ("layers", "rollout/src/env/extra.rs", "pub struct Extra;\nfn f(worker: crate::worker::Reports) {}\n", 2),
    ("room-edges", "envs/process/Cargo.toml", "[dependencies]\npronk-learner.workspace = true\n", 2),
    ("room-edges", "rollout/Cargo.toml", "[dependencies]\npronk-env-process.workspace = true\n", 2),
    ("room-edges", "learner/src/thread.rs", "// pronk_rollout\nuse pronk_rollout::Env;\n", 2),
    ("room-edges", "metrics/src/timer.rs", "fn f() { pronk::Trainer::new(); }\n", 1),
    ("tensor-library", "metrics/src/lib.rs", "//! Metrics.\nuse ndarray::Array1;\n", 2),
    ("tensor-library", "learner/src/vtrace.rs", "use candle_core::Tensor;\n", 1),
    ("tensor-library", "metrics/Cargo.toml", "[dependencies]\nndarray = \"0.16\"\n", 2),
    ("tensor-library", "rollout/Cargo.toml", "[dependencies]\ncandle-nn.workspace = true\n", 2),
    ("no-sockets", "buffer/src/inqueue.rs", "use std::net::ToSocketAddrs;\n", 1),
    ("no-sockets", "hosts/src/lib.rs", "//! Hosts.\nuse std::net::ToSocketAddrs;\n", 2),
    ("no-sockets", "rollout/src/env.rs", "use std::{io, net::TcpStream};\n", 1),
    ("facade-threads", "src/outqueue.rs", "fn f() {\n    std::thread::Builder::new();\n}\n", 2),
    ("facade-threads", "src/prometheus/server.rs", "fn f() { std::thread::Builder::new(); }\n", 1),
    ("facade-loops", "src/prometheus/http.rs", "fn f() {\n    loop {}\n}\n", 2),
    ("facade-loops", "src/config.rs", "fn f() {\n    loop {}\n}\n", 2),
    ("facade-loops", "src/run.rs", "fn f() {\n    while true {}\n}\n", 2),
    ("facade-loops", "src/trainer/run.rs", "fn f() {\n    loop {}\n}\n", 2),
    ("facade-loops", "src/trainer/run.rs", "fn f() {\n    while let Ok(x) = inqueue.pop() {}\n}\n", 2),
    ("named-threads", "rollout/src/run/set.rs", "fn f() { std::thread::spawn(|| {}); }\n", 1),
    ("bounded-queues", "src/outqueue.rs", "fn f() { std::sync::mpsc::channel::<u8>(); }\n", 1),
    ("bounded-queues", "rollout/src/run/set.rs", "use crossbeam_channel::unbounded;\n", 1),
    (
        "negative-flags",
        "examples/own.rs",
        "struct Args {\n    #[arg(long, default_value_t = 1.0)]\n    goal: f64,\n}\n",
        2,
    ),
    ("negative-flags", "benches/end.rs", "struct Args {\n    #[arg(long)]\n    shifts: Option<Vec<i32>>,\n}\n", 2),
    ("unfinished", "policy/src/space.rs", "fn f() { todo!() }\n", 1),
    ("unfinished", "policy/src/space.rs", "fn f() { unimplemented!(\"x\") }\n", 1),
    ("unfinished", "policy/src/space.rs", "fn f() { dbg!(1); }\n", 1),
    ("unfinished", "policy/src/tests.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n", 2),
    ("unfinished", "policy/src/space.rs", "// FIXME: later\n", 1),
    ("unsafe", "learner/src/optim.rs", "fn f() {\n    unsafe { g() }\n}\n", 2),
    ("unsafe", "envs/process/src/vector.rs", "fn f() { unsafe { g() } }\n", 1),
    ("no-glob-export", "buffer/src/lib.rs", "//! Buffer.\npub use batch::*;\n", 2),
    ("no-glob-export", "src/prelude.rs", "pub use crate::{\n    a::*,\n};\n", 1),
    ("prelude-size", "src/prelude.rs", "pub use crate::{A, B, C, D, E, F, G, H, I, J, K, L};\npub use x::M;\n", 1),
    ("no-drawers", "learner/src/optim/utils.rs", "", 1),
    ("no-drawers", "tests/all/common/mod.rs", "", 1),
    ("no-drawers", "learner/src/lib.rs", "//! Learner.\nmod helpers {\n}\n", 2),
    ("crate-doc", "envs/gym/src/lib.rs", "mod env;\n", 1),
    ("room-readme", "policy/README.md", "\n", 1),
    ("prose-width", "CHANGELOG.md", WIDE, 2),
    ("script-width", "dashboard/src/page/page.js", WIDER, 1),
    ("script-width", "dashboard/src/page/page.css", WIDER, 1),
    ("script-width", "xtask/python/check.py", WIDER, 1),
    ("named-files", "README.md", "Text.\n`cargo run --example carpole`\n", 2),
    ("named-files", "metrics/README.md", "`lib.rs` and `clock.rs`\n", 1),
];

#[test]
fn a_tidy_house_has_no_violation() {
    let all = violations(&Repo::from_files(TIDY_HOUSE));
    let shown: Vec<String> = all.iter().map(Violation::to_string).collect();
    assert!(all.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn each_plant_breaks_its_rule_at_its_line_and_no_other() {
    for (rule, path, text, line) in PLANTS {
        let all = plant(path, text);
        let shown: Vec<String> = all.iter().map(Violation::to_string).collect();
        assert_eq!(all.len(), 1, "{rule} in {path}: {}", shown.join("\n"));
        assert_eq!(all[0].rule, *rule, "{}", shown[0]);
        let (found, at) = (&all[0].finding.path, all[0].finding.line);
        assert_eq!((found.as_str(), at), (*path, *line), "{}", shown[0]);
    }
}

#[test]
fn a_file_of_more_than_500_lines_is_too_long_but_not_its_tests() {
    let long = "\n".repeat(501);
    assert_eq!(plant("learner/src/thread.rs", &long)[0].rule, "file-length");
    assert!(plant("learner/src/thread/tests.rs", &long).is_empty());
    assert!(plant("learner/src/thread.rs", &"\n".repeat(500)).is_empty());
}

#[test]
fn the_picture_of_a_room_has_all_of_its_modules_once_and_none_that_is_gone() {
    for (old, new, line, what) in [
        ("  vector  how do several step?\n", "", 8, "lacks rollout/src/vector"),
        ("  worker run\n", "  worker run drawer\n", 10, "rollout/src/drawer is not there"),
        ("  worker run\n", "  worker run\n  run\n", 11, "rollout/src/run is in two layers"),
        ("rollout/src", "rolout/src", 1, "has no picture of the layers of rollout/src"),
    ] {
        let all = plant("ARCHITECTURE.md", &ARCHITECTURE.replacen(old, new, 1));
        let shown: Vec<String> = all.iter().map(Violation::to_string).collect();
        let [violation] = &all[..] else { panic!("{shown:?}") };
        assert_eq!((violation.rule, violation.finding.line), ("layers", line), "{shown:?}");
        assert!(shown[0].contains(what), "{shown:?}");
    }
    let all = plant("rollout/src/drawer.rs", "");
    assert!(all.len() == 1 && all[0].to_string().contains("lacks rollout/src/drawer.rs"));
    let swapped = ARCHITECTURE.replace("  vector  how do several step?\n  worker run\n", "  worker run\n  vector\n");
    assert!(plant("ARCHITECTURE.md", &swapped).is_empty(), "neither imports from the other");
}

#[test]
fn the_reading_list_has_at_most_six_files_and_700_lines() {
    let list = |names: &str| ARCHITECTURE.replace("`src/trainer.rs`", names);
    let is_broken = |text: &str| plant("ARCHITECTURE.md", text).iter().any(|v| v.rule == "reading-list");
    assert!(!is_broken(&list(&"`src/trainer.rs` ".repeat(6))));
    assert!(is_broken(&list(&"`src/trainer.rs` ".repeat(7))) && is_broken(&list("nothing")));
    let mut house = TIDY_HOUSE.to_vec();
    let (long, longer) = ("\n".repeat(400), "\n".repeat(401));
    let page = list("`learner/src/thread/a.rs` `learner/src/thread/b.rs`");
    house.retain(|(path, _)| *path != "ARCHITECTURE.md");
    house.extend([
        ("ARCHITECTURE.md", &*page),
        ("learner/src/thread/a.rs", &long),
        ("learner/src/thread/b.rs", &longer[..300]),
    ]);
    assert!(violations(&Repo::from_files(&house)).is_empty());
    *house.last_mut().unwrap() = ("learner/src/thread/b.rs", &longer[..301]);
    assert_eq!(violations(&Repo::from_files(&house))[0].rule, "reading-list");
}

#[test]
fn tables_code_and_addresses_of_links_may_be_wide_and_prose_may_not() {
    let wide = "word ".repeat(30);
    let narrow = [format!("| {wide} |\n```\n{wide}\n```\n"), format!("[a link](https://{})\n", "x".repeat(200))];
    for text in narrow {
        assert!(plant("docs/page.md", &text).is_empty(), "{text}");
    }
    for (path, text) in [
        ("docs/page.md", format!("{wide}\n")),
        ("docs/page.md", format!("[a link](https://x.y) {wide}\n")),
        ("src/run.rs", format!("    /// {wide}\nfn f() {{}}\n")),
    ] {
        let all = plant(path, &text);
        assert_eq!((all.len(), all[0].rule, all[0].finding.line), (1, "prose-width", 1), "{text}");
    }
    assert!(plant("src/run.rs", &format!("fn f() {{ g(\"{wide}\") }}\n")).is_empty());
}

#[test]
fn scripts_may_have_120_columns_and_the_files_of_uplot_any() {
    assert!(plant("xtask/python/check.py", &WIDER.replacen('#', "", 1)).is_empty());
    assert!(plant("metrics/src/reporter/html/uplot/uPlot.js", WIDER).is_empty());
}

#[test]
fn every_rule_has_a_plant() {
    for rule in RULES {
        let has_plant = PLANTS.iter().any(|(name, ..)| *name == rule.name);
        assert!(has_plant || ["file-length", "reading-list"].contains(&rule.name), "{}", rule.name);
    }
}

#[test]
fn a_violation_is_printed_with_file_line_rule_and_reason() {
    let shown = plant("learner/src/optim.rs", "unsafe fn f() {}")[0].to_string();
    assert!(shown.starts_with("learner/src/optim.rs:1: `unsafe`\n"), "{shown}");
    assert!(shown.contains("unsafe: unsafe code lives only"), "{shown}");
}

#[test]
fn this_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all = check(&root).unwrap();
    let shown: Vec<String> = all.iter().map(Violation::to_string).collect();
    assert!(all.is_empty(), "\n{}", shown.join("\n"));
}
