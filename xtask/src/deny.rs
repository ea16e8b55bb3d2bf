//! What `deny.toml` demands of dependencies: their licences, where they come from, which must not come in,
//! and that none has a known weakness.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::succeeds;
use crate::tools::CARGO_DENY;

/// Whether all is as demanded, or what could not be checked and why.
pub(crate) fn check(root: &Path) -> Result<Result<bool, String>> {
    let program = match CARGO_DENY.installed(root)? {
        Ok(program) => program,
        Err(why) => return Ok(Err(why)),
    };
    let deny = |args: &str| {
        let mut command = Command::new(&program);
        command.current_dir(root).args(args.split(' '));
        command
    };
    if !succeeds(&mut deny("--locked check bans licenses sources"))? {
        return Ok(Ok(false));
    }
    // The database is a repository on GitHub, which not every machine reaches.
    if !succeeds(&mut deny("--locked fetch db"))? {
        return Ok(Err("the database of advisories; licences, bans and sources passed".to_owned()));
    }
    Ok(Ok(succeeds(&mut deny("--locked check --disable-fetch advisories"))?))
}
