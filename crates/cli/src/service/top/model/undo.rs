//! [`Undo`]: how a change of this session is undone.

use super::super::requests::Change;

/// The changes that undo a change of this session.
#[derive(Debug)]
pub(super) struct Undo(pub(super) Vec<Change>);
