//! [`Dialog`]: what is shown over the list.

use super::super::requests::{Action, Change, Outcome};
use super::form::Form;

/// What is shown over the list.
#[derive(Debug)]
pub(crate) enum Dialog {
    None,
    Help,
    /// The host, the client and all warnings.
    Host,
    Form(Box<Form>),
    Confirm(Confirmation),
    /// The results of changes of several VMs.
    Results(Action, Vec<Outcome>),
}

/// Changes that the user has to confirm.
#[derive(Debug)]
pub(crate) struct Confirmation {
    pub(crate) action: Action,
    pub(crate) changes: Vec<Change>,
}
