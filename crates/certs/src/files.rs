//! Files of certificates and keys.

use crate::error::Error;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const AUTHORITY_KEY: &str = "authority.key";
pub(crate) const SERVER: &str = "server.pem";
pub(crate) const SERVER_KEY: &str = "server.key";
pub(crate) const REVOKED: &str = "revoked.pem";
pub(crate) const ISSUED: &str = "issued";
pub(crate) const CLIENT: &str = "client.pem";
pub(crate) const CLIENT_KEY: &str = "client.key";
pub(crate) const CLIENT_BROWSER: &str = "client.p12";

/// Permissions of a private key, and of everything else.
const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// Creates a directory for certificates, with its parents.
pub(crate) fn make_directory(path: &Path) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(|error| Error::File { action: "create", path: path.to_path_buf(), error })
}

/// Locks the directory of an authority until the returned file is dropped: its files change together.
pub(crate) fn lock(directory: &Path) -> Result<File, Error> {
    let locked = File::open(directory).and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| Error::File { action: "lock", path: directory.to_path_buf(), error })
}

/// Replaces a file as a whole. A name that ends in `.key` or `.p12` is a private key.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    let mode = if path.extension().is_some_and(|it| it == "key" || it == "p12") { PRIVATE } else { PUBLIC };
    let beside = PathBuf::from(format!("{}.new", path.display()));
    let written = (|| {
        remove(&beside)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(content.as_ref())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    })();
    written.map_err(|error| {
        let _ = remove(&beside);
        Error::File { action: "write", path: path.to_path_buf(), error }
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::File { action: "read", path: path.to_path_buf(), error })
}

/// Returns the certificates in a file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    all_in(path, "it has no certificate")
}

/// Returns the private key in a file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, error))
}

/// Returns the lists of revoked certificates in a file. Without a list, all revoked certificates would count as valid, so a
/// missing file and one without a list are errors.
pub(crate) fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    all_in(path, "it has no list of revoked certificates")
}

/// Returns the items of one kind in a file. `none` is the reason why a file without them cannot be used.
fn all_in<T: PemObject>(path: &Path, none: &str) -> Result<Vec<T>, Error> {
    let all = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<T>, _>>);
    let all = all.map_err(|error| unreadable(path, error))?;
    if all.is_empty() {
        return Err(content(path, none));
    }
    Ok(all)
}

fn unreadable(path: &Path, error: pem::Error) -> Error {
    match error {
        pem::Error::Io(error) => Error::File { action: "read", path: path.to_path_buf(), error },
        pem::Error::NoItemsFound => content(path, "it does not have what its name says"),
        other => content(path, &other.to_string()),
    }
}

/// Returns the error of a file with wrong content.
pub(crate) fn content(path: &Path, why: &str) -> Error {
    Error::Content { path: PathBuf::from(path), why: why.to_string() }
}
