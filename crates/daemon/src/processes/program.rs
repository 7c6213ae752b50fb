//! Lookup and execution of a command's program.

use super::work::start;
use crate::Explanation;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use sys::{clock, launch};

/// Returns the file of program `name`: `name` itself if `name` contains `/`, otherwise the first executable file of
/// this name in the directories of `path`.
///
/// # Errors
/// The file does not exist, or is not executable.
pub fn find(name: &str, path: Option<&OsStr>) -> Result<PathBuf, Explanation> {
    if name.is_empty() {
        return Err(Explanation::new("the command has no name", "give the name of a program, or a path to one"));
    }
    if name.contains('/') {
        let file = PathBuf::from(name);
        return if launch::may_run(&file) { Ok(file) } else { Err(refused(&file, name)) };
    }
    let mut met = None;
    for directory in std::env::split_paths(path.unwrap_or_default()) {
        let file = directory.join(name);
        if launch::may_run(&file) {
            return Ok(file);
        }
        if file.exists() {
            met.get_or_insert(file);
        }
    }
    Err(met.map_or_else(|| unknown(name), |file| refused(&file, name)))
}

/// Returns the explanation that no file has this name.
fn unknown(name: &str) -> Explanation {
    let right = match Path::new(name).is_file() {
        true => format!("use ./{name} for the file in this directory, or the name of a program in PATH"),
        false => "use the name of a program in PATH, or a path to one".to_string(),
    };
    Explanation::new(format!("there is no command `{name}` in PATH"), right)
}

/// Returns the explanation why `file` cannot be executed.
fn refused(file: &Path, name: &str) -> Explanation {
    let shown = file.display();
    match file.metadata() {
        Err(error) => Explanation::new(
            format!("the command `{name}` cannot be run: {error}"),
            "give the path of an executable file",
        ),
        Ok(about) if about.is_dir() => {
            Explanation::new(format!("{shown} is a directory"), "give the path of an executable file")
        }
        Ok(_) => Explanation::new(
            format!("{shown} is not executable for this user"),
            format!("make it executable with `chmod +x {shown}`"),
        ),
    }
}

/// Waits at the inherited gate `gate`, and executes the program of `argv` at the time that the gate delivers. Returns
/// only on failure. If the gate closes without a time, the process exits.
pub fn launch(gate: i32, argv: &[String]) -> Explanation {
    let begun = launch::inherited(gate).map_err(Explanation::from).and_then(|gate| start(&mut File::from(gate)));
    match begun {
        Ok(Some(at)) => clock::sleep_until(at),
        Ok(None) => std::process::exit(0),
        Err(reason) => return reason,
    }
    let Some((name, arguments)) = argv.split_first() else {
        return Explanation::new("there is no command", "give the name of a program");
    };
    let error = Command::new(name).args(arguments).exec();
    let right = "use a program for this machine, or a script that starts with #! and the path of its interpreter";
    Explanation::new(format!("cannot run `{name}`: {error}"), right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(name: &str, path: &str) -> (String, String) {
        let Explanation { reason, remedy } = find(name, Some(OsStr::new(path))).unwrap_err();
        (reason.to_string(), remedy.to_string())
    }

    #[test]
    fn a_command_is_found_as_a_shell_finds_it() {
        let found = |name, path: &str| find(name, Some(OsStr::new(path))).unwrap();
        assert_eq!(found("sh", "/no/such/place:/proc:/bin"), Path::new("/bin/sh"));
        assert_eq!(found("/bin/sh", ""), Path::new("/bin/sh"));
    }

    #[test]
    fn a_file_that_is_no_program_is_refused_with_a_remedy() {
        assert_eq!(
            why("no-such-command", "/bin"),
            (
                "there is no command `no-such-command` in PATH".into(),
                "use the name of a program in PATH, or a path to one".into()
            )
        );
        assert!(why("Cargo.toml", "/bin").1.starts_with("use ./Cargo.toml for the file in this directory"));
        assert_eq!(why("/proc", "").0, "/proc is a directory");
        assert_eq!(why("self", "/proc").0, "/proc/self is a directory");
        let (reason, right) = why("version", "/proc");
        assert_eq!(reason, "/proc/version is not executable for this user");
        assert!(right.contains("chmod +x /proc/version"), "{right}");
        assert!(why("./none", "/bin").0.contains("No such file"));
        assert_eq!(why("", "/bin").0, "the command has no name");
    }
}
