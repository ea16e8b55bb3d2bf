//! What a process of environments says before its first order.

use pronk_env_process::protocol::{BadLine, Introduction, agreed, hello};
use serde_json::Value;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "greeting",
    promise: "The first byte says how many environments were asked for, and the two lines after it are what the \
              process says. What is accepted are environments that could be asked for, with as much memory as \
              their rows need, and a process that has computed the same size.",
    run,
};

fn run(bytes: &[u8]) -> bool {
    let Some((first, lines)) = bytes.split_first() else { return false };
    let (n_envs, autoreset) = (1 + usize::from(first >> 1), first % 2 == 1);
    let mut lines = lines.splitn(2, |&byte| byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let Some(introduction) = understood(hello(line)) else { return false };
    let json: Value = serde_json::from_slice(line).unwrap_or_default();
    assert!(json["protocol"] == 1 && json.get("error").is_none(), "{json} is accepted");
    assert!(introduction.spec.check().is_ok(), "{introduction:?}");

    let Some(layout) = understood(introduction.layout(n_envs, autoreset)) else { return false };
    assert!(!autoreset || introduction.spec.agents.len() == 1, "{introduction:?}");
    let needed = n_envs as u128 * bytes_of_rows(&introduction);
    assert!(layout.bytes() as u128 >= needed && layout.bytes().is_multiple_of(64), "{layout:?} of {introduction:?}");

    let line = lines.next().unwrap_or_default();
    let has_agreed = understood(agreed(line, layout.bytes())).is_some();
    let json: Value = serde_json::from_slice(line).unwrap_or_default();
    assert!(!has_agreed || json["shared_bytes"] == layout.bytes(), "{json} is accepted");
    has_agreed
}

/// Bytes that an environment has in the sections that are always there.
fn bytes_of_rows(introduction: &Introduction) -> u128 {
    let agents = introduction.spec.agents.iter();
    // A byte at least for each number that is observed, four for each number of an action, reward and end.
    agents.map(|agent| (agent.observation.obs_len() + 4 * agent.action.act_len() + 8 + 1) as u128).sum::<u128>() + 8
}

/// What was understood; why not is made into a text, as an error would be.
pub(super) fn understood<T>(read: Result<T, BadLine>) -> Option<T> {
    read.inspect_err(|(BadLine::Refused(text) | BadLine::Broken(text))| drop(text.to_owned())).ok()
}
