//! Certificates of the service and its clients.
//!
//! An [`Authority`] signs the certificate of a service and those of its clients. A client's certificate carries a name and a
//! [`Role`], so the service needs no list of users. Both sides speak TLS 1.3 and no earlier version, and accept only
//! certificates of the authority.
//!
//! ```text
//!   directory of the authority and the service      directory of a client
//!   authority.pem  certificate of the authority     authority.pem  copy
//!   authority.key  its private key                  client.pem     certificate of the client
//!   server.pem     certificate of the service       client.key     its private key
//!   server.key     its private key
//!   revoked.pem    revoked certificates (a CRL)
//!   issued/        copies of the clients' certificates
//! ```
//!
//! The service reads `authority.pem`, `server.pem`, `server.key` and `revoked.pem` only, so `authority.key` may be kept on
//! another machine.

mod authority;
mod browser;
mod error;
mod files;
mod holder;
mod tls;

pub use authority::{Authority, Issued};
pub use error::Error;
pub use holder::{Holder, Role};
pub use tls::{ServerTls, client, client_without_tls};
