//! Programs in C that cells need.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::cells::{Cell, Fault};

/// File, source and the compiler's flags.
const TOOLS: [(&str, &str, &[&str]); 2] = [
    ("corridor", include_str!("../../envs/process/conformance/corridor.c"), &["-std=c11", "-O2"]),
    ("clock.so", include_str!("clock.c"), &["-std=c11", "-O2", "-shared", "-fPIC"]),
];

/// Compiles them with the compiler that `CC` names, or `cc`, into a folder.
pub(crate) fn compile(folder: &Path) -> anyhow::Result<()> {
    for (name, source, flags) in TOOLS {
        let file = folder.join(format!("{name}.c"));
        fs::write(&file, source)?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        let status = command.args(flags).arg("-o").arg(folder.join(name)).arg(&file).status();
        let status = status.with_context(|| format!("cannot run {}", command.get_program().display()))?;
        anyhow::ensure!(status.success(), "cannot compile {}", file.display());
    }
    Ok(())
}

/// Why a cell cannot be run here; `None` if it can.
pub(crate) fn missing(cell: &Cell, folder: &Path) -> Option<String> {
    match cell.fault {
        Fault::FullDisk => {
            let mount = ["--mount", "--map-root-user", "mount", "-t", "tmpfs", "none"];
            let mounted = Command::new("unshare").args(mount).arg(folder).output();
            let why = match mounted {
                Ok(output) if output.status.success() => return None,
                Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Err(error) => format!("unshare: {error}"),
            };
            Some(format!("no file system can be mounted for it: {why}"))
        }
        _ => None,
    }
}
