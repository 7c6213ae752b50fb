//! [`Caller`]: the client that makes a request, and its role.

use certs::{Holder, Role};
use std::fmt;

/// The client at the other end of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Caller {
    /// A process on this host, with its user ID as the kernel reports it.
    Local(u32),
    /// The holder of a certificate: name and role.
    Remote(Holder),
}

impl Caller {
    /// Returns the role of the caller. `None`: the caller reads everything and changes VMs of its own user. Root and the user
    /// of the service are administrators.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        match self {
            Caller::Local(user) => (*user == 0 || *user == sys::privileges::user()).then_some(Role::Admin),
            Caller::Remote(holder) => Some(holder.role),
        }
    }

    /// Returns the user on this host.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        match self {
            Caller::Local(user) => Some(*user),
            Caller::Remote(_) => None,
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Local(user) => write!(f, "uid:{user}"),
            Caller::Remote(holder) => write!(f, "cert:{}", holder.name),
        }
    }
}
