//! [`Paper`]: the claims of one source, and the experiments that test these claims.

use crate::claim::Claim;
use crate::claims_file::{self, Claims};
use crate::evidence::{self, Given, PARAMETERS, RULES, Rules, Written};
use crate::experiment::Experiment;
use crate::lock::{Entries, Ledger};
use crate::printed::Printed;
use crate::problem::{Problem, read};
use crate::results::{RECORDED, Results};
use crate::varied::{Varied, recorded};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
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
    /// Parameters that several experiments use, by name.
    pub parameters: IndexMap<String, Given>,
    /// Numbers that the source prints.
    pub printed: Printed,
    /// The first values and the changes of all bounds and parameters.
    pub ledger: Ledger,
    /// The recorded verdicts under other values of parameters.
    pub robust: Vec<Varied>,
    /// The live part: the claims that real processes on a host can test, with experiments of their own.
    pub live: Option<Box<Paper>>,
}

/// Directory of the live part in the directory of a paper.
const LIVE: &str = "live";

impl Paper {
    /// Reads the paper in `directory`.
    ///
    /// # Errors
    /// A file cannot be read, or has invalid content.
    pub fn read(directory: &Path) -> Result<Paper, Problem> {
        let suite = directory.parent().unwrap_or(directory);
        Paper::with_rules(directory, &optional(&suite.join(RULES))?)
    }

    fn with_rules(directory: &Path, rules: &Rules) -> Result<Paper, Problem> {
        let printed = Printed::of(directory)?;
        let Claims { source, method, claims } = claims_file::read(&directory.join("claims.toml"), rules, &printed)?;
        let path = directory.join(PARAMETERS);
        let parameters: IndexMap<String, Written> = optional(&path)?;
        let parameters = evidence::all(parameters, rules)
            .map_err(|why| Problem::wrong(&path, why, "{ value, kind, origin, reason } or { value, rule }"))?;
        let mut files = listed(&directory.join("experiments"))?;
        files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
        let experiments: Result<Vec<Experiment>, Problem> =
            files.iter().map(|file| Experiment::read(file, directory, rules, &parameters, &printed)).collect();
        let experiments = experiments?;
        check(&claims, &experiments)?;
        let key = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let live = directory.join(LIVE);
        let live = live.is_dir().then(|| Paper::with_rules(&live, rules)).transpose()?;
        let live = live.map(|live| Box::new(Paper { key: format!("{key}/{LIVE}"), ..live }));
        let (ledger, robust) = (Ledger::read(directory)?, recorded(directory)?);
        let directory = directory.to_path_buf();
        Ok(Paper { key, directory, source, method, claims, experiments, parameters, printed, ledger, robust, live })
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

    /// Returns the paper and its live part, if any.
    pub fn parts(&self) -> impl Iterator<Item = &Paper> {
        std::iter::once(self).chain(self.live.as_deref())
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

    /// Returns every bound and parameter of the paper by its key in the ledger.
    #[must_use]
    pub fn given(&self) -> Entries<'_> {
        let mut all = Entries::new();
        for claim in &self.claims {
            for check in &claim.check {
                all.extend(check.given().map(|(name, given)| (key_of_bound(&claim.id, &check.what, name), given)));
            }
        }
        all.extend(self.parameters.iter().map(|(name, given)| (key_of_parameter(None, name), given)));
        for it in &self.experiments {
            let usual = it.set.iter().map(|(name, given)| (key_of_parameter(Some(&it.name), name), given));
            all.extend(usual);
            let full = it.full.set.iter().map(|(name, given)| (format!("{} · full · {name}", it.name), given));
            all.extend(full);
        }
        all
    }

    /// Returns the parameters of `experiment` with their keys in the ledger.
    pub(crate) fn parameters_of<'p>(
        &'p self,
        experiment: &'p Experiment,
    ) -> impl Iterator<Item = (String, &'p str, &'p Given)> {
        let own = experiment.set.iter().map(|(name, it)| (key_of_parameter(Some(&experiment.name), name), name, it));
        let shared = experiment.parameters.iter().map(|(name, it)| (key_of_parameter(None, name), name, it));
        own.chain(shared).map(|(key, name, it)| (key, name.as_str(), it))
    }

    /// Returns the experiments that test the claim `id`.
    pub fn experiments_of<'p>(&'p self, id: &'p str) -> impl Iterator<Item = &'p Experiment> {
        self.experiments.iter().filter(move |experiment| experiment.claims.iter().any(|claim| claim == id))
    }
}

/// Returns the key of the bound `name` of a check in the ledger. `what` is the subject of the check.
pub(crate) fn key_of_bound(claim: &str, what: &str, name: &str) -> String {
    format!("{claim} · {what} · {name}")
}

/// Returns the key of a parameter in the ledger. `None`: a parameter of the paper.
fn key_of_parameter(experiment: Option<&str>, name: &str) -> String {
    format!("{} · {name}", experiment.unwrap_or("all experiments"))
}

/// Checks that the experiments and their pictures belong to the claims, and that no two checks or pictures have the
/// same name.
fn check(claims: &[Claim], experiments: &[Experiment]) -> Result<(), Problem> {
    let ids: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    for experiment in experiments {
        if let Some(unknown) = experiment.claims.iter().find(|id| !ids.contains(&id.as_str())) {
            let right = format!("some of {}", ids.join(", "));
            return Err(Problem::wrong(&experiment.path, format!("there is no claim `{unknown}`"), right));
        }
    }
    let mut pictures: Vec<&str> = Vec::new();
    for experiment in experiments {
        for name in experiment.pictures() {
            if pictures.contains(&name) {
                let what = format!("there are two pictures `{name}`");
                return Err(Problem::wrong(&experiment.path, what, "a name of its own within the paper"));
            }
            pictures.push(name);
        }
    }
    Ok(())
}

/// Reads the TOML file at `path`. An absent file has no entries.
fn optional<T: Default + DeserializeOwned>(path: &Path) -> Result<T, Problem> {
    if !path.exists() {
        return Ok(T::default());
    }
    let right = "values as docs/experiments.md describes them";
    toml::from_str(&read(path)?).map_err(|why| Problem::wrong(path, why.to_string().trim_end(), right))
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
