//! [`Paper`]: the claims of one source, and the experiments that test these claims.

use crate::claim::{self, Claim};
use crate::experiment::Experiment;
use crate::problem::{Problem, read};
use crate::results::{RECORDED, Results};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A directory of `papers/`.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Name of the directory.
    pub key: String,
    /// Path of the directory.
    pub directory: PathBuf,
    /// Authors, title and year of the source.
    pub source: String,
    /// Choices of machines, knobs and anchors, and which of them were changed after the first results.
    pub method: String,
    /// Claims of the source, in the order of the file.
    pub claims: Vec<Claim>,
    /// Experiments, in the order of their names.
    pub experiments: Vec<Experiment>,
    /// The live part: the claims that real processes on a host can test, with experiments of their own.
    pub live: Option<Box<Paper>>,
}

/// Directory of the live part in the directory of a paper.
const LIVE: &str = "live";

/// Content of `claims.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: String,
    method: String,
    claim: Vec<Claim>,
}

impl Paper {
    /// Reads the paper in `directory`.
    ///
    /// # Errors
    /// A file cannot be read, or has invalid content.
    pub fn read(directory: &Path) -> Result<Paper, Problem> {
        let path = directory.join("claims.toml");
        let file: File = toml::from_str(&read(&path)?).map_err(|why| {
            Problem::wrong(&path, why.to_string().trim_end(), "claims as docs/experiments.md describes them")
        })?;
        claim::check(&path, &file.claim)?;
        let mut files = listed(&directory.join("experiments"))?;
        files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
        let experiments: Result<Vec<Experiment>, Problem> =
            files.iter().map(|file| Experiment::read(file, directory)).collect();
        let experiments = experiments?;
        let ids: Vec<&str> = file.claim.iter().map(|claim| claim.id.as_str()).collect();
        for experiment in &experiments {
            if let Some(unknown) = experiment.claims.iter().find(|id| !ids.contains(&id.as_str())) {
                let right = format!("some of {}", ids.join(", "));
                return Err(Problem::wrong(&experiment.path, format!("there is no claim `{unknown}`"), right));
            }
        }
        let mut pictures: Vec<&str> = Vec::new();
        for experiment in &experiments {
            for name in experiment.pictures() {
                if pictures.contains(&name) {
                    let what = format!("there are two pictures `{name}`");
                    return Err(Problem::wrong(&experiment.path, what, "a name of its own within the paper"));
                }
                pictures.push(name);
            }
        }
        let key = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let File { source, method, claim } = file;
        let live = directory.join(LIVE);
        let live = live.is_dir().then(|| Paper::read(&live)).transpose()?;
        let live = live.map(|live| Box::new(Paper { key: format!("{key}/{LIVE}"), ..live }));
        Ok(Paper { key, directory: directory.to_path_buf(), source, method, claims: claim, experiments, live })
    }

    /// Reads every paper in `directory`, in the order of their names.
    ///
    /// # Errors
    /// The errors of [`read`](Paper::read), or the directory contains no paper.
    pub fn all(directory: &Path) -> Result<Vec<Paper>, Problem> {
        if !directory.is_dir() {
            let right = "`papers/` of the repository, in the working directory or the directory of --papers";
            return Err(Problem::wrong(directory, "there is no such directory", right));
        }
        let mut directories = listed(directory)?;
        directories.retain(|it| it.join("claims.toml").is_file());
        if directories.is_empty() {
            let right = "a directory of papers, each with claims.toml and experiments/";
            return Err(Problem::wrong(directory, "there are no papers", right));
        }
        directories.iter().map(|directory| Paper::read(directory)).collect()
    }

    /// Returns whether this is the live part of a paper.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.directory.ends_with(LIVE)
    }

    /// Reads the recorded results of the paper; `None` if none are recorded.
    ///
    /// # Errors
    /// The file cannot be read, or has an invalid format.
    pub fn recorded(&self) -> Result<Option<Results>, Problem> {
        let path = self.directory.join(RECORDED);
        path.exists().then(|| Results::read(&path)).transpose()
    }

    /// Returns the experiments that test the claim `id`.
    pub fn experiments_of<'p>(&'p self, id: &'p str) -> impl Iterator<Item = &'p Experiment> {
        self.experiments.iter().filter(move |experiment| experiment.claims.iter().any(|claim| claim == id))
    }
}

/// Returns the paths in `directory`, in the order of their names.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    let unread = |why| Problem::unread(directory, why);
    let entries: Result<Vec<PathBuf>, std::io::Error> =
        std::fs::read_dir(directory).map_err(unread)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut entries = entries.map_err(unread)?;
    entries.sort();
    Ok(entries)
}
