//! Certificates as files, and what is read from them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use x509_parser::pem::parse_x509_pem;

/// The certificate of one end of a link, as paths to PEM files.
///
/// # Example
/// ```
/// use pronk_hosts_zenoh::Certificates;
///
/// let certificates = Certificates::in_folder("/etc/pronk", "host-a");
/// assert!(certificates.key.ends_with("host-a.key"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The certificate of the authority that signed those of all ends.
    pub ca: PathBuf,
    /// The certificate of this end. Its common name is the name of the host.
    pub certificate: PathBuf,
    /// The private key of `certificate`.
    pub key: PathBuf,
}

impl Certificates {
    /// The files `ca.pem`, `<name>.pem` and `<name>.key` of a folder, as
    /// [`make_certificates`](crate::make_certificates) writes them.
    pub fn in_folder(folder: impl AsRef<Path>, name: &str) -> Self {
        let folder = folder.as_ref();
        Self {
            ca: folder.join("ca.pem"),
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
        }
    }

    /// The common name of the certificate, after a look at all three files.
    pub(crate) fn common_name(&self) -> Result<String, String> {
        let readable = |path: &Path| fs::read(path).map_err(|e| format!("`{}` cannot be read: {e}", path.display()));
        readable(&self.key)?;
        read_certificate(&self.ca, &readable(&self.ca)?)?;
        let name = read_certificate(&self.certificate, &readable(&self.certificate)?)?;
        name.ok_or_else(|| format!("`{}` has no common name, which names the host", self.certificate.display()))
    }
}

/// The common name of a certificate, unless its time is over.
fn read_certificate(path: &Path, pem: &[u8]) -> Result<Option<String>, String> {
    let broken = |e: &dyn fmt::Display| format!("`{}` is not a certificate in PEM: {e}", path.display());
    let (_, pem) = parse_x509_pem(pem).map_err(|e| broken(&e))?;
    let certificate = pem.parse_x509().map_err(|e| broken(&e))?;
    let validity = certificate.validity();
    if !validity.is_valid() {
        return Err(format!(
            "`{}` is valid from {} to {}, but not now: make a new one",
            path.display(),
            validity.not_before,
            validity.not_after
        ));
    }
    let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    Ok(name.map(str::to_owned))
}

/// Whether a name can stand in a key expression and in a file name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.bytes().all(allowed) {
        return Err(format!(
            "`{name}` cannot name a host: use 1 to 64 letters, digits and `-`, `_`, `.`, not beginning with `.`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_wildcards_or_slashes_are_refused() {
        for name in ["host-a", "node_3.cluster", "A"] {
            check_name(name).unwrap();
        }
        for name in ["", "*", "a/b", "a*", "$*", "@a", "..", "ä", "a b", &"a".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
