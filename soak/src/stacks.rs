//! What the threads of a process that hangs are doing.

use std::fmt::Write;
use std::fs;
use std::process::Command;

/// The stack of every thread by gdb, which has a minute, and what the kernel reports of each.
pub(crate) fn of(pid: u32) -> String {
    let gdb = ["--kill-after=5", "60", "gdb", "-p", &pid.to_string(), "-batch", "-ex", "thread apply all bt 40"];
    let gdb = Command::new("timeout").args(gdb).output();
    let mut text = match gdb {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!("gdb: {error}\n"),
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let state = read("status").lines().find(|line| line.starts_with("State:")).unwrap_or_default().to_owned();
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{} {} {} {}", read("comm").trim(), state, read("wchan"), read("stack"));
    }
    text
}
