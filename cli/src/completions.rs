//! `pronk completions`.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;

/// Print shell completions
#[derive(clap::Args)]
#[command(after_help = "\
Bash:  pronk completions bash > ~/.local/share/bash-completion/completions/pronk
Zsh:   pronk completions zsh > ~/.zfunc/_pronk
Fish:  pronk completions fish > ~/.config/fish/completions/pronk.fish")]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Args::command(), "pronk", &mut script);
        crate::print(format_args!("{}", String::from_utf8_lossy(&script)));
        Ok(ExitCode::SUCCESS)
    }
}
