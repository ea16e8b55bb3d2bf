//! NVIDIA's compiler from PyPI, for the feature `cuda`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::python::{self, Installed};

/// Variables of a process, by name.
pub(crate) type Variables = [(&'static str, OsString); 3];

/// The compiler of candle's kernels with its headers. All packages are those of CUDA 13.0.
const COMPILER: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-runtime==13.0.96",
];

/// The libraries that programs are linked with on top.
const LIBRARIES: [&str; 3] = ["nvidia-cublas==13.1.0.3", "nvidia-curand==10.4.0.35", "nvidia-cuda-nvrtc==13.0.88"];

/// The GPUs that kernels are compiled for: compute capability 8.0. Compiling for another takes as long.
const COMPUTE_CAP: &str = "80";

/// The variables with which the feature compiles, without linking, or why the compiler cannot be had.
///
/// # Errors
/// There is no Python.
pub(crate) fn to_compile(root: &Path) -> Result<Result<Variables, String>> {
    // nvcc runs the C++ compiler of the system.
    if let Err(error) = Command::new("c++").arg("--version").output() {
        return Ok(Err(format!("c++: {error}: install a C++ compiler; nvcc needs it")));
    }
    let toolkit = match toolkit(root, &[])? {
        Ok(toolkit) => toolkit,
        Err(why) => return Ok(Err(why)),
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([toolkit.join("bin")].into_iter().chain(env::split_paths(&path)))?;
    Ok(Ok([("PATH", path), ("CUDA_HOME", toolkit.into()), ("CUDA_COMPUTE_CAP", COMPUTE_CAP.into())]))
}

/// A toolkit to build programs with, in the folder `cuda-toolkit` of the target folder, or why it cannot be
/// had.
///
/// # Errors
/// There is no Python.
pub(crate) fn toolkit_to_link(root: &Path) -> Result<Installed> {
    toolkit(root, &LIBRARIES)
}

fn toolkit(root: &Path, libraries: &[&str]) -> Result<Installed> {
    let packages: Vec<&str> = COMPILER.iter().chain(libraries).copied().collect();
    let python = match python::with_packages(root, &packages)? {
        Ok(python) => python,
        Err(why) => return Ok(Err(why)),
    };
    let installed = python::site_packages(&python)?.join("nvidia/cu13");
    let toolkit = python::target(root).join("cuda-toolkit");
    assemble(&installed, &toolkit).with_context(|| format!("cannot assemble {}", toolkit.display()))?;
    Ok(Ok(toolkit))
}

/// Makes `toolkit` of links into the folder that the packages share. They have no `lib64`, where cudarc and
/// nvcc look for libraries, and no `libcudart.so` but a `libcudart.so.13`, which the linker does not find.
fn assemble(installed: &Path, toolkit: &Path) -> io::Result<()> {
    match fs::remove_dir_all(toolkit) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let lib64 = toolkit.join("lib64");
    fs::create_dir_all(&lib64)?;
    for folder in ["bin", "include", "nvvm"] {
        symlink(installed.join(folder), toolkit.join(folder))?;
    }
    for library in fs::read_dir(installed.join("lib"))? {
        let library = library?;
        let name = library.file_name().to_string_lossy().into_owned();
        symlink(library.path(), lib64.join(&name))?;
        if let Some((stem, _version)) = name.split_once(".so.") {
            symlink(library.path(), lib64.join(format!("{stem}.so")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_by_the_names_that_linkers_look_for() {
        let folder = python::target(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).join("tmp/cuda-assembled");
        let (installed, toolkit) = (folder.join("cu13"), folder.join("toolkit"));
        for part in ["bin", "include", "lib", "nvvm"] {
            fs::create_dir_all(installed.join(part)).unwrap();
        }
        fs::write(installed.join("bin/nvcc"), "").unwrap();
        fs::write(installed.join("lib/libcudart.so.13"), "").unwrap();
        fs::write(installed.join("lib/libcudadevrt.a"), "").unwrap();
        // Twice: a toolkit that is there already is replaced.
        for _ in 0..2 {
            assemble(&installed, &toolkit).unwrap();
        }
        for file in ["bin/nvcc", "lib64/libcudart.so", "lib64/libcudart.so.13", "lib64/libcudadevrt.a"] {
            assert!(toolkit.join(file).is_file(), "{file}");
        }
        assert_eq!(fs::read_dir(toolkit.join("lib64")).unwrap().count(), 3);
    }
}
