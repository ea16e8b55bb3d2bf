//! What runs with workers on other machines need besides: certificates, and relays of weights.
//!
//! ```text
//! cargo run --features hosts-zenoh --example hosts -- \
//!     certificates keys --learner 10.0.0.7 --host host-a,host-b --relay relay=10.0.1.1
//! cargo run --release --features hosts-zenoh --example hosts -- \
//!     relay --listen quic/0.0.0.0:7448 --from quic/10.0.0.7:7447 --certificates keys
//! ```
//!
//! `keys` then has `ca.pem`, for every host; `learner.pem` and `learner.key`; and `host-a.pem` and
//! `host-a.key` for the host of that name, as for the relay. Anyone with `ca.key` can let hosts in: keep it
//! where no run is.

#![allow(clippy::print_stdout)] // a program prints; the library never does

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use clap::{Parser, Subcommand};
use pronk::hosts::{Relay, RelayStatus};
use pronk::hosts_zenoh::{Certificates, ZenohDial, ZenohListen, make_certificates, make_relay_certificate};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/log.rs"]
mod log;

/// Prepares hosts, and passes weights on to them.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes certificates of a learner, hosts and relays, and an authority unless the folder has one
    Certificates {
        /// Where they go
        folder: PathBuf,
        /// Names and addresses at which hosts reach the learner
        #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
        learner: Vec<String>,
        /// Names of hosts
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        host: Vec<String>,
        /// Names of relays, each with an address at which hosts reach it
        #[arg(long, value_name = "NAME=HOST", value_delimiter = ',')]
        relay: Vec<String>,
    },
    /// Fetches each version of the weights once for many hosts, until Ctrl-C
    Relay(RelayArgs),
}

#[derive(clap::Args)]
struct RelayArgs {
    /// Where hosts reach it, such as tcp/127.0.0.1:7448 or quic/0.0.0.0:7448
    #[arg(long, value_name = "ADDRESS")]
    listen: String,
    /// Where the learner listens, or another relay
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// Name of the certificate at that end
    #[arg(long, value_name = "NAME", default_value = "learner")]
    from_name: String,
    /// Folder with ca.pem, and the certificate of the relay
    #[arg(long, value_name = "FOLDER")]
    certificates: Option<PathBuf>,
    /// Name of the relay, which the learner must allow
    #[arg(long, default_value = "relay")]
    name: String,
    /// Names of the hosts that may ask [default: all that the certificate authority knows]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allow: Vec<String>,
    /// Most hosts at a time
    #[arg(long, default_value_t = 256)]
    max_hosts: usize,
    /// Let others on the network read and forge everything: plain tcp beyond this machine
    #[arg(long)]
    insecure: bool,
}

fn main() -> Result<(), failure::Failure> {
    match Args::parse().command {
        Command::Certificates { folder, learner, host, relay } => {
            let learner: Vec<&str> = learner.iter().map(String::as_str).collect();
            let host: Vec<&str> = host.iter().map(String::as_str).collect();
            let mut written = make_certificates(&folder, &learner, &host)?;
            for relay in &relay {
                let (name, at) =
                    relay.split_once('=').ok_or_else(|| anyhow::anyhow!("write --relay NAME=HOST, not `{relay}`"))?;
                written.extend(make_relay_certificate(&folder, name, &[at])?);
            }
            written.iter().for_each(|path| println!("{}", path.display()));
            Ok(())
        }
        Command::Relay(args) => Ok(relay(args)?),
    }
}

fn relay(args: RelayArgs) -> anyhow::Result<()> {
    let RelayArgs { listen, from, from_name, certificates, name, allow, max_hosts, insecure } = args;
    tracing_subscriber::registry().with(log::lines()).init();
    let mut listen = ZenohListen::at(listen).allow(allow);
    let mut from = ZenohDial::to(from).learner(from_name).name(&name);
    if let Some(folder) = certificates {
        let certificates = Certificates::in_folder(folder, &name);
        (listen, from) = (listen.certificates(certificates.clone()), from.certificates(certificates));
    }
    if insecure {
        (listen, from) = (listen.insecure(), from.insecure());
    }
    let relay = Relay::open(Box::new(listen), Box::new(from), max_hosts)?;
    println!("{{\"listens_at\":\"{}\"}}", relay.address());
    let (end, ended) = channel();
    let _until = pronk::on_ctrl_c(move || drop::<Sender<()>>(end))?;
    // Closed by Ctrl-C or SIGTERM.
    let _ = ended.recv();
    let RelayStatus { versions, fetched_bytes, pieces, sent_bytes, failed, .. } = relay.status();
    println!(
        "{{\"versions\":{versions},\"fetched_bytes\":{fetched_bytes},\"pieces\":{pieces},\
         \"sent_bytes\":{sent_bytes},\"failed\":{failed}}}"
    );
    Ok(())
}
