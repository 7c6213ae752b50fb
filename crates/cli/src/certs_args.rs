//! The command line of `tactus certs`.

use certs::Role;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Days for which a certificate is valid by default.
const DAYS: u32 = 365;
/// Longest validity. Unit: days.
const DAYS_MOST: i64 = 3_650;

#[derive(Args, Debug)]
pub(crate) struct Certs {
    #[command(subcommand)]
    pub(crate) command: CertsCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CertsCommand {
    /// Make an authority, and the certificate of a service
    Init(ForService),
    /// Replace the certificate of a service; the service uses it for the next connection
    Renew(ForService),
    /// Make a certificate for a client, in a directory for the client's --certs
    Issue(Issue),
    /// Revoke all certificates of a client; the service refuses new connections with them
    Revoke(Revoke),
    /// List the certificates of the clients
    List(CertsList),
}

/// The directory of an authority.
#[derive(Args, Debug)]
pub(crate) struct AtAuthority {
    /// Directory of the authority
    #[arg(long, value_name = "DIR", default_value = "/etc/tactus/certs")]
    pub(crate) certs: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct ForService {
    /// Name or IP address by which clients reach the service; repeat it for further ones
    #[arg(long = "name", value_name = "HOST", required = true)]
    pub(crate) names: Vec<String>,
    /// Days for which the certificate of the service is valid
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=DAYS_MOST))]
    pub(crate) days: u32,
    #[command(flatten)]
    pub(crate) at: AtAuthority,
}

#[derive(Args, Debug)]
pub(crate) struct Issue {
    /// Name of the client, for the audit log
    pub(crate) name: String,
    /// What the client may do: view; operate, which includes changes of VMs; or admin, which includes changes of all processes
    #[arg(long, value_parser = roles())]
    pub(crate) role: Role,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=DAYS_MOST))]
    pub(crate) days: u32,
    /// Directory for the client's files; by default NAME in the current directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) at: AtAuthority,
}

#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// Name of the client
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) at: AtAuthority,
}

#[derive(Args, Debug)]
pub(crate) struct CertsList {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: AtAuthority,
}

fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::word)).try_map(|word| word.parse().map_err(|()| "not a role"))
}
