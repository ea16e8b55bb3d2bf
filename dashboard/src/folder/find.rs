//! Which runs and sweeps there are below some folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How deep runs may lie below a folder that is watched: `runs/`, `sweeps/NAME/trial-0001-s1`, and some more.
const MAX_DEPTH: usize = 6;

/// The maximal number of runs, which bounds memory and the length of the list.
const MAX_RUNS: usize = 20_000;

/// The maximal number of folders that are looked into.
const MAX_FOLDERS: usize = 200_000;

/// What is in a folder of a run.
const OF_RUNS: [&str; 2] = ["results.jsonl", "run.json"];

/// Folders in which no run lies.
const OTHERS: [&str; 3] = ["checkpoints", "videos", "target"];

/// What was found, by the paths without links.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    /// Runs, each with its sweep.
    pub(crate) runs: BTreeMap<PathBuf, Option<PathBuf>>,
    /// Sweeps, each with the folders of its trials.
    pub(crate) sweeps: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    pub(crate) problems: Vec<String>,
}

/// Looks into folders, and those below them.
pub(crate) fn find(roots: &[PathBuf]) -> Found {
    let mut search = Search::default();
    for root in roots {
        match fs::canonicalize(root) {
            Ok(path) if path.is_dir() => search.look_into(&path, 0),
            Ok(_) => search.found.problems.push(format!("{} is no folder", root.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                search.found.problems.push(format!("{} is not there yet", root.display()));
            }
            Err(error) => search.found.problems.push(format!("{} cannot be read: {error}", root.display())),
        }
    }
    if search.seen.len() >= MAX_FOLDERS || search.found.runs.len() >= MAX_RUNS {
        let text = format!("only {} runs are shown: watch fewer folders", search.found.runs.len());
        search.found.problems.push(text);
    }
    search.found()
}

#[derive(Default)]
struct Search {
    found: Found,
    seen: BTreeSet<PathBuf>,
    /// Folders with a `trial.json`.
    trials: Vec<PathBuf>,
}

impl Search {
    fn look_into(&mut self, folder: &Path, depth: usize) {
        if self.seen.len() >= MAX_FOLDERS || self.found.runs.len() >= MAX_RUNS || !self.seen.insert(folder.to_owned()) {
            return;
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.found.problems.push(format!("{} cannot be read: {error}", folder.display()));
                return;
            }
        };
        let entries: Vec<_> = entries.flatten().collect();
        let has = |name: &str| entries.iter().any(|entry| entry.file_name() == name);
        if has("trial.json") {
            self.trials.push(folder.to_owned());
        }
        if OF_RUNS.into_iter().any(has) {
            // What lies in it are its own earlier logs.
            self.found.runs.insert(folder.to_owned(), None);
            return;
        }
        if has("sweep.toml") && has("base.toml") {
            self.found.sweeps.entry(folder.to_owned()).or_default();
        }
        if depth == MAX_DEPTH {
            return;
        }
        for entry in &entries {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") || OTHERS.iter().any(|other| name == *other) {
                continue;
            }
            let Ok(kind) = entry.file_type() else { continue };
            // A link, such as `latest`, counts as what it leads to, which is looked into once.
            let below = if kind.is_symlink() { fs::canonicalize(entry.path()).ok() } else { Some(entry.path()) };
            if let Some(below) = below.filter(|below| if kind.is_symlink() { below.is_dir() } else { kind.is_dir() }) {
                self.look_into(&below, depth + 1);
            }
        }
    }

    /// What was found, each trial with the sweep in whose folder it lies, by whatever link it was reached.
    fn found(self) -> Found {
        let Self { mut found, trials, .. } = self;
        for (run, sweep) in &mut found.runs {
            *sweep = run.parent().filter(|parent| found.sweeps.contains_key(*parent)).map(Path::to_owned);
        }
        for trial in trials {
            if let Some(sweep) = trial.parent().and_then(|parent| found.sweeps.get_mut(parent)) {
                sweep.insert(trial);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[&str]) {
        for file in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    #[test]
    fn runs_are_found_wherever_they_lie_but_not_inside_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        write(&root, &["a/results.jsonl", "a/life-1/results.jsonl", "a/checkpoints/x/results.jsonl", "b/c/d/run.json"]);
        write(&root, &["notes/config.toml", ".hidden/results.jsonl", "s/1/sweep.toml", "s/1/base.toml"]);
        write(&root, &["s/1/trial-1/trial.json", "s/1/trial-1/run.json", "s/1/trial-2/trial.json"]);
        write(&root, &["1/2/3/4/5/6/7/results.jsonl"]);
        let found = find(&[root.clone(), root.join("a")]);
        let runs: Vec<_> =
            found.runs.iter().map(|(run, sweep)| (run.strip_prefix(&root).unwrap(), sweep.clone())).collect();
        let of = |path: &'static str| Path::new(path);
        assert_eq!(runs, [(of("a"), None), (of("b/c/d"), None), (of("s/1/trial-1"), Some(root.join("s/1")))]);
        let trials = BTreeSet::from(["s/1/trial-1", "s/1/trial-2"].map(|trial| root.join(trial)));
        assert_eq!(found.sweeps, BTreeMap::from([(root.join("s/1"), trials)]));
        assert!(found.problems.is_empty());
    }

    #[test]
    fn what_is_no_folder_is_a_problem_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &["file"]);
        let found = find(&[folder.path().join("none"), folder.path().join("file")]);
        assert_eq!(found.problems.len(), 2);
        assert!(found.problems[0].contains("none is not there yet"), "{:?}", found.problems);
        assert!(found.problems[1].contains("file is no folder"), "{:?}", found.problems);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_one_run_with_what_they_lead_to_and_no_circle() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap().join("runs");
        write(&root, &["a/results.jsonl"]);
        std::os::unix::fs::symlink("a", root.join("latest")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        std::os::unix::fs::symlink(".", root.join("round")).unwrap();
        assert_eq!(find(&[root.join("latest"), root.clone()]).runs.into_keys().collect::<Vec<_>>(), [root.join("a")]);
    }

    #[cfg(unix)]
    #[test]
    fn a_trial_is_one_of_its_sweep_even_if_a_link_led_to_it_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        write(&root, &["s/sweep.toml", "s/base.toml", "s/trial-1/trial.json", "s/trial-1/run.json", "a/b"]);
        std::os::unix::fs::symlink(root.join("s/trial-1"), root.join("a/latest")).unwrap();
        let (sweep, trial) = (root.join("s"), root.join("s/trial-1"));
        for roots in [vec![root.join("a"), sweep.clone()], vec![trial.clone(), root.clone()], vec![sweep.clone()]] {
            let found = find(&roots);
            assert_eq!(found.runs, BTreeMap::from([(trial.clone(), Some(sweep.clone()))]), "{roots:?}");
            assert_eq!(found.sweeps, BTreeMap::from([(sweep.clone(), BTreeSet::from([trial.clone()]))]), "{roots:?}");
        }
        // Of a sweep that is not watched one trial would be a wrong picture.
        let found = find(std::slice::from_ref(&trial));
        assert_eq!((found.runs, found.sweeps.len()), (BTreeMap::from([(trial, None)]), 0));
    }
}
