//! Standard output, and files that appear complete or not at all.

use crate::terminal::safe;
use anyhow::{Context, anyhow};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Unfinished files, which an interrupt removes.
static DRAFTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn drafts() -> MutexGuard<'static, Vec<PathBuf>> {
    DRAFTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether interrupts are deferred.
static IN_ORDER: AtomicUsize = AtomicUsize::new(0);
/// Whether SIGINT, SIGTERM or SIGHUP was received.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Guard that defers interrupts: an interrupt only sets a flag ([`is_interrupted`]). A second interrupt ends the
/// program.
#[derive(Debug)]
pub(crate) struct InOrder;

/// Defers interrupts until the guard is dropped, so that an operation can end in order.
pub(crate) fn end_in_order() -> InOrder {
    IN_ORDER.fetch_add(1, Ordering::SeqCst);
    InOrder
}

impl Drop for InOrder {
    fn drop(&mut self) {
        IN_ORDER.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether the end of this program was requested.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Installs a handler of SIGINT, SIGTERM and SIGHUP that removes unfinished files and the control groups of trials.
pub(crate) fn clean_up_when_interrupted() -> anyhow::Result<()> {
    let handler = || {
        let again = INTERRUPTED.swap(true, Ordering::SeqCst);
        if IN_ORDER.load(Ordering::SeqCst) > 0 && !again {
            return;
        }
        // The loop holds the lock, so no file can be completed while the handler removes the unfinished files.
        for draft in drafts().drain(..) {
            // The file may have been removed already, and this handler cannot report an error to a caller.
            let _ = std::fs::remove_file(draft);
        }
        daemon::doctor::clean_up();
        std::process::exit(130);
    };
    sys::process::heeding_nohup(|| ctrlc::set_handler(handler)).context("cannot watch for interrupts")
}

/// Writes `text` to standard output. A closed pipe is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let text = safe(text, out.is_terminal());
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        _ => Ok(()),
    }
}

/// Writes `text` to standard error, unless `text` is empty. A closed standard error is no error.
pub(crate) fn complain(text: &str) {
    if !text.trim().is_empty() {
        let mut out = io::stderr().lock();
        let text = safe(text.trim_end(), out.is_terminal());
        let _ = writeln!(out, "{text}");
    }
}

/// Splits `text` between words into lines of at most `width` characters. A longer word has a line of its own.
pub(crate) fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

/// Formats `value` as indented JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    report::json(value).context("cannot write JSON")
}

/// Returns the width of tables and pictures: the terminal's width, limited to the range from 60 to 200, or 100 without
/// a terminal.
pub(crate) fn width() -> u16 {
    if !io::stdout().is_terminal() {
        return 100;
    }
    terminal_size::terminal_size().map_or(100, |(width, _)| width.0.clamp(60, 200))
}

/// Formats `text` as a heading: bold on a terminal, unless NO_COLOR is set.
pub(crate) fn heading(text: &str) -> String {
    let plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain { text.to_string() } else { format!("\x1b[1m{text}\x1b[0m") }
}

/// A file under construction. [`keep`](Draft::keep) moves the file to `target`. Without this call, dropping the value
/// removes the file.
#[derive(Debug)]
pub(crate) struct Draft {
    target: PathBuf,
    /// Path of the temporary file. `None` if the target is no regular file, such as /dev/stdout, and is written
    /// directly.
    temporary: Option<PathBuf>,
    file: File,
}

impl Draft {
    /// Starts to write `target`.
    pub(crate) fn create(target: &Path) -> anyhow::Result<Draft> {
        let cannot = || format!("cannot write {}", target.display());
        // A symbolic link is resolved to its target.
        let path = target.canonicalize().unwrap_or_else(|_| target.to_path_buf());
        if path.is_dir() {
            return Err(anyhow!("it is a directory").context(cannot()));
        }
        if path.exists() {
            // Replacing a file requires write permission only for its directory. This check prevents the replacement
            // of a read-only file.
            let file = File::options().append(true).open(&path).with_context(cannot)?;
            if !path.is_file() {
                return Ok(Draft { target: path, temporary: None, file });
            }
        }
        let name = path.file_name().ok_or_else(|| anyhow!("it names no file").context(cannot()))?;
        let temporary = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        let mut list = drafts();
        let file = File::options().write(true).create_new(true).open(&temporary).with_context(cannot)?;
        list.push(temporary.clone());
        Ok(Draft { target: path, temporary: Some(temporary), file })
    }

    /// Returns the file to write to.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Moves the complete file to its target.
    pub(crate) fn keep(mut self) -> anyhow::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let mut list = drafts();
        std::fs::rename(temporary, &self.target).with_context(|| format!("cannot write {}", self.target.display()))?;
        list.retain(|draft| draft != temporary);
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let mut list = drafts();
            // This value is dropped because of another failure, which is reported instead of this error.
            let _ = std::fs::remove_file(temporary);
            list.retain(|draft| draft != temporary);
        }
    }
}

/// Writes a file that appears complete or not at all.
pub(crate) fn keep(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut draft = Draft::create(path)?;
    draft.file().write_all(bytes).with_context(|| format!("cannot write {}", path.display()))?;
    draft.keep()?;
    Ok(())
}
