//! A paper with one short experiment, in a temporary directory.

use lab::{Paper, Problem};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The tiny paper in a directory of papers.
pub(crate) struct Tiny {
    place: TempDir,
}

impl Tiny {
    pub(crate) fn new() -> Tiny {
        let tiny = Tiny { place: TempDir::new().expect("there is room") };
        for folder in ["experiments", "scenarios"] {
            std::fs::create_dir_all(tiny.path(folder)).expect("there is room");
        }
        tiny.write("claims.toml", include_str!("../tiny/claims.toml"));
        tiny.write("printed.toml", include_str!("../tiny/printed.toml"));
        tiny.write("experiments/shares.toml", include_str!("../tiny/experiments/shares.toml"));
        tiny.write("scenarios/hogs.toml", include_str!("../tiny/scenarios/hogs.toml"));
        tiny
    }

    /// Returns the directory of all papers.
    pub(crate) fn papers(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("tiny").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("it can be written");
    }

    /// Returns the tiny paper with `from` replaced by `to` in the file `name`.
    pub(crate) fn but(name: &str, from: &str, to: &str) -> Tiny {
        let tiny = Tiny::new();
        let text = std::fs::read_to_string(tiny.path(name)).expect("it is there");
        assert!(text.contains(from), "{from}");
        tiny.write(name, &text.replacen(from, to, 1));
        tiny
    }

    /// Replaces the weight 3072 by `weight` in the experiment. The smoke set then has only this weight.
    pub(crate) fn with_smoke(self, weight: u32) -> Tiny {
        let text = std::fs::read_to_string(self.path("experiments/shares.toml")).expect("it is there");
        self.write("experiments/shares.toml", &text.replace("3072", &weight.to_string()));
        self
    }

    pub(crate) fn read(&self) -> Result<Vec<Paper>, Problem> {
        Paper::all(self.papers())
    }

    pub(crate) fn paper(&self) -> Paper {
        self.read().unwrap_or_else(|problem| panic!("{problem}")).remove(0)
    }
}
