//! `pronk watch`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;

use anyhow::{Context, Result, ensure};
use clap::ValueHint;
use pronk::signals::on_signal;
use pronk_dashboard::{Dashboard, DashboardError};

use crate::unusable;

/// Show runs and sweeps in a browser, while they train and after
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pronk watch                                # the runs in runs/ and sweeps/
  pronk watch runs/mine old/runs --address 127.0.0.1:9000
  pronk watch --address 0.0.0.0:8080         # from other machines, with the token that is printed
  ssh -L 8080:127.0.0.1:8080 HOST            # or so: nothing else can reach the page, and all is encrypted

Press Ctrl-C to stop: exit status 130, 143 after SIGTERM, 129 after SIGHUP. Nothing in the folders is changed.")]
pub(crate) struct Watch {
    /// Folders of runs and sweeps, or with some anywhere below [default: runs, and sweeps if it is there]
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folders: Vec<PathBuf>,
    /// Where to serve the page; port 0 is any free one
    #[arg(long, default_value = Dashboard::DEFAULT_ADDRESS)]
    address: String,
    /// What the page asks for [default: random, and none at an address of this machine only]
    #[arg(long)]
    token: Option<String>,
}

impl Watch {
    pub(crate) fn run(self) -> Result<ExitCode> {
        for folder in &self.folders {
            let path = folder.display();
            ensure!(
                folder.exists(),
                unusable(anyhow::anyhow!("there is no directory {path}: name one with runs in it"))
            );
            ensure!(folder.is_dir(), unusable(anyhow::anyhow!("{path} is not a directory: name the folder of a run")));
        }
        let folders = if self.folders.is_empty() { usual() } else { self.folders };
        // Before the page is there, so that no signal is missed.
        let (sender, signal) = sync_channel(1);
        let send = move |reason| {
            // The first one is enough.
            let _ = sender.try_send(reason);
        };
        let listening = on_signal(send).context("cannot wait for Ctrl-C")?;
        let mut watch = Dashboard::watch(&self.address, folders).map_err(refused)?;
        if let Some(token) = self.token {
            watch = watch.with_token(token).map_err(refused)?;
        }
        note!("the runs are at {} (press Ctrl-C to stop)", watch.url());
        let reason = signal.recv().context("cannot wait for Ctrl-C any longer")?;
        drop((watch, listening));
        Ok(reason.signal_status().unwrap_or(1).into())
    }
}

/// Where `pronk train` and `pronk sweep` put what they make.
fn usual() -> Vec<PathBuf> {
    let sweeps = Path::new("sweeps");
    let sweeps = sweeps.is_dir().then(|| sweeps.to_owned());
    [PathBuf::from("runs")].into_iter().chain(sweeps).collect()
}

/// An address that is taken may be free next time; another one is wrong.
pub(crate) fn refused(error: DashboardError) -> anyhow::Error {
    match error {
        DashboardError::Refused { .. } | DashboardError::Token => unusable(error),
        error => error.into(),
    }
}
