//! Whether other programs run exported policies: ONNX Runtime and PyTorch.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::python;

const ONNX: [&str; 3] = ["onnx==1.23.2", "onnxruntime==1.32.0", SAFETENSORS];
const SAFETENSORS: &str = "safetensors==0.8.0";
const TORCH: &str = "torch==2.15.0";

/// Where PyTorch for the CPU is. On PyPI it comes with gigabytes for GPUs.
const TORCH_INDEX: &str = "https://download.pytorch.org/whl/cpu";

/// Interpreters that may have PyTorch already, such as the one that Debian's `python3-torch` is for.
const WITH_TORCH: [&str; 2] = ["python3", "/usr/bin/python3"];

/// Has ONNX Runtime run the models that the tests left. Whether it agrees with pronk, or why it cannot be
/// had.
pub(crate) fn onnx(root: &Path) -> Result<Result<bool, String>> {
    let exports = exports(root)?;
    match python::with_packages(root, &ONNX)? {
        Ok(python) => compare(Command::new(python), root, "check_onnx.py", &exports).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// Has PyTorch load the weight files that the tests left. Whether it agrees with pronk, or why it cannot be
/// had.
pub(crate) fn torch(root: &Path) -> Result<Result<bool, String>> {
    let exports = exports(root)?;
    let python = match python::with_packages(root, &[SAFETENSORS])? {
        Ok(_) => match python::with_packages_of(root, TORCH_INDEX, &[TORCH])? {
            Ok(python) => Ok(Command::new(python)),
            Err(why) => with_torch(root).map_err(|instead| format!("{why}; {instead}")),
        },
        Err(why) => Err(why),
    };
    match python {
        Ok(python) => compare(python, root, "check_torch.py", &exports).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// An interpreter that has PyTorch already, with safetensors. Not with the virtual environment's, which may
/// have a NumPy of another version than the one that PyTorch was built for.
fn with_torch(root: &Path) -> Result<Command, String> {
    let has_torch = |python: &&&str| python::imports(python, "torch");
    let Some(python) = WITH_TORCH.iter().find(has_torch) else {
        let tried = WITH_TORCH.join(" and ");
        return Err(format!("{tried} do not have it either: install it for one, as Debian's python3-torch"));
    };
    let folder = python::in_folder(root, "safetensors", SAFETENSORS)?;
    let mut command = Command::new(python);
    command.env("PYTHONPATH", folder);
    Ok(command)
}

fn compare(mut python: Command, root: &Path, script: &str, exports: &Path) -> Result<bool> {
    Ok(python.arg(root.join("xtask/python").join(script)).arg(exports).status()?.success())
}

fn exports(root: &Path) -> Result<PathBuf> {
    let exports = python::target(root).join("tmp/exports");
    ensure!(exports.exists(), "{} is missing: run `cargo xtask test` first", exports.display());
    Ok(exports)
}
