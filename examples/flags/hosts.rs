//! The flags of training examples that accept workers of other machines, or act for a run elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;

use pronk::ActingHost;
#[cfg(feature = "hosts-zenoh")]
use pronk::hosts::{Pixels, Terms};
#[cfg(feature = "hosts-zenoh")]
use pronk::hosts_zenoh::{Certificates, LEARNER, ZenohDial, ZenohListen};
use pronk::trainer::TrainerBuilder;

/// Whether a run has workers on other machines.
#[derive(clap::Args)]
pub(crate) struct Hosts {
    /// Accept workers of other machines at this address, such as tcp/127.0.0.1:7447 or quic/0.0.0.0:7447
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Act for the run that listens at this address, with --workers workers and the settings of that run
    #[arg(long, value_name = "ADDRESS", conflicts_with = "listen")]
    connect: Option<String>,
    /// Folder with ca.pem, and the certificate of this end: `learner`, or the --name of this host
    #[arg(long, value_name = "FOLDER")]
    certificates: Option<PathBuf>,
    /// Name of this host [default: made of the name of the machine]
    #[arg(long, requires = "connect")]
    name: Option<String>,
    /// Names of the hosts that may join [default: all that the certificate authority knows]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "listen")]
    allow: Vec<String>,
    /// Let others on the network read and forge everything: plain tcp beyond this machine
    #[arg(long)]
    insecure: bool,
    /// Compress pixels on their way
    #[arg(long, requires = "connect")]
    compress: bool,
    /// Get weights from the relay at this address, as long as it answers
    #[arg(long, value_name = "ADDRESS", requires = "connect")]
    relay: Option<String>,
    /// Name of the relay's certificate
    #[arg(long, value_name = "NAME", requires = "relay", default_value = "relay")]
    relay_name: String,
    /// Seconds to look for a learner, at the start and after it is lost [default: 600]
    #[arg(long, value_name = "SECONDS", requires = "connect")]
    patience: Option<u64>,
}

impl Hosts {
    /// Whether the run has to do with other machines.
    pub(crate) fn are_used(&self) -> bool {
        self.listen.is_some() || self.connect.is_some()
    }
}

#[cfg(feature = "hosts-zenoh")]
impl Hosts {
    /// A run that listens, if the flag was given.
    pub(crate) fn listen<A>(&self, run: TrainerBuilder<A>) -> anyhow::Result<TrainerBuilder<A>> {
        let Some(address) = &self.listen else { return Ok(run) };
        let mut end = ZenohListen::at(address).allow(self.allow.iter().cloned());
        if let Some(folder) = &self.certificates {
            end = end.certificates(Certificates::in_folder(folder, LEARNER));
        }
        Ok(run.listen(if self.insecure { end.insecure() } else { end }, Terms::default()))
    }

    /// Acts for a run elsewhere, if the flag was given, and prints what it did.
    pub(crate) fn act(
        &self,
        workers: usize,
        host: impl FnOnce(ZenohDial) -> ActingHost,
    ) -> anyhow::Result<Option<ExitCode>> {
        let Some(address) = &self.connect else { return Ok(None) };
        let mut host = host(self.dial(address)?).workers(u32::try_from(workers)?);
        if let Some(relay) = &self.relay {
            host = host.weights_from(self.dial(relay)?.learner(&self.relay_name));
        }
        if self.compress {
            host = host.pixels(Pixels::Zstd);
        }
        if let Some(secs) = self.patience {
            host = host.patience(std::time::Duration::from_secs(secs));
        }
        let done = host.run()?;
        println!("{{\"stays\":{},\"env_steps\":{},\"stopped\":{}}}", done.stays, done.env_steps, done.stopped);
        Ok(Some(ExitCode::SUCCESS))
    }

    fn dial(&self, address: &str) -> anyhow::Result<ZenohDial> {
        let mut end = ZenohDial::to(address);
        if let Some(folder) = &self.certificates {
            let name =
                self.name.as_ref().ok_or_else(|| anyhow::anyhow!("--certificates needs the --name of this host"))?;
            end = end.certificates(Certificates::in_folder(folder, name));
        }
        if let Some(name) = &self.name {
            end = end.name(name);
        }
        Ok(if self.insecure { end.insecure() } else { end })
    }
}

#[cfg(not(feature = "hosts-zenoh"))]
impl Hosts {
    /// An error if the flag was given: this program cannot listen.
    pub(crate) fn listen<A>(&self, run: TrainerBuilder<A>) -> anyhow::Result<TrainerBuilder<A>> {
        match &self.listen {
            None => Ok(run),
            Some(_) => anyhow::bail!("--listen needs `cargo run --features hosts-zenoh`"),
        }
    }

    /// An error if the flag was given: this program cannot connect.
    pub(crate) fn act(
        &self,
        _workers: usize,
        _host: impl FnOnce(NoDial) -> ActingHost,
    ) -> anyhow::Result<Option<ExitCode>> {
        match &self.connect {
            None => Ok(None),
            Some(_) => anyhow::bail!("--connect needs `cargo run --features hosts-zenoh`"),
        }
    }
}

/// The end of a link that a program without the feature cannot make.
#[cfg(not(feature = "hosts-zenoh"))]
pub(crate) enum NoDial {}

#[cfg(not(feature = "hosts-zenoh"))]
impl pronk::hosts::Dial for NoDial {
    fn dial(&self) -> Result<std::sync::Arc<dyn pronk::hosts::Link>, pronk::hosts::LinkError> {
        match *self {}
    }

    fn address(&self) -> String {
        match *self {}
    }

    fn name(&self) -> String {
        match *self {}
    }
}
