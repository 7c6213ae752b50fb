//! [`Authority`]: signs and revokes the certificates of a service and its clients.

use crate::browser;
use crate::error::Error;
use crate::files::{self, content};
use crate::holder::{Holder, Role};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use std::fs;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

/// Days for which the certificate of an authority is valid.
const AUTHORITY_DAYS: u32 = 7_300;
/// A certificate is valid this long before it is made, because the clocks of two hosts differ. Unit: seconds.
const EARLIER: i64 = 3_600;
const DAY: i64 = 86_400;

/// An authority, with its private key.
pub struct Authority {
    directory: PathBuf,
    /// Certificate of the authority.
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A certificate that an authority has issued to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    /// Name and role of the client.
    pub holder: Holder,
    /// Serial number of the certificate.
    pub serial: Vec<u8>,
    /// End of the validity.
    pub until: Timestamp,
    /// Whether the certificate is revoked.
    pub is_revoked: bool,
}

impl Issued {
    /// Returns whether a service accepts the certificate now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.is_revoked && Timestamp::now() <= self.until
    }
}

impl Authority {
    /// Makes an authority in `directory`, and a certificate for a service with these host names and IP addresses, valid for
    /// `days`.
    ///
    /// # Errors
    /// The directory has an authority already, or a file cannot be written.
    pub fn init(directory: &Path, hosts: &[String], days: u32) -> Result<Authority, Error> {
        for name in [files::AUTHORITY, files::AUTHORITY_KEY] {
            let path = directory.join(name);
            if path.exists() {
                return Err(Error::Exists(path));
            }
        }
        // The names are checked before a file is made.
        of_hosts(hosts)?;
        files::make_directory(&directory.join(files::ISSUED))?;
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = valid_for(CertificateParams::default(), AUTHORITY_DAYS);
        params.distinguished_name = subject("Tactus authority", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        files::write(&directory.join(files::AUTHORITY_KEY), key.serialize_pem())?;
        files::write(&directory.join(files::AUTHORITY), &certificate)?;
        let authority = Authority::open(directory)?;
        authority.write_revoked(Vec::new())?;
        authority.issue_to_service(hosts, days)?;
        Ok(authority)
    }

    /// Opens the authority in `directory`.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn open(directory: &Path) -> Result<Authority, Error> {
        let (path, key) = (directory.join(files::AUTHORITY), directory.join(files::AUTHORITY_KEY));
        let certificate = files::read(&path)?;
        let pair = KeyPair::from_pem(&files::read(&key)?).map_err(|error| content(&key, &error.to_string()))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, pair);
        let issuer = issuer.map_err(|error| content(&path, &error.to_string()))?;
        Ok(Authority { directory: directory.to_path_buf(), certificate, issuer })
    }

    /// Replaces the certificate of the service.
    ///
    /// # Errors
    /// A name is none, or a file cannot be written.
    pub fn issue_to_service(&self, hosts: &[String], days: u32) -> Result<(), Error> {
        let mut params = valid_for(of_hosts(hosts)?, days);
        params.distinguished_name = subject(hosts.first().map_or("Tactus", String::as_str), None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (certificate, key) = self.signed(params)?;
        files::write(&self.directory.join(files::SERVER_KEY), &key)?;
        files::write(&self.directory.join(files::SERVER), &certificate)
    }

    /// Makes a certificate for the client `name`, valid for `days`, and writes what the client needs into the directory `to`.
    /// Returns the certificate, and the password of the file for browsers.
    ///
    /// # Errors
    /// The name is none, a client of this name has a valid certificate, or a file exists already or cannot be written.
    pub fn issue(&self, name: &str, role: Role, days: u32, to: &Path) -> Result<(Issued, String), Error> {
        let copy = self.copy_of(name)?;
        let _lock = files::lock(&self.directory)?;
        if self.issued_in(&copy)?.iter().any(Issued::is_valid) {
            return Err(Error::HasOne(name.to_string()));
        }
        for file in [files::CLIENT, files::CLIENT_KEY, files::CLIENT_BROWSER] {
            let path = to.join(file);
            if path.exists() {
                return Err(Error::Exists(path));
            }
        }
        let mut params = valid_for(CertificateParams::default(), days);
        params.distinguished_name = subject(name, Some(role));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = self.signed(params)?;
        let (for_browsers, password) = browser::pkcs12(name, [&certificate, &self.certificate], &key)?;
        files::make_directory(to)?;
        // The copy comes first: what exists can be revoked.
        let earlier = if copy.exists() { files::read(&copy)? } else { String::new() };
        files::write(&copy, &(earlier + &certificate))?;
        files::write(&to.join(files::AUTHORITY), &self.certificate)?;
        files::write(&to.join(files::CLIENT_KEY), &key)?;
        files::write(&to.join(files::CLIENT_BROWSER), for_browsers)?;
        files::write(&to.join(files::CLIENT), &certificate)?;
        let missing = || content(&copy, "it has no certificate");
        Ok((self.issued_in(&copy)?.pop().ok_or_else(missing)?, password))
    }

    /// Revokes all certificates of the client `name`. The service refuses them for new connections. Returns their number.
    ///
    /// # Errors
    /// No certificate was issued to the client, or a file cannot be written.
    pub fn revoke(&self, name: &str) -> Result<usize, Error> {
        let copy = self.copy_of(name)?;
        let _lock = files::lock(&self.directory)?;
        let all = self.issued_in(&copy)?;
        if all.is_empty() {
            return Err(Error::Unknown(name.to_string()));
        }
        let mut revoked = self.revoked()?;
        let new: Vec<&Issued> = all.iter().filter(|it| !it.is_revoked).collect();
        revoked.extend(new.iter().map(|it| (it.serial.clone(), Timestamp::now().as_second())));
        self.write_revoked(revoked)?;
        Ok(new.len())
    }

    /// Returns the certificates of all clients, by name.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn issued(&self) -> Result<Vec<Issued>, Error> {
        let directory = self.directory.join(files::ISSUED);
        let read = |error| Error::File { action: "read", path: directory.clone(), error };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&directory).map_err(read)? {
            let path = entry.map_err(read)?.path();
            if path.extension().is_some_and(|it| it == "pem") {
                paths.push(path);
            }
        }
        paths.sort();
        let all = paths.iter().map(|path| self.issued_in(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Returns the path of the copies of the certificates of the client `name`.
    fn copy_of(&self, name: &str) -> Result<PathBuf, Error> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if name.len() > 64 || !begins || !name.chars().all(is_of_name) {
            return Err(Error::Name(name.to_string()));
        }
        Ok(self.directory.join(files::ISSUED).join(format!("{name}.pem")))
    }

    /// Returns the certificates in a file, none if it does not exist.
    fn issued_in(&self, path: &Path) -> Result<Vec<Issued>, Error> {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let revoked = self.revoked()?;
        let read = |certificate: &CertificateDer<'_>| {
            let broken = |why: String| content(path, &why);
            let (_, parsed) =
                X509Certificate::from_der(certificate).map_err(|error| content(path, &error.to_string()))?;
            let holder = Holder::of(certificate).map_err(|error| broken(error.to_string()))?;
            let serial = parsed.raw_serial().to_vec();
            let until = Timestamp::from_second(parsed.validity().not_after.timestamp());
            let until = until.map_err(|error| broken(error.to_string()))?;
            let is_revoked = revoked.iter().any(|(other, _)| *other == serial);
            Ok(Issued { holder, serial, until, is_revoked })
        };
        files::certificates(path)?.iter().map(read).collect()
    }

    /// Returns the revoked serial numbers, and the times of their revocation in seconds since 1970.
    fn revoked(&self) -> Result<Vec<(Vec<u8>, i64)>, Error> {
        let path = self.directory.join(files::REVOKED);
        let mut all = Vec::new();
        for list in files::revocations(&path)? {
            let parsed = CertificateRevocationList::from_der(&list);
            let (_, parsed) = parsed.map_err(|error| content(&path, &error.to_string()))?;
            let entries = parsed.iter_revoked_certificates();
            all.extend(entries.map(|it| (it.raw_serial().to_vec(), it.revocation_date.timestamp())));
        }
        Ok(all)
    }

    fn write_revoked(&self, revoked: Vec<(Vec<u8>, i64)>) -> Result<(), Error> {
        let now = Timestamp::now().as_second();
        let revoked_certs = revoked.into_iter().map(|(serial, at)| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: at_second(at),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: at_second(now),
            next_update: at_second(now + DAY * i64::from(AUTHORITY_DAYS)),
            // Increases with each list, unless the clock is set back.
            crl_number: SerialNumber::from(now.unsigned_abs()),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let text = list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(failed)?;
        files::write(&self.directory.join(files::REVOKED), &text)
    }

    /// Returns a signed certificate and its private key, as PEM.
    fn signed(&self, mut params: CertificateParams) -> Result<(String, String), Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// Returns the parameters of a certificate for a service with these host names and IP addresses.
fn of_hosts(hosts: &[String]) -> Result<CertificateParams, Error> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || ".-:*".contains(c);
    if let Some(wrong) = hosts.iter().find(|host| host.is_empty() || !host.chars().all(is_of_name)) {
        return Err(Error::HostName(wrong.clone()));
    }
    CertificateParams::new(hosts).map_err(failed)
}

fn subject(name: &str, role: Option<Role>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(role) = role {
        subject.push(DnType::OrganizationalUnitName, role.word());
    }
    subject
}

fn valid_for(mut params: CertificateParams, days: u32) -> CertificateParams {
    let now = Timestamp::now().as_second();
    params.not_before = at_second(now - EARLIER);
    params.not_after = at_second(now + DAY * i64::from(days));
    params
}

fn at_second(second: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(second).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn failed(error: rcgen::Error) -> Error {
    Error::Failed(error.to_string())
}
