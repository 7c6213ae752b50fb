//! [`Captured`]: the standard output of a command, read while the command runs.

use std::io::Read;
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum length of the captured output. A longer output is read to its end, so that the command does not wait.
const LENGTH_MAX: usize = 1 << 20;
/// Time for which descendants of an ended command may write to its output.
const PATIENCE: Duration = Duration::from_millis(500);

/// The output of a command.
#[derive(Debug)]
pub(super) struct Captured {
    text: Arc<Mutex<Vec<u8>>>,
    /// Disconnected at the end of the output.
    end: Receiver<()>,
}

impl Captured {
    /// Begins to read `output`.
    pub(super) fn begin(mut output: ChildStdout) -> Captured {
        let (sender, end) = sync_channel(0);
        let text = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&text);
        std::thread::spawn(move || {
            let _sender = sender;
            let mut some = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut some) {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let room = LENGTH_MAX - all.len();
                all.extend_from_slice(&some[..length.min(room)]);
            }
        });
        Captured { text, end }
    }

    /// Returns the output of a command that has ended, as far as it is UTF-8.
    pub(super) fn end(self) -> String {
        // A descendant may keep the pipe open for ever.
        let _ = self.end.recv_timeout(PATIENCE);
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
