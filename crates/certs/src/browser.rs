//! [`pkcs12`]: the certificate and the key of a client in one file, which browsers import (PKCS #12, RFC 7292).

use crate::error::Error;
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns the file for the client `name`, and its password. `certificates` are those of the client and of its authority.
pub(crate) fn pkcs12(name: &str, certificates: [&str; 2], key: &str) -> Result<(Vec<u8>, String), Error> {
    let failed = |why: &dyn std::fmt::Display| Error::Failed(format!("cannot make a file for browsers: {why}"));
    let mut chain = Vec::new();
    for text in certificates {
        let der = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| failed(&error))?;
        chain.push(Certificate::from_der(&der).map_err(|error| failed(&error))?);
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| failed(&error))?;
    let key = PrivateKey::from_der(key.secret_der()).map_err(|error| failed(&error))?;
    let mut store = KeyStore::new();
    store.add_entry(name, KeyStoreEntry::PrivateKeyChain(PrivateKeyChain::new(name.as_bytes(), key, chain)));
    let password = password().map_err(|error| failed(&error))?;
    let file = store.writer(&password).write().map_err(|error| failed(&error))?;
    Ok((file, password))
}

/// Returns 80 random bits as text.
fn password() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
