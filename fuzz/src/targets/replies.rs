//! What a process of environments leaves in shared memory when it answers an order.

use std::fs::File;
use std::os::unix::fs::FileExt;

use pronk::policy::ObsDtype;
use pronk::{ActionRef, End, ObsMut};
use pronk_env_process::protocol::{Shared, Unmapped, hello};

use super::greeting::understood;
use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "replies",
    promise: "The first line is a greeting, a byte says how many environments there are, and the rest is what the \
              process writes into the header and the sections of the memory. The parent reads frames, messages \
              and numbers of the sizes that were agreed on, a row alone as among the others, and what it writes \
              changes nothing of it.",
    run,
};

/// Larger memory is only laid out: an input cannot fill it.
const LARGE: usize = 17 << 20;

/// What the process may write in the header, and where the sections begin.
const HEADER: std::ops::Range<usize> = 16..64;
const SECTIONS: usize = 65_536;

fn run(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let Some((first, written)) = bytes.get(end + 1..).and_then(<[u8]>::split_first) else { return false };
    let (n_envs, autoreset) = (1 + usize::from(first >> 1) % 4, first % 2 == 1);
    let Some(introduction) = understood(hello(&bytes[..end])) else { return false };
    let Some(layout) = understood(introduction.layout(n_envs, autoreset)) else { return false };
    if layout.bytes() > LARGE {
        return false;
    }
    let (memory, theirs) = Unmapped::create().unwrap_or_else(|error| panic!("no memory: {error}"));
    let renders = introduction.renders;
    let shared = Shared::map(memory, introduction.spec, layout, n_envs);
    let shared = shared.unwrap_or_else(|error| panic!("memory that is not mapped: {error}"));
    answer(&File::from(theirs), written, shared.bytes());

    let (env, _) = shared.call();
    assert!(env < n_envs, "environment {env} of {n_envs}");
    if let Ok(message) = shared.message() {
        // A byte that is no text is shown as three.
        assert!(message.len() <= 3 * SECTIONS, "a message of {} bytes", message.len());
    }
    if renders && let Ok(Some(frame)) = shared.frame(env) {
        let pixels = u64::from(frame.width()) * u64::from(frame.height());
        assert_eq!(frame.rgb().len() as u64, 3 * pixels, "{} × {}", frame.width(), frame.height());
    }
    let before = rows(&shared, autoreset);
    write(&shared);
    assert_eq!(before, rows(&shared, autoreset), "what the parent writes changes what it reads");
    true
}

/// Writes the answer, as the process does.
fn answer(memory: &File, written: &[u8], len: usize) {
    let (header, sections) = written.split_at(written.len().min(HEADER.len()));
    let sections = &sections[..sections.len().min(len - SECTIONS)];
    for (bytes, at) in [(header, HEADER.start), (sections, SECTIONS)] {
        memory.write_all_at(bytes, at as u64).unwrap_or_else(|error| panic!("memory that is sealed: {error}"));
    }
}

/// All that is read of the environments, bit by bit.
fn rows(shared: &Shared, autoreset: bool) -> Vec<u8> {
    let mut all = Vec::new();
    for agent in 0..shared.spec().agents.len() {
        let spec = &shared.spec().agents[agent];
        let (observation, action) = (&spec.observation, &spec.action);
        let (n, len) = (shared.n_envs(), observation.obs_len());
        let together = observed(observation.obs_dtype(), n * len, |obs| shared.observe(agent, 0, obs));
        let alone =
            (0..n).flat_map(|env| observed(observation.obs_dtype(), len, |obs| shared.observe(agent, env, obs)));
        assert!(together.iter().copied().eq(alone), "a row alone is another");
        all.extend(together);
        let mut rewards = vec![0.0; n];
        shared.rewards(agent, 0, &mut rewards);
        all.extend(rewards.iter().flat_map(|reward| reward.to_bits().to_ne_bytes()));
        let mut ends = vec![End::No; n];
        if shared.ends(agent, 0, &mut ends).is_ok() {
            all.extend(ends.iter().map(|end| *end as u8));
        }
        if action.has_discrete_actions() {
            // Without masks there may be more actions than this has memory for; one stands for all then.
            let mut masks = vec![false; if spec.action_mask { n * action.dist_len() } else { 1 }];
            shared.masks(agent, &mut masks).unwrap_or_else(|error| panic!("masks that are not read: {error}"));
            assert!(spec.action_mask || masks[0], "without masks an action is impossible");
            all.extend(masks.iter().map(|possible| u8::from(*possible)));
        }
        match autoreset {
            true => (0..n).for_each(|env| {
                all.extend(observed(observation.obs_dtype(), len, |obs| shared.final_observation(env, obs)));
            }),
            false => all.extend((0..n).map(|env| u8::from(shared.is_asked(agent, env)))),
        }
    }
    all
}

/// Observations of so many numbers that `read` reads.
fn observed<E: std::fmt::Display>(
    dtype: ObsDtype,
    len: usize,
    read: impl FnOnce(ObsMut<'_>) -> Result<(), E>,
) -> Vec<u8> {
    let refused = |error: E| panic!("observations that are not read: {error}");
    match dtype {
        ObsDtype::F32 => {
            let mut numbers = vec![0.0_f32; len];
            read(ObsMut::F32(&mut numbers)).unwrap_or_else(refused);
            numbers.iter().flat_map(|number| number.to_bits().to_ne_bytes()).collect()
        }
        ObsDtype::U8 => {
            let mut bytes = vec![0; len];
            read(ObsMut::U8(&mut bytes)).unwrap_or_else(refused);
            bytes
        }
    }
}

/// Writes all that a parent writes before an order.
fn write(shared: &Shared) {
    let n = shared.n_envs();
    for env in 0..n {
        shared.set_seed(env, u64::MAX);
    }
    shared.set_call(n - 1, 2);
    shared.keep_last_frames(n - 1);
    for (agent, spec) in shared.spec().agents.iter().enumerate() {
        let len = n * spec.action.act_len();
        let written = match spec.action.has_discrete_actions() {
            true => shared.act(agent, 0..n, ActionRef::Discrete(&vec![u32::MAX; len])),
            false => shared.act(agent, 0..n, ActionRef::Continuous(&vec![f32::NAN; len])),
        };
        written.unwrap_or_else(|error| panic!("actions that are not written: {error}"));
    }
}
