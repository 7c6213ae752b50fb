//! Tests that execute the binary `tactus`.

mod demo;
mod doctor;
mod input;
mod lab;
mod output;
mod page;
mod processes;
mod record;
mod release;
mod remote;
mod run;
mod seeds;
mod serve;
mod simulated_host;
mod sweeps;
mod top;
mod worlds;
mod xenmon;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Returns the path of the repository's scenario with this name.
fn scenario(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there");
    root.join("scenarios").join(name).display().to_string()
}

/// Returns the path of the oracle's smaller task set.
fn task_set() -> String {
    format!("{}/../conformance/tests/oracle/ts_A_n10_u3.0.csv", env!("CARGO_MANIFEST_DIR"))
}

/// An empty directory in which the command runs.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(TempDir::new().expect("there is room for a temporary directory"))
    }

    /// Writes a file in the directory and returns its path.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).expect("it can be written");
        path
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the names of all files in the directory, including hidden files.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("it is there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tactus"));
        command
            .args(args)
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("COLUMNS");
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        Done::from(self.command(args).output().expect("the command can be started"))
    }
}

/// The result of a command.
#[derive(Debug)]
struct Done {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Done {
        Done {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("it is text"),
            stderr: String::from_utf8(output.stderr).expect("it is text"),
        }
    }
}

impl Done {
    /// Asserts that the command succeeded without error messages. Returns its output.
    fn good(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }
}

/// Runs `tactus` in an empty directory. Asserts that the command succeeds and writes no file. Returns its output.
fn tactus(args: &[&str]) -> String {
    let place = Place::new();
    let stdout = place.run(args).good();
    assert_eq!(place.files(), [""; 0]);
    stdout
}
