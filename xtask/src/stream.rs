//! Runs a command and reads its output line by line. Some lines are printed at once; all lines are kept.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;

/// Output of a command, and whether the command succeeded.
pub(crate) struct Output {
    pub(crate) success: bool,
    /// Standard output and standard error, in order of arrival.
    pub(crate) text: String,
}

/// Runs `command` to its end. For each line of its output, prints the string that `show` returns, if any.
pub(crate) fn stream(command: &mut Command, show: impl Fn(&str) -> Option<String>) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let (sender, lines) = mpsc::channel();
    let out = child.stdout.take().expect("it is piped");
    let err = child.stderr.take().expect("it is piped");
    let readers = [read_lines(out, sender.clone()), read_lines(err, sender)];
    let mut text = String::new();
    for line in lines {
        if let Some(shown) = show(&line) {
            println!("{shown}");
        }
        text.push_str(&line);
        text.push('\n');
    }
    for reader in readers {
        reader.join().expect("a reader of lines does not panic");
    }
    let success = child.wait()?.success();
    Ok(Output { success, text })
}

/// Runs `command` with the input and output of this process, and returns its exit code.
pub(crate) fn pass_on(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    // A process that was killed by a signal has no exit code, and counts as failed.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

/// Starts a thread that reads `from` to its end and sends each line immediately.
pub(crate) fn read_lines(from: impl Read + Send + 'static, to: mpsc::Sender<String>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            // The send fails if the receiver no longer exists.
            if to.send(String::from_utf8_lossy(&line).trim_end().to_string()).is_err() {
                return;
            }
            line.clear();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_kept_some_are_shown_and_failure_is_noticed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo one; echo two >&2; exit 3"]);
        let output = stream(&mut shell, |_| None).unwrap();
        assert!(!output.success);
        let mut lines: Vec<&str> = output.text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["one", "two"]);
    }
}
