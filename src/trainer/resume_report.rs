//! [`ResumeReport`]: what a resumed run says of that.

use pronk_metrics::{FileMark, ResultDict};
use serde_json::json;

use crate::checkpoint::SavedEvaluations;

/// Environments whose reasons are listed.
const MAX_LISTED: usize = 20;

/// What a resumed run says of that: `resume` in its results.
pub(super) struct ResumeReport {
    /// How many times the run was continued, this one included.
    pub(super) count: u64,
    /// Whether it goes on exactly.
    pub(super) is_exact: bool,
    /// The iteration of the checkpoint.
    pub(super) from_iteration: u64,
    /// Env-steps that the killed process had sampled after the checkpoint, as far as it said.
    pub(super) rewound_env_steps: u64,
    /// Env-steps sampled by earlier processes for which this one has granted no turns: all of them, unless it
    /// goes on exactly.
    pub(super) outside_turns: u64,
    /// Env-steps that were in flight at the checkpoint and are not in it.
    pub(super) lost_env_steps: u64,
    /// Newer checkpoints that are damaged, and how.
    pub(super) passed_over: Vec<String>,
    /// Environments that could not get back into their episodes, and why the first of them.
    pub(super) restarted: (u64, Vec<String>),
    /// How far the files of reporters had come.
    pub(super) marks: Vec<FileMark>,
    /// What the checkpoint says of evaluations, for the next one if this run makes none.
    pub(super) evaluations: Option<SavedEvaluations>,
}

impl ResumeReport {
    pub(super) fn add_restarted(&mut self, restarted: Vec<String>) {
        let (n, listed) = &mut self.restarted;
        for why in restarted {
            tracing::warn!(%why, "an environment begins a new episode instead of continuing the saved one");
            *n += 1;
            if listed.len() < MAX_LISTED {
                listed.push(why);
            }
        }
    }

    pub(super) fn write_into(&self, dict: &mut ResultDict) {
        dict.set("resume.count", self.count);
        dict.set("resume.exact", self.is_exact && self.restarted.0 == 0);
        dict.set("resume.from_iteration", self.from_iteration);
        dict.set("resume.rewound_env_steps", self.rewound_env_steps);
        dict.set("resume.lost_env_steps", self.lost_env_steps);
        dict.set("resume.passed_over", json!(self.passed_over));
        dict.set("resume.restarted", self.restarted.0);
        dict.set("resume.restarted_why", json!(self.restarted.1));
    }
}
