//! TLS 1.3 with certificates on both sides.

use crate::error::Error;
use crate::files;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files that a service reads.
const OF_SERVICE: [&str; 4] = [files::AUTHORITY, files::SERVER, files::SERVER_KEY, files::REVOKED];
/// The protocol inside the connection.
const HTTP: &[u8] = b"http/1.1";

/// Identifies the contents of the files of a service: inode, size and time of the last change of each.
type Stamp = [Option<(u64, u64, i64, i64)>; OF_SERVICE.len()];

/// The TLS configuration of a service. Changed files take effect with the next connection.
#[derive(Debug)]
pub struct ServerTls {
    directory: PathBuf,
    latest: Mutex<(Stamp, Arc<ServerConfig>)>,
}

impl ServerTls {
    /// Reads the certificates in `directory`.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn open(directory: &Path) -> Result<ServerTls, Error> {
        let stamp = stamp(directory);
        let latest = Mutex::new((stamp, Arc::new(server(directory)?)));
        Ok(ServerTls { directory: directory.to_path_buf(), latest })
    }

    /// Returns the configuration for a new connection.
    ///
    /// # Errors
    /// A file has changed and cannot be used. The connection must be refused, because its certificate may be revoked.
    pub fn config(&self) -> Result<Arc<ServerConfig>, Error> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.directory);
        if now != latest.0 {
            *latest = (now, Arc::new(server(&self.directory)?));
        }
        Ok(Arc::clone(&latest.1))
    }
}

fn stamp(directory: &Path) -> Stamp {
    OF_SERVICE.map(|name| {
        let found = fs::metadata(directory.join(name)).ok()?;
        Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the certificates of the authority in `directory`.
fn roots(directory: &Path) -> Result<RootCertStore, Error> {
    let path = directory.join(files::AUTHORITY);
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates(&path)? {
        roots.add(certificate).map_err(|error| files::content(&path, &error.to_string()))?;
    }
    Ok(roots)
}

fn server(directory: &Path) -> Result<ServerConfig, Error> {
    let failed = |error: rustls::Error| Error::Failed(error.to_string());
    let (chain, key) = (directory.join(files::SERVER), directory.join(files::SERVER_KEY));
    let revoked = directory.join(files::REVOKED);
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(directory)?), provider());
    let verifier = verifier.with_crls(files::revocations(&revoked)?).only_check_end_entity_revocation().build();
    let verifier = verifier.map_err(|error| files::content(&revoked, &error.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).map_err(failed)?;
    let config = config.with_client_cert_verifier(verifier);
    let config = config.with_single_cert(files::certificates(&chain)?, files::private_key(&key)?);
    let mut config = config.map_err(|error| files::content(&chain, &error.to_string()))?;
    config.alpn_protocols = vec![HTTP.to_vec()];
    // A resumed connection would not be checked against the present list of revoked certificates.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(config)
}

/// Returns the TLS configuration of a client that uses no TLS: it accepts no certificate.
///
/// # Errors
/// The cryptographic library does not support TLS 1.3.
pub fn client_without_tls() -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let config = config.map_err(|error| Error::Failed(error.to_string()))?;
    Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// Returns the TLS configuration of a client with the certificates in `directory`.
///
/// # Errors
/// A file is missing or cannot be used.
pub fn client(directory: &Path) -> Result<ClientConfig, Error> {
    let failed = |error: rustls::Error| Error::Failed(error.to_string());
    let (chain, key) = (directory.join(files::CLIENT), directory.join(files::CLIENT_KEY));
    let config = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).map_err(failed)?;
    let config = config.with_root_certificates(roots(directory)?);
    let config = config.with_client_auth_cert(files::certificates(&chain)?, files::private_key(&key)?);
    let mut config = config.map_err(|error| files::content(&chain, &error.to_string()))?;
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(config)
}
