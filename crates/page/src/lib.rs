//! The page of the service, in a browser.
//!
//! ```text
//!   browser ──certificate───────────────▶ service: files, /v1
//!   browser ──token, cookie──▶ Page ─────▶ service, over its Unix socket
//! ```
//!
//! The service has the [files](assets) of the page beside its interface, so the page and the interface are of one version. A
//! browser on another host connects to the service with a certificate. A browser on this host cannot connect to a Unix socket,
//! so [`Page`] passes its requests on. The service sees the user that runs [`Page`]. A token admits the browser of this user.

pub mod assets;
mod entrance;
mod forward;
pub mod origin;
mod page;

pub use page::Page;
