//! Making certificates.

use std::fs;

use pronk_hosts_zenoh::{Certificates, MakeError, Validity, make_certificates, make_certificates_valid};

#[test]
fn a_later_call_adds_hosts_of_the_same_authority_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let written = make_certificates(folder.path(), &["learner.example", "10.0.0.7"], &["host-a"]).unwrap();
    assert_eq!(written.len(), 6);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let before = (read("ca.pem"), read("ca.key"), read("learner.key"), read("host-a.key"), read("host-a.pem"));

    let written = make_certificates(folder.path(), &["learner.example"], &["host-a", "host-b"]).unwrap();
    assert_eq!(written, [folder.path().join("host-b.key"), folder.path().join("host-b.pem")]);
    let after = (read("ca.pem"), read("ca.key"), read("learner.key"), read("host-a.key"), read("host-a.pem"));
    assert!(before == after);
    assert!(make_certificates(folder.path(), &[], &[]).unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_the_keys() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path(), &["localhost"], &["host-a"]).unwrap();
    for name in ["ca.key", "learner.key", "host-a.key"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_key_without_its_certificate_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path(), &[], &["host-a"]).unwrap();
    fs::remove_file(folder.path().join("host-a.pem")).unwrap();
    let refused = make_certificates(folder.path(), &[], &["host-a"]).unwrap_err();
    assert!(matches!(&refused, MakeError::Half(path) if path.ends_with("host-a.pem")), "{refused}");
}

#[test]
fn a_certificate_can_be_made_for_more_days_than_the_calendar_has() {
    let folder = tempfile::tempdir().unwrap();
    let written = make_certificates_valid(folder.path(), &[], &["host-a"], Validity::Days(u32::MAX)).unwrap();
    assert!(written.iter().any(|path| path.ends_with("host-a.pem")), "{written:?}");
}

#[test]
fn names_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ca", "learner", "../up", "a/b", "*", ""] {
        let refused = make_certificates(folder.path(), &[], &[name]).unwrap_err();
        assert!(matches!(refused, MakeError::Name(_)), "{refused}");
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn keys_do_not_show_in_debug_output() {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path(), &[], &["host-a"]).unwrap();
    let certificates = Certificates::in_folder(folder.path(), "host-a");
    let key = fs::read_to_string(&certificates.key).unwrap();
    let secret = key.lines().nth(1).unwrap();
    assert!(key.contains("PRIVATE KEY") && !format!("{certificates:?}").contains(secret));
}
