//! The arguments of the program.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// Trains under faults for hours and checks every second that ledgers close and nothing leaks or hangs
#[derive(clap::Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) work: Option<Work>,
    #[command(flatten)]
    pub(crate) plan: Plan,
}

#[derive(clap::Subcommand)]
pub(crate) enum Work {
    /// Runs one cell: the driver starts itself again with this
    #[command(hide = true)]
    Run(Job),
}

/// What the driver does.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// How long in all; each cell has an equal share
    #[arg(long, default_value = "60")]
    minutes: NonZeroU64,
    /// Seconds of each cell, once, instead of a share of the minutes
    #[arg(long)]
    secs: Option<NonZeroU64>,
    /// Only this cell; may be given again
    #[arg(long, value_name = "NAME")]
    pub(crate) cell: Vec<String>,
    /// Cells at a time
    #[arg(long, default_value = "2")]
    pub(crate) jobs: NonZeroU64,
    /// Where tables, errors and stacks go
    #[arg(long, default_value = "target/soak")]
    pub(crate) out: PathBuf,
    /// Seed of all faults
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What the process of a cell runs.
#[derive(Clone, clap::Args)]
pub(crate) struct Job {
    pub(crate) cell: String,
    /// An empty folder, or that of the cell's earlier processes
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// The folder of programs that the driver has compiled
    #[arg(long)]
    pub(crate) tools: PathBuf,
    /// Without it only a signal ends the run
    #[arg(long)]
    pub(crate) secs: Option<u64>,
    #[arg(long)]
    pub(crate) seed: u64,
}

/// Shortest share of a cell in seconds, in which its fault is felt, and the longest, in which slow leaks are
/// found; with more time the matrix is run again.
const SHARES: (u64, u64) = (20, 3600);

impl Job {
    pub(crate) fn time(&self) -> Option<Duration> {
        self.secs.map(Duration::from_secs)
    }
}

impl Plan {
    /// The time of each of `cells`, and how many times the matrix is run.
    pub(crate) fn shares(&self, cells: usize) -> (Duration, u64) {
        if let Some(secs) = self.secs {
            return (Duration::from_secs(secs.get()), 1);
        }
        let of_a_cell = 60 * self.minutes.get() * self.jobs.get() / (cells as u64).max(1);
        let passes = of_a_cell.div_ceil(SHARES.1).max(1);
        (Duration::from_secs((of_a_cell / passes).max(SHARES.0)), passes)
    }
}
