//! A disk in memory that loses what was not synced.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use pronk_policy::Rng;

use crate::checkpoint::disk::Disk;

/// One folder of files. Clones are the same disk.
#[derive(Clone, Default)]
pub(super) struct MemDisk(Arc<Mutex<State>>);

#[derive(Clone, Default)]
struct State {
    files: Vec<File>,
    /// As programs see it: names and numbers of files.
    names: BTreeMap<PathBuf, usize>,
    /// As it was when the folder was last synced, and what was done to it since.
    synced_names: BTreeMap<PathBuf, usize>,
    since: Vec<NameOp>,
    operations: usize,
    fault: Option<Fault>,
    is_dead: bool,
}

#[derive(Clone, Default)]
struct File {
    content: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Clone)]
enum NameOp {
    Add(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

/// What goes wrong, at the operation of this number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The process is killed before it.
    KilledBefore(usize),
    /// The process is killed after it.
    KilledAfter(usize),
    /// The disk is full from there on.
    Full(usize),
}

impl MemDisk {
    pub(super) fn with(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    /// Operations so far.
    pub(super) fn operations(&self) -> usize {
        self.state().operations
    }

    /// The disk as another process finds it after a kill: all operations are there.
    pub(super) fn after_a_kill(&self) -> Self {
        let state = State { fault: None, is_dead: false, operations: 0, ..self.state().clone() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The disk after a power loss: of operations that were not synced, a random subset is there.
    pub(super) fn after_a_power_loss(&self, rng: &mut Rng) -> Self {
        let state = self.state().clone();
        let mut names = state.synced_names;
        for operation in state.since {
            if rng.below(2) == 0 {
                operation.apply(&mut names);
            }
        }
        let lose = |file: File| {
            let content = match (file.content == file.synced, rng.below(4)) {
                (true, _) | (false, 0) => file.content,
                (false, 1) => file.synced,
                // The length is there, but not all blocks.
                (false, 2) => {
                    let mut content = file.content;
                    let from = rng.below(content.len() as u64 + 1) as usize;
                    content[from..].fill(0);
                    content
                }
                (false, _) => file.content[..rng.below(file.content.len() as u64 + 1) as usize].to_vec(),
            };
            File { synced: content.clone(), content }
        };
        let files = state.files.into_iter().map(lose).collect();
        Self(Arc::new(Mutex::new(State { files, synced_names: names.clone(), names, ..State::default() })))
    }

    /// Flips a bit of a file.
    pub(super) fn flip(&self, path: &Path, bit: usize) {
        let mut state = self.state();
        let file = state.names[path];
        state.files[file].content[bit / 8] ^= 1 << (bit % 8);
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// One operation that changes the disk, or what goes wrong with it.
    fn change<R>(&self, work: impl FnOnce(&mut State) -> io::Result<R>, needs_room: bool) -> io::Result<R> {
        let mut state = self.state();
        let (number, killed) = (state.operations, || Err(io::Error::other("killed")));
        state.operations += 1;
        match state.fault {
            _ if state.is_dead => killed(),
            Some(Fault::KilledBefore(at)) if number == at => {
                state.is_dead = true;
                killed()
            }
            Some(Fault::KilledAfter(at)) if number == at => {
                let _ = work(&mut state);
                state.is_dead = true;
                killed()
            }
            Some(Fault::Full(from)) if number >= from && needs_room => Err(io::ErrorKind::StorageFull.into()),
            _ => work(&mut state),
        }
    }
}

impl NameOp {
    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Add(path, file) => drop(names.insert(path, file)),
            Self::Rename(from, to, file) => {
                names.remove(&from);
                names.insert(to, file);
            }
            Self::Remove(path) => drop(names.remove(&path)),
        }
    }
}

impl State {
    fn do_to_names(&mut self, operation: NameOp) {
        operation.clone().apply(&mut self.names);
        self.since.push(operation);
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemDisk {
    fn lock(&self, _dir: &Path) -> io::Result<Box<dyn Send>> {
        Ok(Box::new(()))
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn make_folder(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        // The only folder is always there.
        path.extension().is_none() || self.state().names.contains_key(path)
    }

    fn list(&self, _dir: &Path) -> io::Result<Vec<String>> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(self.state().names.keys().map(name).collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let state = self.state();
        let content = state.files[state.file(path)?].content.clone();
        Ok(Box::new(Cursor::new(content)))
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.change(
            |state| {
                state.files.push(File { content: content.to_vec(), synced: Vec::new() });
                let file = state.files.len() - 1;
                state.do_to_names(NameOp::Add(path.to_owned(), file));
                Ok(())
            },
            true,
        )
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.change(
            |state| {
                let file = state.file(path)?;
                state.files[file].synced = state.files[file].content.clone();
                Ok(())
            },
            false,
        )
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(
            |state| {
                let file = state.file(from)?;
                state.do_to_names(NameOp::Rename(from.to_owned(), to.to_owned(), file));
                Ok(())
            },
            false,
        )
    }

    fn sync_folder(&self, _dir: &Path) -> io::Result<()> {
        self.change(
            |state| {
                state.since.clear();
                state.synced_names = state.names.clone();
                Ok(())
            },
            false,
        )
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(
            |state| {
                state.file(path)?;
                state.do_to_names(NameOp::Remove(path.to_owned()));
                Ok(())
            },
            false,
        )
    }
}
