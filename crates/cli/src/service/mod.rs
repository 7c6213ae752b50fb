//! The service of an operator, and its clients.

mod changes;
mod observe;
mod own_core;
mod page;
mod places;
mod schedinfo;
mod serve;
mod settings;
mod top;
mod views;

pub(crate) use changes::{pause, resume, set, unset};
pub(crate) use observe::observe;
pub(crate) use page::page;
pub(crate) use schedinfo::schedinfo;
pub(crate) use serve::serve;
pub(crate) use top::{Order, top};
pub(crate) use views::{events, list, show};
