//! [`Captured`]: the standard output of a command, read while the command runs.

use std::io::Read;
use std::process::ChildStdout;
use std::thread::JoinHandle;

/// Maximum length of the captured output. A longer output is read to its end, so that the command does not wait.
const LENGTH_MAX: usize = 1 << 20;

/// The output of a command.
#[derive(Debug)]
pub(super) struct Captured {
    reader: JoinHandle<Vec<u8>>,
}

impl Captured {
    /// Begins to read `output`.
    pub(super) fn begin(mut output: ChildStdout) -> Captured {
        let reader = std::thread::spawn(move || {
            let (mut all, mut some) = (Vec::new(), [0; 4096]);
            while let Ok(length @ 1..) = output.read(&mut some) {
                let room = LENGTH_MAX - all.len();
                all.extend_from_slice(&some[..length.min(room)]);
            }
            all
        });
        Captured { reader }
    }

    /// Returns the output, as far as it is UTF-8. Waits until every process that has the pipe has closed it.
    pub(super) fn end(self) -> String {
        String::from_utf8_lossy(&self.reader.join().unwrap_or_default()).into_owned()
    }
}
