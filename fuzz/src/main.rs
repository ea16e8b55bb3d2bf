//! libFuzzer with the target that the variable `PRONK_FUZZ_TARGET` names.

#![no_main]

use std::io::{self, Write};
use std::panic;
use std::sync::LazyLock;

use pronk_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("PRONK_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("PRONK_FUZZ_TARGET is `{name}`, which is no target: see fuzz/README.md"))
});

libfuzzer_sys::fuzz_target!(
    init: {
        // libFuzzer's own hook ends the process.
        let end = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = writeln!(io::stderr(), "{} promises: {}", TARGET.name, TARGET.promise);
            end(info);
        }));
    },
    |bytes: &[u8]| {
        let _ = (TARGET.run)(bytes);
    }
);
