//! What a release would publish: whether every package builds alone and holds what it should, whether the
//! README's examples compile against the packages, and whether the public interface has changed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::command::{cargo, exit_code, say, succeeds};
use crate::python;
use crate::tools::CARGO_SEMVER_CHECKS;

/// Packages all that is published, in the order of dependencies, and builds each from its package alone.
/// cargo refuses files that are not committed.
const PACKAGE: &str =
    "package --workspace --exclude xtask --exclude pronk-golden --exclude pronk-fuzz --exclude pronk-soak --locked";

/// Features of devices need the vendor's toolkit, so only defaults are compared.
const COMPARE: &str = "semver-checks --workspace --exclude xtask --exclude pronk-golden --exclude pronk-fuzz \
                       --exclude pronk-soak --default-features";

/// What every package holds besides its sources.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// What every manifest says.
const KEYS: [&str; 5] = ["description", "license", "readme", "keywords", "rust-version"];

/// No file but the lock file is as large as this; figures and recorded numbers stay in the repository.
const MAX_FILE_BYTES: u64 = 100 << 10;

/// Checks the packages, and the interface against that of the git revision `baseline` if there is one.
pub(crate) fn check(root: &Path, baseline: Option<&String>) -> Result<ExitCode> {
    // What an earlier version left would count as packages of this one.
    let folder = python::target(root).join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    say("── packages, each built alone ──")?;
    if !succeeds(&mut cargo(root, PACKAGE))? {
        return Ok(ExitCode::FAILURE);
    }
    say("── what they hold ──")?;
    let packages = packages(&folder)?;
    let mut passed = true;
    for package in &packages {
        let (line, faults) = contents(package)?;
        say(&line)?;
        for fault in &faults {
            say(&format!("  FAILED: {fault}"))?;
        }
        passed &= faults.is_empty();
    }
    say("── the README's examples, compiled against the packages ──")?;
    passed &= readme(root, &packages)?;
    say("── the public interface ──")?;
    passed &= interface(root, baseline)?;
    say(if passed { "release passed" } else { "release FAILED" })?;
    Ok(exit_code(passed))
}

/// The folders that cargo has unpacked and built.
fn packages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.join("Cargo.toml").exists() {
            packages.push(path);
        }
    }
    packages.sort();
    Ok(packages)
}

/// A line about what is in a package, and what is wrong with it.
fn contents(package: &Path) -> Result<(String, Vec<String>)> {
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    collect(package, &mut files)?;
    let manifest = fs::read_to_string(package.join("Cargo.toml"))?;
    let lacks = |key: &&&str| !manifest.lines().any(|line| line.starts_with(&format!("{key} = ")));
    faults.extend(FILES.iter().filter(|file| !package.join(file).exists()).map(|file| format!("it lacks {file}")));
    faults.extend(KEYS.iter().filter(lacks).map(|key| format!("its manifest lacks `{key}`")));
    let (mut bytes, mut largest) = (0, (0, PathBuf::new()));
    for (path, size) in files.iter().filter(|(path, _)| !path.ends_with("Cargo.lock")) {
        let path = path.strip_prefix(package)?.to_owned();
        if *size > MAX_FILE_BYTES {
            faults.push(format!("{} has {} KiB: leave it out of the package", path.display(), size >> 10));
        }
        bytes += size;
        largest = largest.max((*size, path));
    }
    let name = package.file_name().unwrap_or_default().display();
    let (size, path) = (largest.0 >> 10, largest.1.display());
    Ok((format!("{name}: {} files, {} KiB, the largest {path}, {size} KiB", files.len(), bytes >> 10), faults))
}

fn collect(folder: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let metadata = fs::metadata(&path)?;
        if metadata.is_dir() {
            collect(&path, files)?;
        } else {
            files.push((path, metadata.len()));
        }
    }
    Ok(())
}

/// Runs the README's examples in a package of its own that depends on the facade alone.
fn readme(root: &Path, packages: &[PathBuf]) -> Result<bool> {
    let target = python::target(root);
    let project = target.join("readme");
    fs::create_dir_all(project.join("src"))?;
    let mut manifest = "[package]\nname = \"readme\"\nedition = \"2024\"\n\n[workspace]\n\n".to_owned();
    let mut readme = PathBuf::new();
    let mut patches = "\n[patch.crates-io]\n".to_owned();
    for package in packages {
        let name = name(package)?;
        writeln!(patches, "{name} = {{ path = {package:?} }}")?;
        if name == "pronk" {
            writeln!(manifest, "[dependencies]\npronk = {{ path = {package:?}, features = [\"env-process\"] }}")?;
            readme = package.join("README.md");
        }
    }
    manifest += &patches;
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join("src/lib.rs"), format!("#![doc = include_str!({readme:?})]\n"))?;
    // The versions that everything else is tested with.
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock"))?;
    succeeds(cargo(&project, "test --quiet --doc").env("CARGO_TARGET_DIR", target))
}

/// The name of a package, by its manifest.
fn name(package: &Path) -> Result<String> {
    let manifest = fs::read_to_string(package.join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = "));
    Ok(line.with_context(|| format!("{} has no name", package.display()))?.trim_matches('"').to_owned())
}

/// Whether everything that was public still is. Without a baseline there is nothing to compare with, as no
/// version is published yet.
fn interface(root: &Path, baseline: Option<&String>) -> Result<bool> {
    let Some(revision) = baseline else {
        say("NOT CHECKED: no version is published; name a git revision with --baseline")?;
        return Ok(true);
    };
    match CARGO_SEMVER_CHECKS.installed(root)? {
        Ok(program) => {
            let mut compare = Command::new(program);
            succeeds(compare.current_dir(root).args(COMPARE.split(' ')).args(["--baseline-rev", revision]))
        }
        Err(why) => {
            say(&format!("NOT CHECKED, as what it needs could not be installed: {why}"))?;
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_package_lacks_and_what_is_too_large_is_said() {
        let package =
            python::target(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).join("tmp/packaged/pronk-0.1.0");
        fs::create_dir_all(package.join("src")).unwrap();
        fs::write(package.join("README.md"), "").unwrap();
        fs::write(package.join("LICENSE-MIT"), "").unwrap();
        fs::write(package.join("Cargo.lock"), vec![0; 200 << 10]).unwrap();
        fs::write(package.join("src/figure.png"), vec![0; 101 << 10]).unwrap();
        let manifest =
            "[package]\nname = \"pronk\"\nlicense = \"MIT\"\nreadme = \"README.md\"\nrust-version = \"1.95\"\n";
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        let (line, faults) = contents(&package).unwrap();
        assert_eq!(line, "pronk-0.1.0: 5 files, 101 KiB, the largest src/figure.png, 101 KiB");
        let expected = [
            "it lacks LICENSE-APACHE",
            "its manifest lacks `description`",
            "its manifest lacks `keywords`",
            "src/figure.png has 101 KiB: leave it out of the package",
        ];
        assert_eq!(faults, expected);
        assert_eq!(packages(package.parent().unwrap()).unwrap(), [package]);
    }
}
