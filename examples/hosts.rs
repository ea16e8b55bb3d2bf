//! Makes the certificates by which the hosts of a run know each other.
//!
//! ```text
//! cargo run --features hosts-zenoh --example hosts -- certificates keys --learner 10.0.0.7 --host host-a,host-b
//! ```
//!
//! `keys` then has `ca.pem`, for every host; `learner.pem` and `learner.key`; and `host-a.pem` and
//! `host-a.key` for the host of that name. Whoever has `ca.key` can let hosts in: keep it where no run is.

#![allow(clippy::print_stdout)] // a program prints; the library never does

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use pronk::hosts_zenoh::make_certificates;

/// Prepares hosts.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes a certificate authority, unless the folder has one, and certificates of a learner and of hosts
    Certificates {
        /// Where they go
        folder: PathBuf,
        /// Names and addresses at which hosts reach the learner
        #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
        learner: Vec<String>,
        /// Names of hosts
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        host: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    let Command::Certificates { folder, learner, host } = Args::parse().command;
    let learner: Vec<&str> = learner.iter().map(String::as_str).collect();
    let host: Vec<&str> = host.iter().map(String::as_str).collect();
    for path in make_certificates(&folder, &learner, &host)? {
        println!("{}", path.display());
    }
    Ok(())
}
