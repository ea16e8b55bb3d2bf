//! The program `pronk`.

use std::process::ExitCode;

/// Keeps freed memory for the next update; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pronk_cli::main()
}
