//! The virtual environment under `target/python` that stages of CI install their packages into.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Packages that are there now, or why they cannot be had.
pub(crate) type Installed = Result<PathBuf, String>;

/// Cargo's folder for what it makes.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// The interpreter with the packages, which are named with their versions: a newer one must not turn a run of
/// CI red.
///
/// # Errors
/// Without Python there is nothing to check with. That PyPI cannot be reached is no error, but said.
pub(crate) fn with_packages(root: &Path, packages: &[&str]) -> Result<Installed> {
    install(root, &[], packages)
}

/// As [`with_packages`], of another index than PyPI.
pub(crate) fn with_packages_of(root: &Path, index: &str, packages: &[&str]) -> Result<Installed> {
    install(root, &["--index-url", index], packages)
}

/// A folder with this package alone, for an interpreter with packages of its own. After [`with_packages`],
/// whose pip installs it.
pub(crate) fn in_folder(root: &Path, name: &str, package: &str) -> Installed {
    let folder = target(root).join("python-packages").join(name);
    let mut pip = pip(&target(root).join("python/bin/python"));
    run(pip.args(["--no-deps", "--upgrade", "--target"]).arg(&folder).arg(package)).map(|()| folder)
}

/// The folder that packages of this interpreter are installed into.
pub(crate) fn site_packages(python: &Path) -> Result<PathBuf> {
    let output = Command::new(python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).output();
    let output = output.with_context(|| format!("cannot run {}", python.display()))?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// Whether an interpreter is there and has the package.
pub(crate) fn imports(python: &str, package: &str) -> bool {
    run(Command::new(python).args(["-c", &format!("import {package}")])).is_ok()
}

fn install(root: &Path, options: &[&str], packages: &[&str]) -> Result<Installed> {
    let venv = target(root).join("python");
    let python = venv.join("bin/python");
    // A virtual environment that could not be finished has an interpreter, but no pip.
    if run(Command::new(&python).args(["-m", "pip", "--version"])).is_err() {
        let oldest = format!("import sys; sys.exit(0 if sys.version_info >= {OLDEST:?} else sys.version)");
        let made = run(Command::new("python3").args(["-c", &oldest]))
            .and_then(|()| run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv)));
        if let Err(why) = made {
            let (major, minor) = OLDEST;
            bail!("{why}: install python3, {major}.{minor} or newer, with its module venv; this stage checks with it");
        }
    }
    Ok(run(pip(&python).args(options).args(packages)).map(|()| python))
}

fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "--disable-pip-version-check", "--timeout", "20", "--retries", "1", "install", "--quiet"]);
    pip
}

/// The oldest Python that the packages are there for.
const OLDEST: (u32, u32) = (3, 11);

/// Runs it to its end. Its last words, if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let last_line = |text: &[u8]| String::from_utf8_lossy(text).lines().last().map(str::to_owned);
    match output.status.success() {
        true => Ok(()),
        false => Err(last_line(&output.stderr).or_else(|| last_line(&output.stdout)).unwrap_or_default()),
    }
}
