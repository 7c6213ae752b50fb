//! [`Environment`]: a virtual environment of Python with packages from PyPI, in a folder of `target`.

use crate::component::{self, works};
use crate::root::{root, typed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A virtual environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment {
    /// Folder of the environment.
    pub(crate) folder: &'static str,
    /// Packages from PyPI, each with its version.
    pub(crate) packages: &'static [&'static str],
    /// Python code that succeeds if the packages are installed.
    pub(crate) check: &'static str,
}

/// The installer: it resolves and installs a hundred packages in seconds.
const UV: &str = "uv==0.13.9";

impl Environment {
    /// Returns the path of Python in the environment. Creates the environment if it does not exist or lacks a package.
    ///
    /// # Errors
    /// The reason why the environment cannot be created.
    pub(crate) fn python(self) -> Result<PathBuf, String> {
        component::python()?;
        let path = root().join(self.folder);
        let python = path.join("bin/python");
        if self.is_complete(&path) {
            return Ok(python);
        }
        println!("      making {} with {} from PyPI", self.folder, self.packages.join(", "));
        if !works(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&path)) {
            return Err(format!("python3 -m venv failed: no environment {}", self.folder));
        }
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV]);
        let mut uv = Command::new(path.join("bin/uv"));
        uv.args(["pip", "install", "--quiet", "--python"]).arg(&python).args(self.packages);
        for command in [&mut pip, &mut uv] {
            if !works(command) {
                return Err(format!("{} failed (no network?)", typed(command)));
            }
        }
        // The list of packages is written last, so that an interrupted installation is repeated.
        match std::fs::write(path.join(LIST), self.packages.join("\n")) {
            Ok(()) if self.is_complete(&path) => Ok(python),
            Ok(()) => Err(format!("`{}` fails in {}", self.check, self.folder)),
            Err(why) => Err(format!("{} cannot be written: {why}", path.join(LIST).display())),
        }
    }

    fn is_complete(self, path: &Path) -> bool {
        let listed = std::fs::read_to_string(path.join(LIST)).unwrap_or_default();
        listed == self.packages.join("\n") && works(Command::new(path.join("bin/python")).args(["-c", self.check]))
    }
}

/// Name of the file with the installed packages.
const LIST: &str = "packages.txt";
