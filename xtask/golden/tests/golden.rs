//! Numbers made by running the systems that pronk re-implements.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;

#[test]
fn every_golden_number_is_reproduced() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let report = pronk_golden::run_dir(&dir).expect("the golden files can be read");
    println!("{report}");
    assert!(report.passed(), "golden numbers differ, see above");
}
