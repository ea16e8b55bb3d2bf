//! Which runs and sweeps there are below some folders.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

use super::open::{Folder, Place};

/// How deep runs may lie below a folder that is watched: `runs/`, `sweeps/NAME/trial-0001-s1`, and some more.
const MAX_DEPTH: usize = 6;

/// The maximal number of runs, which bounds memory and the length of the list.
const MAX_RUNS: usize = 20_000;

/// The maximal number of folders and links that are looked into, and of names that are read of one folder.
const MAX_FOLDERS: usize = 200_000;

/// What is in a folder of a run.
const OF_RUNS: [&str; 2] = ["results.jsonl", "run.json"];

/// What is in a folder of a sweep.
const OF_SWEEPS: [&str; 2] = ["sweep.toml", "base.toml"];

/// What is in a folder of a trial.
const OF_TRIALS: &str = "trial.json";

/// Folders in which no run lies.
const OTHERS: [&str; 3] = ["checkpoints", "videos", "target"];

/// What was found, by the paths without links.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) runs: BTreeMap<PathBuf, FoundRun>,
    pub(crate) sweeps: BTreeMap<PathBuf, FoundSweep>,
    pub(crate) problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundRun {
    pub(crate) place: Place,
    /// The folder of its sweep.
    pub(crate) sweep: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundSweep {
    pub(crate) place: Place,
    /// The folders of its trials.
    pub(crate) trials: BTreeSet<PathBuf>,
}

/// Looks into folders, and those below them.
pub(crate) fn find(roots: &[PathBuf]) -> Found {
    let mut search = Search::default();
    for named in roots {
        match fs::canonicalize(named) {
            Ok(path) => search.roots.push(Root { named: named.clone(), path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                search.found.problems.push(format!("{} is not there yet", named.display()));
            }
            Err(error) => search.found.problems.push(unread(named, &error)),
        }
    }
    for Root { named, path } in search.roots.clone() {
        match Folder::named(&path) {
            Ok(folder) => search.look_into(Place::named(&path), &folder, 0),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                search.found.problems.push(format!("{} is no folder", named.display()));
            }
            Err(error) => search.found.problems.push(unread(&named, &error)),
        }
    }
    if search.is_full() {
        let text = format!("only {} runs are shown: watch fewer folders", search.found.runs.len());
        search.found.problems.push(text);
    }
    search.found()
}

#[derive(Default)]
struct Search {
    roots: Vec<Root>,
    found: Found,
    seen: BTreeSet<PathBuf>,
    /// Folders with a `trial.json`.
    trials: Vec<PathBuf>,
}

/// A folder that the user has named.
#[derive(Clone)]
struct Root {
    /// As the user has named it.
    named: PathBuf,
    /// Without links.
    path: PathBuf,
}

impl Search {
    fn look_into(&mut self, place: Place, folder: &Folder, depth: usize) {
        let path = place.path();
        if self.is_full() || !self.seen.insert(path.to_owned()) {
            return;
        }
        let entries = match folder.entries() {
            Ok(entries) => entries,
            Err(error) => return self.found.problems.push(unread(path, &error)),
        };
        let (mut n_names, mut files, mut below) = (0, BTreeSet::new(), Vec::new());
        for (name, kind) in entries.take(MAX_FOLDERS) {
            n_names += 1;
            let known = OF_RUNS.into_iter().chain(OF_SWEEPS).chain([OF_TRIALS]).find(|known| name == *known);
            files.extend(known);
            let is_other = name.as_encoded_bytes().starts_with(b".") || OTHERS.iter().any(|other| name == *other);
            if !is_other && matches!(kind, FileType::Directory | FileType::Symlink) {
                below.push((name, kind));
            }
        }
        if n_names == MAX_FOLDERS {
            let text = format!("{} is not read to its end: it has more than {MAX_FOLDERS} names", path.display());
            self.found.problems.push(text);
        }
        if files.contains(OF_TRIALS) {
            self.trials.push(path.to_owned());
        }
        if OF_RUNS.into_iter().any(|name| files.contains(name)) {
            // What lies in it are its own earlier logs.
            self.found.runs.insert(path.to_owned(), FoundRun { place, sweep: None });
            return;
        }
        if OF_SWEEPS.into_iter().all(|name| files.contains(name)) {
            let sweep = FoundSweep { place: place.clone(), trials: BTreeSet::new() };
            self.found.sweeps.insert(path.to_owned(), sweep);
        }
        if depth == MAX_DEPTH {
            return;
        }
        for (name, kind) in below {
            match kind {
                FileType::Symlink => self.follow(&place, folder, &name, depth),
                _ => self.enter(place.below(&name), folder.folder(&name), depth + 1),
            }
        }
    }

    /// Looks into the folder that a link such as `latest` names, if that is in a folder that is watched.
    ///
    /// The path is taken as it is written: where it leads is not looked at, which would tell the readers of
    /// the page what there is.
    fn follow(&mut self, place: &Place, folder: &Folder, name: &OsStr, depth: usize) {
        let link = place.path().join(name);
        if self.is_full() || !self.seen.insert(link.clone()) {
            return;
        }
        let Ok(target) = folder.link(name) else { return };
        let path = without_dots(&place.path().join(&target));
        let Some((root, below)) = self.roots.iter().find_map(|root| Some((root, root.path_below(&path)?))) else {
            self.found.problems.push(format!(
                "{} is a link out of the folders that are watched, to {}, and is not followed: if there are \
                 runs, watch that folder, too",
                link.display(),
                target.display()
            ));
            return;
        };
        let place = Place::named(&root.path).below(below);
        let opened = place.open();
        self.enter(place, opened, depth + 1);
    }

    fn enter(&mut self, place: Place, opened: io::Result<Folder>, depth: usize) {
        use io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
        match opened {
            Ok(folder) => self.look_into(place, &folder, depth),
            // It is gone by now, or has become a link; or a link led to no folder.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidInput) => {}
            Err(error) => self.found.problems.push(unread(place.path(), &error)),
        }
    }

    fn is_full(&self) -> bool {
        self.seen.len() >= MAX_FOLDERS || self.found.runs.len() >= MAX_RUNS
    }

    /// What was found, each trial with the sweep in whose folder it lies, by whatever link it was reached.
    fn found(self) -> Found {
        let Self { mut found, trials, .. } = self;
        for (path, run) in &mut found.runs {
            run.sweep = path.parent().filter(|parent| found.sweeps.contains_key(*parent)).map(Path::to_owned);
        }
        for trial in trials {
            if let Some(sweep) = trial.parent().and_then(|parent| found.sweeps.get_mut(parent)) {
                sweep.trials.insert(trial);
            }
        }
        found
    }
}

impl Root {
    /// The part of a path after that of this folder, with or without links; `None` if it is elsewhere.
    fn path_below(&self, path: &Path) -> Option<PathBuf> {
        let named = std::path::absolute(&self.named).ok()?;
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(without_dots(&named))).map(Path::to_owned).ok()
    }
}

/// An absolute path without `.` and `..`.
fn without_dots(path: &Path) -> PathBuf {
    let mut without = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                without.pop();
            }
            component => without.push(component),
        }
    }
    without
}

fn unread(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be read: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
            found.runs.iter().map(|(path, run)| (path.strip_prefix(&root).unwrap(), run.sweep.clone())).collect();
        let of = |path: &'static str| Path::new(path);
        assert_eq!(runs, [(of("a"), None), (of("b/c/d"), None), (of("s/1/trial-1"), Some(root.join("s/1")))]);
        let trials = BTreeSet::from(["s/1/trial-1", "s/1/trial-2"].map(|trial| root.join(trial)));
        assert_eq!(sweeps(&found), [(root.join("s/1"), trials)]);
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

    fn sweeps(found: &Found) -> Vec<(PathBuf, BTreeSet<PathBuf>)> {
        found.sweeps.iter().map(|(path, sweep)| (path.clone(), sweep.trials.clone())).collect()
    }

    #[test]
    fn links_are_one_run_with_what_they_lead_to_and_no_circle() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap().join("runs");
        write(&root, &["a/results.jsonl", ".kept/b/results.jsonl"]);
        symlink("a", root.join("latest")).unwrap();
        symlink("latest", root.join("link-to-a-link")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink(".", root.join("round")).unwrap();
        symlink("../runs/./.kept/b", root.join("b")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let found = find(&[root.join("latest"), root.clone()]);
        assert_eq!(found.runs.into_keys().collect::<Vec<_>>(), [root.join(".kept/b"), root.join("a")]);
        assert!(matches!(&*found.problems, [up] if up.contains("runs/up is a link out of")), "{:?}", found.problems);
    }

    #[test]
    fn a_link_out_of_the_folders_is_not_followed_and_the_problem_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        write(&root, &["runs/a/results.jsonl", "mine/b/results.jsonl", "runs/inside/c"]);
        for (name, target) in
            [("absolute", root.join("mine/b")), ("relative", "../mine/b".into()), ("inside/up", "../../mine".into())]
        {
            symlink(target, root.join("runs").join(name)).unwrap();
        }
        // Through a folder that is a link itself.
        symlink("inside/up/b", root.join("runs/hidden")).unwrap();
        symlink(root.join("mine"), root.join("watched")).unwrap();
        let found = find(&[root.join("runs")]);
        assert_eq!(found.runs.into_keys().collect::<Vec<_>>(), [root.join("runs/a")]);
        assert_eq!(found.problems.len(), 3, "{:?}", found.problems);
        let expected = format!(
            "{0}/runs/relative is a link out of the folders that are watched, to ../mine/b, and is not followed: if \
             there are runs, watch that folder, too",
            root.display()
        );
        assert!(found.problems.contains(&expected), "{:?}", found.problems);
        // A user may name a link.
        for mine in ["mine", "watched"] {
            let found = find(&[root.join("runs"), root.join(mine)]);
            let runs: Vec<_> = found.runs.into_keys().collect();
            assert_eq!((runs, found.problems), (vec![root.join("mine/b"), root.join("runs/a")], vec![]), "{mine}");
        }
    }

    #[test]
    fn a_link_to_the_name_by_which_a_folder_is_watched_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        write(&root, &["disk/.kept/a/results.jsonl"]);
        symlink("disk", root.join("runs")).unwrap();
        symlink(root.join("runs/.kept/a"), root.join("disk/a")).unwrap();
        let found = find(&[root.join("runs")]);
        assert_eq!((found.runs.into_keys().collect(), found.problems), (vec![root.join("disk/.kept/a")], vec![]));
    }

    #[test]
    fn a_trial_is_one_of_its_sweep_even_if_a_link_led_to_it_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        write(&root, &["s/sweep.toml", "s/base.toml", "s/trial-1/trial.json", "s/trial-1/run.json", "a/b"]);
        symlink(root.join("s/trial-1"), root.join("a/latest")).unwrap();
        let (sweep, trial) = (root.join("s"), root.join("s/trial-1"));
        let runs = |found: &Found| -> Vec<_> {
            found.runs.iter().map(|(path, run)| (path.clone(), run.sweep.clone())).collect()
        };
        for roots in [vec![root.join("a"), sweep.clone()], vec![trial.clone(), root.clone()], vec![sweep.clone()]] {
            let found = find(&roots);
            assert_eq!(runs(&found), [(trial.clone(), Some(sweep.clone()))], "{roots:?}");
            assert_eq!(sweeps(&found), [(sweep.clone(), BTreeSet::from([trial.clone()]))], "{roots:?}");
        }
        // Of a sweep that is not watched one trial would be a wrong picture.
        let found = find(std::slice::from_ref(&trial));
        assert_eq!((runs(&found), found.sweeps.len()), (vec![(trial, None)], 0));
    }
}
