//! The invariants of the house that the compiler does not check, file by file.
//!
//! A rule is a function from the repository to what breaks it; [`RULES`] names them all. The rules look at
//! text whose comments and strings are blanked out, not at a syntax tree: that is enough for what they
//! ask, builds in seconds, and a rule stays ten lines long.

mod absent;
mod files;
mod finding;
mod flags;
mod layers;
mod layout;
mod pages;
mod repo;
mod rooms;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use finding::Finding;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use repo::Repo;

/// A rule: what it is called, why it is there, and where it is broken.
struct Rule {
    name: &'static str,
    reason: &'static str,
    check: fn(&Repo) -> Vec<Finding>,
}

/// One place that breaks a rule.
pub(crate) struct Violation {
    finding: Finding,
    rule: &'static str,
    reason: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, what } = &self.finding;
        let (rule, reason) = (self.rule, self.reason);
        write!(f, "{path}:{line}: {what}\n    {rule}: {reason}")
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "room-edges",
        reason: "a room knows only the rooms ARCHITECTURE.md lists for it, rollout and learner never each other, \
                 and none the facade; a new edge needs a decision record",
        check: rooms::edges,
    },
    Rule {
        name: "no-circles",
        reason: "files that import each other can only be read together: move what both need into a file of its own",
        check: layers::circles,
    },
    Rule {
        name: "layers",
        reason: "ARCHITECTURE.md draws the layers of each room; a layer is built on those below it: move what it needs \
                 down, or itself up",
        check: layers::layers,
    },
    Rule {
        name: "tensor-library",
        reason: "only policy computes with tensors; the others use plain slices, so that algorithms and data outlive the \
                 tensor library",
        check: rooms::tensor_library,
    },
    Rule {
        name: "no-sockets",
        reason: "rooms are threads of one process; another machine is a plug-in crate behind the queue and cell traits",
        check: rooms::sockets,
    },
    Rule {
        name: "facade-threads",
        reason: "the facade joins rooms and owns no thread of theirs; the room that needs a thread starts it, \
                 with a name and a clock",
        check: rooms::facade_threads,
    },
    Rule {
        name: "facade-loops",
        reason: "the trainer's is the only loop of the facade; any other belongs into a room",
        check: rooms::facade_loops,
    },
    Rule {
        name: "named-threads",
        reason: "a failure is reported with the thread's name: start threads by `thread::Builder::new().name(..)`",
        check: absent::unnamed_threads,
    },
    Rule {
        name: "bounded-queues",
        reason: "without a bound a slow reader becomes memory: use `pronk_buffer::inqueue`, or a mailbox, which folds",
        check: absent::unbounded_queues,
    },
    Rule {
        name: "unfinished",
        reason: "unfinished code and tests that do not run are not committed",
        check: absent::unfinished,
    },
    Rule {
        name: "unsafe",
        reason: "unsafe code lives only under policy/src/ops/ and where a plug-in copies out of shared memory, each block with its \
                 SAFETY line and a test",
        check: absent::unsafe_code,
    },
    Rule {
        name: "no-glob-export",
        reason: "a reader must see in lib.rs what a room offers: export by name",
        check: absent::glob_exports,
    },
    Rule { name: "prelude-size", reason: "a prelude has at most 12 names", check: absent::prelude_size },
    Rule {
        name: "no-drawers",
        reason: "a name for everything says nothing: name the module after its idea",
        check: layout::drawers,
    },
    Rule {
        name: "file-length",
        reason: "past 500 lines a file holds more than one idea: split it by idea",
        check: layout::file_length,
    },
    Rule {
        name: "crate-doc",
        reason: "lib.rs opens with its doc, and that with the question the crate answers",
        check: layout::crate_docs,
    },
    Rule {
        name: "room-readme",
        reason: "each room has a page that says what belongs into it and what does not",
        check: layout::room_readmes,
    },
    Rule { name: "named-files", reason: "a page names only files that exist", check: layout::named_files },
    Rule {
        name: "reading-list",
        reason: "the whole loop is read in ten minutes: at most six files and 700 lines together",
        check: pages::reading_list,
    },
    Rule {
        name: "prose-width",
        reason: "prose is read in lines of at most 110 columns: break the line, or better, say it shorter",
        check: pages::prose_width,
    },
    Rule {
        name: "script-width",
        reason: "scripts and styles are read in lines of at most 120 columns, which no formatter sees to: break the line",
        check: pages::script_width,
    },
    Rule {
        name: "negative-flags",
        reason: "`--stop-return -100` is a number and no unknown flag: give an argument that may be negative \
                 `allow_negative_numbers = true`",
        check: flags::negative,
    },
];

/// Every violation in the repository at `root`, rule by rule.
pub(crate) fn check(root: &Path) -> Result<Vec<Violation>> {
    Ok(violations(&Repo::load(root)?))
}

fn violations(repo: &Repo) -> Vec<Violation> {
    let mut all = Vec::new();
    for rule in RULES {
        all.extend((rule.check)(repo).into_iter().map(|finding| Violation {
            finding,
            rule: rule.name,
            reason: rule.reason,
        }));
    }
    all
}
