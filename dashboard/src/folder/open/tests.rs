use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn why(place: &Place, name: &str) -> String {
    place.text(name).unwrap_err().to_string()
}

#[test]
fn only_regular_files_that_are_small_and_text_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let text = || Place::named(folder.path()).text("file");
    let kind = || text().unwrap_err().kind();
    assert_eq!(kind(), io::ErrorKind::NotFound);
    fs::write(&path, "x".repeat(MAX_BYTES as usize)).unwrap();
    assert_eq!(text().unwrap().len() as u64, MAX_BYTES);
    fs::write(&path, "x".repeat(MAX_BYTES as usize + 1)).unwrap();
    assert_eq!(kind(), io::ErrorKind::FileTooLarge);
    // A hole, of more than the disk has.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
    assert_eq!(kind(), io::ErrorKind::FileTooLarge);
    fs::write(&path, b"\xff").unwrap();
    assert_eq!(kind(), io::ErrorKind::InvalidData);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(kind(), io::ErrorKind::InvalidInput);
    fs::remove_dir(&path).unwrap();
    let _socket = UnixListener::bind(&path).unwrap();
    assert_eq!(text().unwrap_err().to_string(), "it is not a regular file");
}

#[test]
fn no_link_below_the_folder_that_is_named_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("runs/a/videos")).unwrap();
    fs::write(root.join("secret"), "classified").unwrap();
    fs::write(root.join("runs/a/file"), "open").unwrap();
    fs::write(root.join("runs/a/videos/file"), "a video").unwrap();
    symlink(root.join("secret"), root.join("runs/a/absolute")).unwrap();
    symlink("../../secret", root.join("runs/a/relative")).unwrap();
    symlink("file", root.join("runs/a/beside")).unwrap();
    symlink("nowhere", root.join("runs/a/dangling")).unwrap();
    symlink("/dev/zero", root.join("runs/a/device")).unwrap();
    symlink("/proc/self/environ", root.join("runs/a/proc")).unwrap();
    symlink("a", root.join("runs/latest")).unwrap();
    symlink("runs", root.join("in-its-place")).unwrap();
    assert!(Place::named(&root.join("in-its-place")).open().is_err());
    let run = Place::named(&root.join("runs")).below("a");
    assert_eq!(run.text("file").unwrap(), "open");
    for link in ["absolute", "relative", "beside", "dangling", "device", "proc"] {
        assert_eq!(why(&run, link), "it is a link, and links in watched folders are not followed", "{link}");
        assert_ne!(run.stamp(link), Stamp::default());
    }
    let secret = fs::metadata(root.join("secret")).unwrap();
    assert_ne!(run.stamp("absolute").bytes(), Some(secret.len()));
    // Nor one on the way.
    for path in ["latest", "latest/videos"] {
        let latest = Place::named(&root.join("runs")).below(path);
        assert!(latest.open().is_err() && latest.text("file").is_err() && latest.stamp("file") == Stamp::default());
    }
    assert_eq!(run.below("videos").text("file").unwrap(), "a video");
}

#[test]
fn names_that_are_paths_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("runs/below")).unwrap();
    for name in ["secret", "runs/file", "runs/below/file"] {
        fs::write(folder.path().join(name), "text").unwrap();
    }
    let runs = Place::named(&folder.path().join("runs"));
    let secret = folder.path().join("secret").to_str().unwrap().to_owned();
    for name in ["../secret", "below/file", "./file", "file/", "below/../file", &secret, "..", ".", "", "/", "file\0"] {
        assert!(runs.file(name).is_err(), "{name}");
    }
    for path in ["..", "../runs", "below/..", "below/../../runs"] {
        assert!(runs.below(path).open().is_err(), "{path}");
    }
    assert!(runs.below("/etc").open().is_err());
    assert!(runs.file("file").is_ok());
}

#[test]
fn a_hard_link_is_read_only_if_who_made_it_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, secret) = (folder.path().join("runs"), folder.path().join("secret"));
    fs::create_dir(&runs).unwrap();
    fs::write(&secret, "classified").unwrap();
    fs::hard_link(&secret, runs.join("run.json")).unwrap();
    let place = Place::named(&runs);
    for (of_folder, of_file, is_read) in
        [(0o755, 0o600, true), (0o700, 0o600, true), (0o775, 0o600, false), (0o757, 0o640, false), (0o777, 0o644, true)]
    {
        mode(&runs, of_folder);
        mode(&secret, of_file);
        let read = place.text("run.json");
        assert_eq!(read.is_ok(), is_read, "{of_folder:o} {of_file:o}");
        assert!(is_read || read.unwrap_err().to_string().starts_with("it is a hard link to a file"));
    }
    mode(&secret, 0o600);
    fs::remove_file(&secret).unwrap();
    assert_eq!(place.text("run.json").unwrap(), "classified", "it is the only name now");
}

/// The check and the use of a name are one, so that nothing can come in between.
#[test]
fn what_takes_the_place_of_a_file_or_folder_at_any_time_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("runs/run")).unwrap();
    fs::create_dir_all(root.join("secret")).unwrap();
    fs::write(root.join("secret/file"), "classified").unwrap();
    fs::write(root.join("runs/run/file"), "open").unwrap();
    // What is exchanged for what: a file for a link to one, and the folder for a link to one.
    symlink("../../secret/file", root.join("runs/run/other-file")).unwrap();
    symlink("../secret", root.join("runs/other-run")).unwrap();
    let runs = Place::named(&root.join("runs"));
    let run = runs.below("run");
    for (a, b) in [("runs/run/file", "runs/run/other-file"), ("runs/run", "runs/other-run")] {
        let (a, b, between) = (root.join(a), root.join(b), root.join("runs/between"));
        let is_done = AtomicBool::new(false);
        let (mut n_open, mut n_refused, mut n_secret) = (0, 0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    // Twice, so that it ends as it began: the next pair needs the file in its place.
                    for (from, to) in [(&a, &between), (&b, &a), (&between, &b)].repeat(2) {
                        fs::rename(from, to).unwrap();
                    }
                }
            });
            while (n_open < 500 || n_refused < 500) && n_secret == 0 {
                match run.text("file").as_deref() {
                    Ok("open") => n_open += 1,
                    Ok(_) => n_secret += 1,
                    Err(_) => n_refused += 1,
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!(n_secret, 0);
    }
}
