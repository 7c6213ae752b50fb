//! `cargo xtask artifact`: the table of docs/artifact.md with the costs of each claim, and the root file system in which
//! one command regenerates all results.

mod filesystem;
mod measure;
mod table;

use anyhow::Result;
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `cargo xtask artifact`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("what").required(true).args(["measure", "table", "root"])))]
pub(crate) struct Artifact {
    /// Run the experiments of each claim, measure time, memory and disk, and write the table of docs/artifact.md.
    #[arg(long)]
    measure: bool,
    /// Write the table for the present claims and experiments, and keep the measured values; measures nothing.
    #[arg(long)]
    table: bool,
    /// Make a root file system of Debian with the compiler, the sources and their dependencies: a new directory, or an
    /// archive if the name ends in `.tar`, `.tar.gz`, `.tar.xz` or `.tar.zst`.
    #[arg(long, value_name = "DIR|FILE")]
    root: Option<PathBuf>,
    /// Measure only these claims, and keep the values of the others.
    #[arg(long, value_name = "CLAIM", num_args = 1.., conflicts_with_all = ["table", "root"])]
    claims: Vec<String>,
    /// Profile of cargo in which `tactus` is built for a measurement.
    #[arg(long, value_name = "NAME", default_value = "release", conflicts_with = "root")]
    profile: String,
    /// Suite of Debian for the root file system.
    #[arg(long, default_value = "stable", conflicts_with_all = ["measure", "table"])]
    suite: String,
}

/// Writes the table, or makes the root file system.
pub(crate) fn run(artifact: &Artifact) -> Result<ExitCode> {
    match &artifact.root {
        Some(target) => filesystem::make(target, &artifact.suite)?,
        None if artifact.measure => measure::measure(&artifact.claims, &artifact.profile)?,
        None => measure::rewrite(&artifact.profile)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        artifact: Artifact,
    }

    #[test]
    fn exactly_one_purpose_of_the_artifact_command_is_named() {
        let read = |words: &str| {
            let command = Command::try_parse_from(["artifact"].into_iter().chain(words.split_whitespace()));
            command.map(|it| it.artifact).ok()
        };
        let some = read("--measure --claims A1 C5 --profile dev").expect("it is valid");
        assert_eq!((some.claims, some.profile.as_str()), (vec!["A1".to_string(), "C5".to_string()], "dev"));
        let root = read("--root target/root.tar.zst").expect("it is valid");
        assert_eq!((root.root, root.suite.as_str()), (Some(PathBuf::from("target/root.tar.zst")), "stable"));
        let refused = [
            "",
            "--measure --table",
            "--measure --root x",
            "--table --claims A1",
            "--root x --profile dev",
            "--claims A1",
        ];
        for words in refused {
            assert!(read(words).is_none(), "{words}");
        }
    }
}
