//! libFuzzer with the target that the variable `PRONK_FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

use pronk_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("PRONK_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("PRONK_FUZZ_TARGET is `{name}`, which is no target: see fuzz/README.md"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
