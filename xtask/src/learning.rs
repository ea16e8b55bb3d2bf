//! What the tuned settings learn: trains the tasks of `benches/learning.toml`, and writes `docs/learning.md`;
//! and what policy lag costs: the runs of `benches/lag.toml`, and `docs/lag.md`.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::ArgMatches;

use crate::command::{cargo, exit_code, succeeds};
use crate::python;

/// Environments, and the statistics and the picture of the tables.
const PACKAGES: [&str; 7] = [
    "gymnasium[mujoco]==1.4.0",
    "box2d==2.3.10",
    "ale-py==0.12.1",
    "opencv-python-headless==5.0.0.93",
    "minatar==1.0.15",
    "scipy==1.17.1",
    "matplotlib==3.11.2",
];

/// Trains what has no curve yet, with a release build of the program.
pub(crate) fn run(root: &Path, args: &ArgMatches) -> Result<ExitCode> {
    let python = match python::with_packages(root, &PACKAGES)? {
        Ok(python) => python,
        Err(why) => bail!("{} could not be installed: {why}", PACKAGES.join(", ")),
    };
    if !succeeds(&mut cargo(root, "build --release --package pronk-cli"))? {
        return Ok(ExitCode::FAILURE);
    }
    let target = python::target(root);
    let mut script = Command::new(python);
    let mut tasks = args.get_many::<String>("tasks").into_iter().flatten().peekable();
    let name = if tasks.next_if(|task| *task == "lag").is_some() { "lag" } else { "learning" };
    script.arg(root.join(format!("xtask/python/{name}.py"))).arg("--root").arg(root);
    script.arg("--pronk").arg(target.join("release/pronk")).arg("--folder").arg(target.join("learning"));
    if let Some(seeds) = args.get_one::<u64>("seeds") {
        script.arg("--seeds").arg(seeds.to_string());
    }
    if args.get_flag("table") {
        script.arg("--table");
    }
    script.args(tasks);
    Ok(exit_code(script.status().with_context(|| format!("cannot run {name}.py"))?.success()))
}
