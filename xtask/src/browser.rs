//! Debian's Chromium and Playwright from PyPI, which check the live page and take its pictures.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::python;

/// Pillow makes the pictures smaller.
const PACKAGES: [&str; 2] = ["playwright==1.65.2", "pillow==13.0.0"];

/// What is installed of Debian if it is missing: the browser, and a typeface for the page.
const DEBIAN: [&str; 2] = ["chromium", "fonts-inter"];

/// A browser that can be driven.
pub(crate) struct Browser {
    python: PathBuf,
    chromium: PathBuf,
}

impl Browser {
    /// The browser, installed first if it is missing and this is root, or why it cannot be had.
    ///
    /// # Errors
    /// There is no Python.
    pub(crate) fn find(root: &Path) -> Result<Result<Self, String>> {
        let chromium = match chromium() {
            Some(chromium) => chromium,
            None => match install().map(|()| chromium()) {
                Ok(Some(chromium)) => chromium,
                Ok(None) => return Ok(Err("apt-get installed chromium, but it is not in PATH".to_owned())),
                Err(why) => return Ok(Err(why)),
            },
        };
        Ok(python::with_packages(root, &PACKAGES)?.map(|python| Self { python, chromium }))
    }

    /// Whether the page does what it should; its pictures are in the folder `page` of the target folder.
    pub(crate) fn check(&self, root: &Path) -> Result<bool> {
        self.script(root, "check_page.py", "--out", &python::target(root).join("page"))
    }

    /// Makes the pictures in `docs/`.
    pub(crate) fn picture(&self, root: &Path) -> Result<bool> {
        self.script(root, "make_pictures.py", "--docs", &root.join("docs"))
    }

    fn script(&self, root: &Path, name: &str, flag: &str, folder: &Path) -> Result<bool> {
        let mut script = Command::new(&self.python);
        script.arg(root.join("xtask/python").join(name)).arg("--chromium").arg(&self.chromium);
        script.arg("--pronk").arg(python::target(root).join("debug/pronk")).arg(flag).arg(folder);
        let status = script.status().with_context(|| format!("cannot run {name}"))?;
        Ok(status.success())
    }
}

/// The browser, if one is in `PATH`.
fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let found = ["chromium", "chromium-browser"].map(|name| {
        let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
        paths.find(|path| path.is_file())
    });
    found.into_iter().flatten().next()
}

/// Installs it, or says why not.
fn install() -> Result<(), String> {
    let advice = "install Debian's package `chromium`";
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if !is_root {
        return Err(format!("there is no chromium, and only root can install it: {advice}"));
    }
    for args in [&["update"][..], &["install", "--yes", "--no-install-recommends", DEBIAN[0], DEBIAN[1]]] {
        let mut apt_get = Command::new("apt-get");
        let output = apt_get.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").args(args).output();
        let output = output.map_err(|error| format!("there is no chromium and no apt-get ({error}): {advice}"))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(format!("apt-get cannot install chromium: {}", words.lines().last().unwrap_or_default()));
        }
    }
    Ok(())
}
