//! Downloads for later steps of `cargo xtask test`, made while the first steps compile.

use std::sync::{Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};

static DOWNLOADS: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Starts `download` in another thread.
pub(crate) fn begin(download: fn()) {
    *DOWNLOADS.lock().unwrap_or_else(PoisonError::into_inner) = Some(spawn(download));
}

/// Waits for the downloads, if they have started.
pub(crate) fn wait() {
    let downloads = DOWNLOADS.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Ignore a failed download. The step that needs a missing tool tries to install it, and reports a failure.
    downloads.map(JoinHandle::join);
}
