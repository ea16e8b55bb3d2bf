//! Makes certificates.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use crate::certificates::check_name;

/// The common name of the certificate that [`make_certificates`] makes for the learner.
pub const LEARNER: &str = "learner";

const CA: &str = "ca";
const CA_DAYS: u32 = 10 * 365;

/// How long new certificates are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// From a day ago, since clocks differ, for so many days; at most to the end of the year 9999.
    Days(u32),
    /// They have expired an hour ago. For tests of what happens then.
    Expired,
}

impl Default for Validity {
    /// Three years.
    fn default() -> Self {
        Self::Days(3 * 365)
    }
}

/// Why certificates could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// A name that cannot be used.
    #[error("{0}")]
    Name(String),
    /// One of a key and its certificate is there without the other.
    #[error("`{0}` is missing although its other half is there: bring it back, or move the half away")]
    Half(PathBuf),
    /// A file cannot be read or written.
    #[error("`{path}`: {source}", path = .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A certificate or key cannot be read or made.
    #[error("certificate of `{name}`: {source}")]
    Certificate {
        /// Whose it is.
        name: String,
        /// What happened.
        source: rcgen::Error,
    },
}

/// Makes certificates that are valid for three years. See [`make_certificates_valid`].
///
/// # Errors
/// Names that cannot be used, and files that cannot be read or written.
///
/// # Example
/// ```
/// use pronk_hosts_zenoh::{Certificates, make_certificates};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// make_certificates(folder.path(), &["learner.example", "10.0.0.7"], &["host-a", "host-b"])?;
/// let of_the_learner = Certificates::in_folder(folder.path(), "learner");
/// let of_host_a = Certificates::in_folder(folder.path(), "host-a");
/// # assert!(of_the_learner.key.exists() && of_host_a.certificate.exists());
/// # Ok(())
/// # }
/// ```
pub fn make_certificates(folder: &Path, learner_hosts: &[&str], names: &[&str]) -> Result<Vec<PathBuf>, MakeError> {
    make_certificates_valid(folder, learner_hosts, names, Validity::default())
}

/// Makes what a folder lacks: an authority (`ca.pem` and `ca.key`), a certificate of the learner for the DNS
/// names and IP addresses `learner_hosts` (`learner.pem` and `learner.key`, unless there are none), and one
/// of each host in `names`. Returns the files it wrote.
///
/// Nothing is overwritten: to renew a certificate, remove its two files first. A host needs `ca.pem` and its
/// own two files. `ca.key` signs new hosts: keep it away from all of them. Only the owner may read the keys.
///
/// A host's certificate cannot be used to pose as a learner.
///
/// # Errors
/// Names that cannot be used, and files that cannot be read or written.
pub fn make_certificates_valid(
    folder: &Path,
    learner_hosts: &[&str],
    names: &[&str],
    validity: Validity,
) -> Result<Vec<PathBuf>, MakeError> {
    names.iter().try_for_each(|name| check_host_name(name))?;
    let (mut maker, issuer) = Maker::with_authority(folder)?;
    if !learner_hosts.is_empty() {
        maker.end(&issuer, LEARNER, learner_hosts, validity)?;
    }
    for name in names {
        maker.end(&issuer, name, &[], validity)?;
    }
    Ok(maker.written)
}

/// Makes the certificate of a relay that hosts reach at the DNS names and IP addresses `hosts`, and an
/// authority if the folder has none. Returns the files it wrote; nothing is overwritten.
///
/// A relay's certificate cannot be used to pose as a learner, since hosts know each by its name.
///
/// # Errors
/// A name that cannot be used, no way to reach the relay, and files that cannot be read or written.
pub fn make_relay_certificate(folder: &Path, name: &str, hosts: &[&str]) -> Result<Vec<PathBuf>, MakeError> {
    check_host_name(name)?;
    if hosts.is_empty() {
        return Err(MakeError::Name(format!("hosts must reach the relay `{name}`: name its address")));
    }
    let (mut maker, issuer) = Maker::with_authority(folder)?;
    maker.end(&issuer, name, hosts, Validity::default())?;
    Ok(maker.written)
}

fn check_host_name(name: &str) -> Result<(), MakeError> {
    check_name(name).map_err(MakeError::Name)?;
    match [CA, LEARNER].contains(&name) {
        true => Err(MakeError::Name(format!("`{name}` is taken: it does not name a host"))),
        false => Ok(()),
    }
}

struct Maker<'a> {
    folder: &'a Path,
    written: Vec<PathBuf>,
}

impl<'a> Maker<'a> {
    fn with_authority(folder: &'a Path) -> Result<(Self, Issuer<'static, KeyPair>), MakeError> {
        fs::create_dir_all(folder).map_err(|source| MakeError::File { path: folder.to_owned(), source })?;
        let mut maker = Maker { folder, written: Vec::new() };
        let issuer = maker.authority()?;
        Ok((maker, issuer))
    }

    fn authority(&mut self) -> Result<Issuer<'static, KeyPair>, MakeError> {
        let failed = |source| MakeError::Certificate { name: CA.into(), source };
        if self.exists(CA)? {
            let key = KeyPair::from_pem(&self.read(&self.path(CA, "key"))?).map_err(failed)?;
            return Issuer::from_ca_cert_pem(&self.read(&self.path(CA, "pem"))?, key).map_err(failed);
        }
        let mut params = params("pronk CA", &[], Validity::Days(CA_DAYS)).map_err(failed)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        self.write(CA, &key, &certificate.pem())?;
        Ok(Issuer::new(params, key))
    }

    /// The certificate of an end, which others reach at `hosts` if there are any.
    fn end(
        &mut self,
        issuer: &Issuer<'static, KeyPair>,
        name: &str,
        hosts: &[&str],
        validity: Validity,
    ) -> Result<(), MakeError> {
        if self.exists(name)? {
            return Ok(());
        }
        let failed = |source| MakeError::Certificate { name: name.into(), source };
        let mut params = params(name, hosts, validity).map_err(failed)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !hosts.is_empty() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, issuer).map_err(failed)?;
        self.write(name, &key, &certificate.pem())
    }

    /// Whether both files of a name are there.
    fn exists(&self, name: &str) -> Result<bool, MakeError> {
        let (key, certificate) = (self.path(name, "key"), self.path(name, "pem"));
        match (key.exists(), certificate.exists()) {
            (true, true) => Ok(true),
            (false, false) => Ok(false),
            (true, false) => Err(MakeError::Half(certificate)),
            (false, true) => Err(MakeError::Half(key)),
        }
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{name}.{extension}"))
    }

    fn read(&self, path: &Path) -> Result<String, MakeError> {
        fs::read_to_string(path).map_err(|source| MakeError::File { path: path.to_owned(), source })
    }

    fn write(&mut self, name: &str, key: &KeyPair, certificate: &str) -> Result<(), MakeError> {
        for (extension, content, mode) in [("key", key.serialize_pem().as_str(), 0o600), ("pem", certificate, 0o644)] {
            let path = self.path(name, extension);
            write_new(&path, content, mode).map_err(|source| MakeError::File { path: path.clone(), source })?;
            self.written.push(path);
        }
        Ok(())
    }
}

fn params(name: &str, hosts: &[&str], validity: Validity) -> Result<CertificateParams, rcgen::Error> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::DAY;
    params.not_after = match validity {
        Validity::Days(days) => now.saturating_add(Duration::DAY * days),
        Validity::Expired => now - Duration::HOUR,
    };
    Ok(params)
}

/// Writes a file that must not be there yet.
fn write_new(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}
