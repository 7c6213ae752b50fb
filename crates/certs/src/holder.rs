//! [`Holder`]: the client that a certificate names, and its [`Role`].

use crate::error::Error;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::str::FromStr;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// What a client may do. Each role includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Reads everything.
    View,
    /// Changes what is desired for VMs.
    Operate,
    /// Changes what is desired for every process, and takes over VMs whose user has changed.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::View, Role::Operate, Role::Admin];

    /// Returns the name of the role.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(word: &str) -> Result<Role, ()> {
        Role::ALL.into_iter().find(|role| role.word() == word).ok_or(())
    }
}

/// The client that a certificate names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    /// Name of the client: the common name of the subject.
    pub name: String,
    /// Role of the client: the organizational unit of the subject.
    pub role: Role,
}

impl Holder {
    /// Returns the holder of a certificate whose signature is already checked.
    ///
    /// # Errors
    /// The certificate has no name or no role.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Holder, Error> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| Error::Failed(error.to_string()))?;
        let missing = |what: &str| Error::Failed(format!("the certificate of the client has no {what}"));
        let subject = parsed.subject();
        let name = common_name(subject).ok_or_else(|| missing("name"))?;
        let mut units = subject.iter_organizational_unit();
        let unit = units.next().and_then(|unit| unit.as_str().ok()).filter(|_| units.next().is_none());
        let role = unit.and_then(|unit| unit.parse().ok()).ok_or_else(|| missing("role"))?;
        Ok(Holder { name, role })
    }
}

/// Returns the common name of a subject, if it has exactly one.
fn common_name(subject: &X509Name<'_>) -> Option<String> {
    let mut names = subject.iter_common_name().map(|name| name.as_str().ok().map(str::to_string));
    names.next().flatten().filter(|_| names.next().is_none())
}
