//! [`complain`]: messages to the operator.

use std::io::{self, Write};

/// Writes a message to standard error. A closed standard error is no error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
