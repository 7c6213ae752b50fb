//! Which file a command names, and becoming it.

use super::work::start;
use crate::Reason;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use sys::{clock, launch, privileges, process};

/// The program that `name` names: a path, if there is a `/` in it, or else a file in one of the directories of `path`.
///
/// # Errors
/// There is none, or it may not be run.
pub fn find(name: &str, path: Option<&OsStr>) -> Result<PathBuf, Reason> {
    if name.is_empty() {
        return Err(Reason::new("the command has no name", "the name of a program, or a path to one"));
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

/// There is no such name anywhere.
fn unknown(name: &str) -> Reason {
    let right = match Path::new(name).is_file() {
        true => format!("./{name} for the file of this name here, or the name of a program in PATH"),
        false => "the name of a program in PATH, or a path to one".to_string(),
    };
    Reason::new(format!("there is no command `{name}` in PATH"), right)
}

/// The file `file` is there, perhaps, but no program.
fn refused(file: &Path, name: &str) -> Reason {
    let shown = file.display();
    match file.metadata() {
        Err(error) => {
            Reason::new(format!("the command `{name}` cannot be run: {error}"), "the path of a file that is a program")
        }
        Ok(about) if about.is_dir() => {
            Reason::new(format!("{shown} is a directory"), "the path of a file that is a program")
        }
        Ok(_) => Reason::new(
            format!("{shown} is not a program that this user may run"),
            format!("a file with the right to execute it, which `chmod +x {shown}` gives"),
        ),
    }
}

/// Waits at the inherited gate `gate`, and becomes the program that `argv` names at the moment that is said there. It comes
/// back where there is no such program any more; where the gate is shut for good, the process ends instead. `files` is how
/// many files it may have open, if who began it has raised that for itself.
pub fn launch(gate: i32, files: Option<u64>, argv: &[String]) -> Reason {
    let begun = launch::inherited(gate).map_err(Reason::from).and_then(|gate| start(&mut File::from(gate)));
    match begun {
        Ok(Some(at)) => clock::sleep_until(at),
        Ok(None) => std::process::exit(0),
        Err(reason) => return reason,
    }
    if let Some(Err(error)) = files.map(privileges::set_file_limit) {
        return error.into();
    }
    // We go on where a terminal is another's; a command does as ever.
    process::heed_terminal();
    let Some((name, arguments)) = argv.split_first() else {
        return Reason::new("there is no command", "the name of a program");
    };
    let error = Command::new(name).args(arguments).exec();
    let right = "a program for this machine, or a script that begins with #! and the path of what runs it";
    Reason::new(format!("cannot run `{name}`: {error}"), right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(name: &str, path: &str) -> (String, String) {
        let Reason { why, remedy } = find(name, Some(OsStr::new(path))).unwrap_err();
        (why, remedy)
    }

    #[test]
    fn a_command_is_found_as_a_shell_finds_it() {
        let found = |name, path: &str| find(name, Some(OsStr::new(path))).unwrap();
        assert_eq!(found("sh", "/no/such/place:/proc:/bin"), Path::new("/bin/sh"));
        assert_eq!(found("/bin/sh", ""), Path::new("/bin/sh"));
    }

    #[test]
    fn what_is_no_program_is_refused_with_what_would_be_right() {
        assert_eq!(
            why("no-such-command", "/bin"),
            (
                "there is no command `no-such-command` in PATH".into(),
                "the name of a program in PATH, or a path to one".into()
            )
        );
        assert!(why("Cargo.toml", "/bin").1.starts_with("./Cargo.toml for the file of this name here"));
        assert_eq!(why("/proc", "").0, "/proc is a directory");
        assert_eq!(why("self", "/proc").0, "/proc/self is a directory");
        let (reason, right) = why("version", "/proc");
        assert_eq!(reason, "/proc/version is not a program that this user may run");
        assert!(right.contains("chmod +x /proc/version"), "{right}");
        assert!(why("./none", "/bin").0.contains("No such file"));
        assert_eq!(why("", "/bin").0, "the command has no name");
    }
}
