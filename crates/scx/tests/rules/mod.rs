//! [`Port`]: the rules of a port in C, compiled as an ordinary program.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The rules in C.
pub(crate) struct Port {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// All operations, for the message of a failure.
    pub(crate) log: String,
}

impl Port {
    pub(crate) fn start(program: &Path, arguments: &[&Path]) -> Port {
        let mut command = Command::new(program);
        command.args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let (to, from) = (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
        Port { child, to, from: BufReader::new(from), log: String::new() }
    }

    /// Applies an operation. Returns the words of the answer.
    pub(crate) fn apply<const N: usize>(&mut self, operation: &str) -> [String; N] {
        writeln!(self.log, "{operation}").expect("a string grows");
        writeln!(self.to, "{operation}").expect("the program reads");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the program writes");
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        words.try_into().unwrap_or_else(|_| panic!("{line:?} after\n{}", self.log))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // It has usually ended with its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles the rules `NAME.c`. `None`: there is no C compiler.
pub(crate) fn compiled(folder: &Path, name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{name}.c"));
    let program = folder.join(name);
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-Wall", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all"]);
    let status = compile.arg(source).arg("-o").arg(&program).status().ok()?;
    assert!(status.success(), "{compile:?} failed");
    Some(program)
}
